"""Targets: the hosts that a run uses, as the inventory names them and as provisioning found them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

from benchlab.errors import TargetError, UnknownName
from benchlab.repo import Repo
from benchlab.study import Instance
from benchlab.target.host import Host

if TYPE_CHECKING:
    from ansible.inventory.manager import InventoryManager
    from ansible.vars.manager import VariableManager


class Target(BaseModel):
    """An inventory: the host with the engines, the host with the load, and whether to limit them."""

    model_config = ConfigDict(frozen=True)

    name: str
    server: Host
    client: Host
    instance: str | None
    enforce: bool

    @property
    def single_host(self) -> bool:
        """Whether the load runs where the engines run."""
        return self.server == self.client

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Each host once; the load's first, so that it ends before what it uses."""
        return (self.server,) if self.single_host else (self.client, self.server)


def names(repo: Repo) -> list[str]:
    """Names of all targets of this checkout, sorted."""
    return sorted(path.name for path in repo.inventories.iterdir() if path.is_dir())


def load(repo: Repo, name: str) -> Target:
    """Read a target from its inventory.

    Raises:
        UnknownName: no such inventory.
        TargetError: a group of the inventory does not name one host.
    """
    manager, variables = _inventory(repo, name)
    groups = manager.get_groups_dict()
    servers = groups.get("server", [])
    clients = groups.get("client") or servers
    for group, members in (("server", servers), ("client", clients)):
        if len(members) != 1:
            raise TargetError(
                f"inventory {name}: group {group!r} must name one host, has {members}"
            )
    server, client = (_host(manager, variables, group[0]) for group in (servers, clients))
    facts = variables.get_vars(host=manager.get_host(servers[0]))
    return Target(
        name=name,
        server=server,
        client=client,
        instance=facts.get("instance_type", {}).get("name"),
        enforce=facts.get("envelope_enforce", True),
    )


def instance_type(repo: Repo, name: str) -> Instance:
    """Read the figures of an instance type from the inventory of that name.

    Raises:
        UnknownName: no such inventory.
        TargetError: the inventory is not one of an instance type.
    """
    path = _folder(repo, name) / "group_vars" / "all.yml"
    variables = YAML(typ="safe").load(path) or {}
    if "instance_type" not in variables:
        raise TargetError(f"{path} has no variable instance_type")
    return Instance.model_validate(variables["instance_type"])


def _folder(repo: Repo, name: str) -> Path:
    folder = repo.inventories / name
    if not folder.is_dir():
        raise UnknownName("target", name, names(repo))
    return folder


def _inventory(repo: Repo, name: str) -> tuple[InventoryManager, VariableManager]:
    # half a second to import, which no run notebook needs
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.vars.manager import VariableManager

    folder = _folder(repo, name)
    loader = DataLoader()
    manager = InventoryManager(loader=loader, sources=[str(folder)])
    return manager, VariableManager(loader=loader, inventory=manager)


def _host(manager: InventoryManager, variables: VariableManager, name: str) -> Host:
    facts = variables.get_vars(host=manager.get_host(name))
    address = str(facts.get("ansible_host", "127.0.0.1"))
    return Host(
        name=name,
        address=address,
        peer_address=str(facts.get("benchlab_address", address)),
        connection="local" if facts.get("ansible_connection") == "local" else "ssh",
        user=facts.get("ansible_user"),
        port=int(facts.get("ansible_port", 22)),
        key_file=facts.get("ansible_ssh_private_key_file"),
        ssh_arguments=shlex.split(facts.get("ansible_ssh_common_args", "")),
    )

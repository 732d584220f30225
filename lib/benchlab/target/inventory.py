"""Inventories: a target's nodes, how they are reached, and which roles they have.

A group without child groups is a role: ``db_primary`` is ``db.primary``.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from benchlab.errors import TargetError, UnknownName
from benchlab.repo import Repo
from benchlab.study import Instance
from benchlab.study.roles import LOAD, PRIMARY, is_database
from benchlab.study.strict import problem
from benchlab.target.deployment import Deployment, Node

if TYPE_CHECKING:
    from ansible.inventory.manager import InventoryManager
    from ansible.vars.manager import VariableManager


def names(repo: Repo) -> list[str]:
    """Return the names of all targets of this checkout, sorted."""
    return sorted(path.name for path in repo.inventories.iterdir() if path.is_dir())


def load(repo: Repo, name: str) -> Deployment:
    """Read the deployment that an inventory describes.

    Raises:
        UnknownName: no such inventory.
        TargetError: no node has the role ``load``, several are the primary, a host has no role, or a
            file of the inventory cannot be read.
    """
    with _errors_named(name):
        return _load(repo, name)


def _load(repo: Repo, name: str) -> Deployment:
    manager, variables = _inventory(repo, name)
    roles = _roles(manager)
    for host in manager.get_hosts():
        if host.name not in roles:
            raise TargetError(f"inventory {name}: host {host.name} is in no group, so has no role")
    _require_one_primary(name, [host for host, had in roles.items() if PRIMARY in had])
    if not any(LOAD in had for had in roles.values()):
        raise TargetError(f"inventory {name}: no host is in the group 'load'")
    nodes = [_node(manager, variables, host, roles[host]) for host in roles]
    facts = variables.get_vars(host=manager.get_host(nodes[0].name))
    return Deployment(
        name=name,
        nodes=nodes,
        enforce=facts.get("envelope_enforce", True),
        is_lab=facts.get("benchlab_lab", False),
    )


def instance_type(repo: Repo, name: str) -> Instance:
    """Read the figures of an instance type from the inventory of that name.

    Raises:
        UnknownName: no inventory of that name has the variable ``instance_type``.
        TargetError: the inventory's variables cannot be read, or these are not such figures.
    """
    figures = _instance_type(repo, name) if name else None
    if figures is None:
        known = [one for one in names(repo) if _instance_type(repo, one)]
        raise UnknownName("instance type", name, known)
    with _errors_named(name, "instance_type: "):
        return Instance.model_validate(figures)


def _instance_type(repo: Repo, name: str) -> dict | None:
    path = repo.inventories / name / "group_vars" / "all.yml"
    with _errors_named(name):
        variables = YAML(typ="safe").load(path) if path.is_file() else None
    return (variables or {}).get("instance_type")


@contextmanager
def _errors_named(name: str, variable: str = "") -> Iterator[None]:
    """Raise what is wrong with an inventory's files, or with a variable, as an error in one line.

    Raises:
        TargetError: a file cannot be parsed, or a value is not what its variable needs.
    """
    from ansible.errors import AnsibleError

    try:
        yield
    except ValidationError as error:
        raise TargetError(f"inventory {name}: {variable}{problem(error)}") from error
    except (AnsibleError, YAMLError, ValueError) as error:
        raise TargetError(f"inventory {name}: {' '.join(str(error).split())}") from error


def dsns(repo: Repo, name: str) -> dict[str, str]:
    """Return the variable ``benchlab_dsn`` of an inventory, decrypted: name → DSN.

    Raises:
        TargetError: it is encrypted, and cannot be decrypted with the password file that
            ``ANSIBLE_VAULT_PASSWORD_FILE`` names.
    """
    from ansible.errors import AnsibleError

    manager, variables = _inventory(repo, name)
    found = variables.get_vars(host=manager.get_hosts()[0]).get("benchlab_dsn", {})
    try:
        return {variable: _decrypted(dsn) for variable, dsn in found.items()}
    except AnsibleError as error:
        raise TargetError(
            f"inventory {name}: benchlab_dsn cannot be decrypted, see ANSIBLE_VAULT_PASSWORD_FILE:"
            f" {str(error).splitlines()[0]}"
        ) from error


def _decrypted(value: Any) -> str:
    from ansible.parsing.dataloader import DataLoader
    from ansible.parsing.vault import VaultHelper, VaultLib, get_file_vault_secret

    ciphertext = VaultHelper.get_ciphertext(value, with_tags=False)
    if ciphertext is None:
        return str(value)
    secrets = []
    if file := os.environ.get("ANSIBLE_VAULT_PASSWORD_FILE"):
        secret = get_file_vault_secret(filename=file, loader=DataLoader())
        secret.load()
        secrets = [("default", secret)]
    return VaultLib(secrets).decrypt(ciphertext).decode()


def _folder(repo: Repo, name: str) -> Path:
    folder = repo.inventories / name
    if not folder.is_dir():
        raise UnknownName("target", name, names(repo))
    return folder


def _inventory(repo: Repo, name: str) -> tuple[InventoryManager, VariableManager]:
    # the import takes half a second, and no run notebook needs it
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.vars.manager import VariableManager

    folder = _folder(repo, name)
    loader = DataLoader()
    manager = InventoryManager(loader=loader, sources=[str(folder)])
    return manager, VariableManager(loader=loader, inventory=manager)


def _roles(manager: InventoryManager) -> dict[str, tuple[str, ...]]:
    """Return host → roles, in the order of :attr:`Deployment.nodes`."""
    groups = [
        group
        for group in manager.groups.values()
        if group.name not in ("all", "ungrouped") and not group.child_groups
    ]
    roles = {group.name.replace("_", "."): group.hosts for group in groups}
    order = sorted(roles, key=lambda role: (role != PRIMARY, role == LOAD, not is_database(role)))
    found: dict[str, tuple[str, ...]] = {}
    for role in order:
        for host in roles[role]:
            found[host.name] = (*found.get(host.name, ()), role)
    return found


def _require_one_primary(name: str, primaries: list[str]) -> None:
    if len(primaries) > 1:
        raise TargetError(
            f"inventory {name}: group 'db_primary' must name one host, has {primaries}"
        )


def _node(
    manager: InventoryManager, variables: VariableManager, name: str, roles: tuple[str, ...]
) -> Node:
    facts = variables.get_vars(host=manager.get_host(name))
    is_local = facts.get("ansible_connection") == "local"
    # without ansible_host Ansible connects to the name
    address = str(facts.get("ansible_host", "127.0.0.1" if is_local else name))
    return Node(
        name=name,
        roles=roles,
        address=address,
        peer_address=str(facts.get("benchlab_address", address)),
        connection="local" if is_local else "ssh",
        user=facts.get("ansible_user"),
        port=int(facts.get("ansible_port", 22)),
        key_file=facts.get("ansible_ssh_private_key_file"),
        ssh_arguments=shlex.split(facts.get("ansible_ssh_common_args", "")),
    )

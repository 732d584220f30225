"""Provisioning: run the playbooks through ansible-runner, and read what they found."""

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import ansible_runner

from benchlab import drivers, plan
from benchlab.engines import Engine, engine_class
from benchlab.errors import ProvisionError, TargetError, UnknownName
from benchlab.plan.envelope import Envelope
from benchlab.repo import Repo
from benchlab.study import LogDisk, Study
from benchlab.target import (
    Deployment,
    EngineFound,
    Node,
    Provisioned,
    external,
    library,
    provisioned,
)
from benchlab.target.host import Host
from benchlab.target.provisioned import versions_after

ETC = Path("/etc/benchlab")

#: Folder in memory, if there is one: ansible-runner writes this process's environment into a file,
#: and a DSN may be in it.
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

#: With clocks further apart, a second's sample could count for the wrong phase.
_CLOCKS_APART_S = 0.5


def provision(
    repo: Repo,
    deployment: Deployment,
    study: Study,
    profile_name: str,
    envelope: Envelope,
    engines: list[str],
    on_task: Callable[[str], None] = lambda name: None,
    later: Sequence[dict] = (),
) -> Provisioned:
    """Install and tune the engines of a study on a target, and return what is there then.

    Engines that other studies need later are installed with them: packages in one transaction, and
    downloads at the same time. They are not tuned, so an engine of the same name keeps its version.

    Args:
        repo: the checkout.
        deployment: the target's nodes.
        study: gives settings and variants.
        profile_name: name of the profile, which gives the scale.
        envelope: the limits to set up.
        engines: names of engines of the study.
        on_task: called with the name of each task as it starts.
        later: variables of the other studies' engines, see :func:`engine_variables`.

    Raises:
        TargetError: a host's clock differs from this machine's.
        ProvisionError: a task failed; the message names host, task and reason.
    """
    for node in deployment.nodes:
        _check_clock(node)
    external.provide(
        repo, deployment, [one.external for one in study.engines.values() if one.external]
    )
    of_roles = provided(deployment, study, engines)
    requested = variables(study, profile_name, envelope, of_roles, later)
    playbook(repo, deployment.name, "provision", requested | _of_drivers(repo, study), on_task)
    specs = {name: study.engines[name] for name in engines}
    of_study = {
        name: external.found(deployment, name, spec.role, spec.external)
        if spec.external
        else _found(deployment, name, spec.role, spec.nodes)
        for name, spec in specs.items()
    }
    found = Provisioned(
        deployment=deployment,
        hosts={node.name: _facts(node) for node in deployment.nodes},
        engines=_known(repo, deployment) | of_study,
        last_versions=versions_after(_last_versions(repo, deployment), specs, of_study),
    )
    found.save(repo)
    return found


def install(
    repo: Repo,
    deployment: Deployment,
    study: Study,
    profile_name: str,
    envelope: Envelope,
    engines: list[str],
    on_task: Callable[[str], None] = lambda name: None,
) -> None:
    """Install on this machine what a lab's hosts need, as they see its files; see :func:`provision`.

    Raises:
        ProvisionError: a task failed; the message names host, task and reason.
    """
    of_roles = provided(deployment, study, engines)
    requested = variables(study, profile_name, envelope, of_roles) | _of_drivers(repo, study)
    playbook(repo, "local", "install", requested, on_task)


def provided(deployment: Deployment, study: Study, engines: Iterable[str]) -> list[str]:
    """Return those engines of a study that a role provides on a target.

    Engines that somebody else runs are left out, and engines for whose roles the target has no node.
    """
    return [
        name
        for name in engines
        if not study.engines[name].external
        and not _impossible(deployment, study.engines[name].role or name, study.engines[name].nodes)
    ]


def refusals(
    repo: Repo, deployment: Deployment, study: Study, engines: Iterable[str]
) -> dict[str, str]:
    """Return those engines of a study that a target will refuse, with the reason.

    It follows from the inventory and from DSNs. What roles refuse is known once they have run.
    """
    specs = {name: study.engines[name] for name in engines}
    with suppress(TargetError):  # the vault cannot be opened: the DSNs are not set
        external.provide(repo, deployment, [one.external for one in specs.values() if one.external])
    found = {
        name: external.refusal(deployment, spec.role or name, spec.external)
        if spec.external
        else _impossible(deployment, spec.role or name, spec.nodes)
        for name, spec in specs.items()
    }
    return {name: reason for name, reason in found.items() if reason}


def variables(
    study: Study,
    profile_name: str,
    envelope: Envelope,
    engines: list[str],
    later: Sequence[dict] = (),
) -> dict:
    """Return the variables of the playbook ``provision``; see ``ansible/README.md``."""
    of_study = sorted({one.driver for one in study.workloads.values()})
    return {
        "benchlab_agent_source": str(Path(__file__).parents[1] / "agent"),
        "benchlab_engines": engine_variables(study, profile_name, envelope, engines),
        "benchlab_later": list(later),
        "benchlab_log_latency": study.log_latency,
        "benchlab_drivers": of_study,
        "benchlab_with_application": [name for name in of_study if drivers.driver(name).serves],
        "envelope_cores": envelope.cores,
        "envelope_memory_bytes": envelope.memory_bytes,
        "envelope_read_bytes_per_s": envelope.read_bytes_per_s,
        "envelope_write_bytes_per_s": envelope.write_bytes_per_s,
        "envelope_read_iops": envelope.read_iops,
        "envelope_write_iops": envelope.write_iops,
        "envelope_image_bytes": envelope.disk_bytes,
        "envelope_enforce": envelope.enforce,
    }


def _of_drivers(repo: Repo, study: Study) -> dict:
    """Return the variables of drivers that are part of benchlab's library."""
    if not any(one.driver == "tpcc" for one in study.workloads.values()):
        return {}
    return {
        "tpcc_library": str(library.archive(repo)),
        "tpcc_locks": [str(repo.root / name) for name in library.LOCKS],
    }


def engine_variables(
    study: Study, profile_name: str, envelope: Envelope, engines: list[str]
) -> list[dict]:
    """Return each engine's variables for the playbooks: role, initialisation, settings."""
    return [_engine_variables(study, profile_name, engine, envelope) for engine in engines]


def playbook(
    repo: Repo,
    target_name: str,
    name: str,
    variables: dict,
    on_task: Callable[[str], None] = lambda name: None,
) -> dict:
    """Run ``ansible/playbooks/<name>.yml`` against a target's inventory and return its statistics.

    Raises:
        ProvisionError: a task failed or a host is unreachable.
    """

    def on_event(event: dict) -> bool:
        if event["event"] == "playbook_on_task_start":
            on_task(event["event_data"]["task"])
        return True

    with (
        tempfile.TemporaryDirectory(prefix="benchlab-ansible-", dir=_MEMORY) as private,
        _signals_given_back(),
    ):
        run = ansible_runner.run(
            private_data_dir=private,
            project_dir=str(repo.ansible),
            playbook=str(repo.ansible / "playbooks" / f"{name}.yml"),
            inventory=str(repo.inventories / target_name),
            extravars=variables,
            envvars={
                "ANSIBLE_CONFIG": str(repo.ansible / "ansible.cfg"),
                # ansible-runner would accept any host
                "ANSIBLE_HOST_KEY_CHECKING": "True",
                # ansible-playbook is beside this Python, whose environment need not be active
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            },
            event_handler=on_event,
            quiet=True,
        )
        if run.status == "canceled":
            raise KeyboardInterrupt
        if run.status != "successful":
            raise ProvisionError(f"playbook {name} on {target_name}: {_failure(run)}")
        return run.stats


@contextmanager
def _signals_given_back() -> Iterator[None]:
    """Restore the signal handlers: ansible-runner replaces them to cancel playbooks, and keeps them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # ansible-runner replaces no handler here
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


#: Events of Ansible for a task that failed on a host.
_FAILURES = ("runner_on_failed", "runner_on_unreachable")


def _failure(run: ansible_runner.Runner) -> str:
    """Return host, task and reason of the failure that ended a playbook.

    A host that failed has it as its last failure; those before were rescued.
    """
    counts = [(run.stats or {}).get(kind, {}) for kind in ("failures", "dark")]
    ended = {host for of_kind in counts for host, count in of_kind.items() if count}
    failures = [one["event_data"] for one in run.events if one["event"] in _FAILURES]
    for failure in reversed(failures):
        if failure["host"] in ended:
            return f"{failure['host']}: {failure['task']}: {_reason(failure['res'])}"
    return f"status {run.status}: {run.stdout.read().strip()[-500:]}"


def _reason(result: dict) -> str:
    """Return the last line that a failed task printed as an error, else its message.

    Of a loop, return those of all items that failed. The message on arguments of a role has a heading,
    which the task's name says already.
    """
    looped = [one for one in result.get("results", []) if one.get("failed")]
    if looped:
        return "; ".join(dict.fromkeys(map(_reason, looped)))
    if errors := result.get("argument_errors"):
        return "; ".join(errors)
    said = str(result.get("stderr") or "").strip().splitlines()
    return said[-1] if said else str(result.get("msg", "no reason given")).strip()


def _engine_variables(study: Study, profile_name: str, engine: str, envelope: Envelope) -> dict:
    spec = study.engines[engine]
    cls = engine_class(study.role(engine))
    init = plan.init_of(study, profile_name, engine)
    settings = {
        variant: plan.settings_of(study, profile_name, engine, variant, envelope.memory_bytes)
        for variant in spec.variants
    }
    return {
        "engine": engine,
        "role": spec.role,
        "nodes": list(spec.nodes),
        "role_vars": spec.role_vars,
        "init": init,
        "fixed_memory_bytes": plan.fixed_memory_bytes(study, study.profile(profile_name), engine),
        "init_key": plan.init_key(
            engine, spec.role, spec.nodes, spec.role_vars, init, settings[spec.load_variant]
        ),
        "variants": {
            variant: {
                "settings": {name: cls.render(value) for name, value in settings[variant].items()},
                "log_disk": _log_disk(engine, cls, spec.log_disks.get(variant)),
            }
            for variant in spec.variants
        },
    }


def _log_disk(engine: str, cls: type[Engine], disk: LogDisk | None) -> dict | None:
    """Return the disk of a variant's log in the form of the agent's configuration."""
    if disk is None:
        return None
    if not cls.log_folder:
        raise TargetError(f"{engine}: its log cannot be moved to a disk of its own")
    return {
        "folder": cls.log_folder,
        "write_delay_ms": disk.write_delay_ms,
        "bytes_per_s": disk.bandwidth,
    }


def _check_clock(host: Host) -> None:
    """Check that a host's clock agrees: its samples have its time, a run's phases this machine's."""
    host.run("true")  # the first connection may take seconds, within which any clock would agree
    before = time.time()
    theirs = float(host.run("date", "+%s.%N"))
    apart = max(before - theirs, theirs - time.time())
    if apart > _CLOCKS_APART_S:
        raise TargetError(
            f"{host.name}: its clock is {apart:.1f} s away from this machine's, at most"
            f" {_CLOCKS_APART_S} s are allowed: let both follow a time server"
        )


def _facts(host: Host) -> dict:
    return json.loads(host.read(ETC / "host.json"))


def _impossible(deployment: Deployment, role: str, nodes: Iterable[str]) -> str | None:
    """Return why an engine of a role cannot run on nodes of these roles; ``None`` if it can."""
    lacking = [one for one in nodes if not deployment.having(one)]
    if lacking:
        return f"{deployment.name} has no node with the role {', '.join(lacking)}"
    unknown = [one for one in nodes if one not in engine_class(role).nodes]
    if unknown:
        return f"Ansible's role {role} sets up nothing on {', '.join(unknown)}"
    return None


def _known(repo: Repo, deployment: Deployment) -> dict[str, EngineFound]:
    """Return the engines of earlier sweeps that were not wiped from the target since."""
    known = {}
    with suppress(TargetError):
        for name, earlier in provisioned(repo, deployment.name).engines.items():
            with suppress(TargetError, UnknownName):
                known[name] = (
                    external.found(deployment, name, earlier.role, earlier.external)
                    if earlier.external
                    else _found(deployment, name, earlier.role, earlier.nodes)
                )
    return known


def _last_versions(repo: Repo, deployment: Deployment) -> dict[str, str]:
    """Return the versions of all that was ever provisioned on the target from this checkout."""
    with suppress(TargetError):
        return provisioned(repo, deployment.name).last_versions
    return {}


def _found(
    deployment: Deployment, engine: str, role: str | None, nodes: tuple[str, ...]
) -> EngineFound:
    """Return what the nodes have of an engine; if one refuses it, the engine is refused."""
    what = {"engine": engine, "role": role, "nodes": nodes}
    if reason := _impossible(deployment, role or engine, nodes):
        return EngineFound(**what, version="none", refused=reason)
    settings = []
    for node in deployment.having(*nodes):
        if (reason := _refused(node, engine)) is not None:
            return EngineFound(**what, version="none", refused=reason)
        settings.append(json.loads(node.read(ETC / "engines" / f"{engine}.json")))
    first = settings[0]
    return EngineFound(
        **what,
        version=first["version"],
        port=first["port"],
        refused_variants=first.get("refused_variants", {}),
        has_metrics=any(
            # a file of an older role names a variant's only command, and no services
            service.get("metrics")
            for variant in first["variants"].values()
            for service in variant.get("services", ())
        ),
    )


def _refused(node: Node, engine: str) -> str | None:
    try:
        refused = node.read(ETC / "engines" / f"{engine}.refused.json")
    except TargetError:
        return None
    return json.loads(refused)["reason"]

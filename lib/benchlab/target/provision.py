"""Provisioning: run the playbooks through ansible-runner, and read back what they found."""

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import ansible_runner

from benchlab import plan
from benchlab.engines import engine_class
from benchlab.errors import ProvisionError, TargetError
from benchlab.plan.envelope import Envelope
from benchlab.repo import Repo
from benchlab.study import Study
from benchlab.target import EngineFound, Provisioned, Target, provisioned
from benchlab.target.host import Host

ETC = Path("/etc/benchlab")

#: Clocks further apart would put a second's sample into the wrong phase.
_CLOCKS_APART_S = 0.5


def provision(
    repo: Repo,
    target: Target,
    study: Study,
    profile_name: str,
    envelope: Envelope,
    engines: list[str],
    on_task: Callable[[str], None] = lambda name: None,
) -> Provisioned:
    """Install and tune the engines of a study on a target, and return what came of it.

    Args:
        repo: the checkout.
        target: where.
        study: which settings and variants.
        profile_name: on which scale.
        envelope: the limits to set up.
        engines: names.
        on_task: called with the name of each task as it starts.

    Raises:
        TargetError: a host's clock is another than this machine's.
        ProvisionError: a task failed; the message names host, task and reason.
    """
    for host in target.hosts:
        _check_clock(host)
    asked = variables(study, profile_name, envelope, engines)
    playbook(repo, target.name, "provision", asked, on_task)
    found = Provisioned(
        target=target,
        host=_facts(target.server),
        client_host=None if target.single_host else _facts(target.client),
        engines=_known(repo, target)
        | {name: _found(target.server, name, study.engines[name].role) for name in engines},
    )
    found.save(repo)
    return found


def variables(study: Study, profile_name: str, envelope: Envelope, engines: list[str]) -> dict:
    """Return what the playbook ``provision`` is asked for; see ``ansible/README.md``."""
    return {
        "benchlab_agent_source": str(Path(__file__).parents[1] / "agent"),
        "benchlab_engines": [
            _engine_variables(study, profile_name, engine, envelope) for engine in engines
        ],
        "benchlab_drivers": sorted({one.driver for one in study.workloads.values()}),
        "envelope_cores": envelope.cores,
        "envelope_memory_bytes": envelope.memory_bytes,
        "envelope_read_bytes_per_s": envelope.read_bytes_per_s,
        "envelope_write_bytes_per_s": envelope.write_bytes_per_s,
        "envelope_read_iops": envelope.read_iops,
        "envelope_write_iops": envelope.write_iops,
        "envelope_image_bytes": envelope.disk_bytes,
        "envelope_enforce": envelope.enforce,
    }


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

    with tempfile.TemporaryDirectory(prefix="benchlab-ansible-") as private, _signals_given_back():
        run = ansible_runner.run(
            private_data_dir=private,
            project_dir=str(repo.playbooks.parent),
            playbook=str(repo.playbooks / f"{name}.yml"),
            inventory=str(repo.inventories / target_name),
            extravars=variables,
            envvars={
                "ANSIBLE_CONFIG": str(repo.playbooks.parent / "ansible.cfg"),
                # ansible-playbook lies beside this Python, whether or not its environment is active
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
    """ansible-runner takes Ctrl-C for itself, to cancel the playbook, and keeps it ever after."""
    if threading.current_thread() is not threading.main_thread():
        yield  # where it doesn't
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _failure(run: ansible_runner.Runner) -> str:
    for event in run.events:
        if event["event"] in ("runner_on_failed", "runner_on_unreachable"):
            data = event["event_data"]
            if data.get("ignore_errors"):
                continue
            result = data.get("res", {})
            said = str(result.get("stderr") or "").strip().splitlines()
            reason = said[-1] if said else result.get("msg", "no reason given")
            return f"{data.get('host')}: {data.get('task')}: {str(reason).strip()}"
    return f"status {run.status}: {run.stdout.read().strip()[-500:]}"


def _engine_variables(study: Study, profile_name: str, engine: str, envelope: Envelope) -> dict:
    spec = study.engines[engine]
    cls = engine_class(study.role(engine))
    init = plan.init_of(study, profile_name, engine)
    return {
        "engine": engine,
        "role": spec.role,
        "role_vars": spec.role_vars,
        "init": init,
        "init_key": plan.init_key(engine, spec.role_vars, init),
        "variants": {
            variant: {
                "settings": {
                    name: cls.render(value)
                    for name, value in plan.settings_of(
                        study, profile_name, engine, variant, envelope.memory_bytes
                    ).items()
                }
            }
            for variant in spec.variants
        },
    }


def _check_clock(host: Host) -> None:
    """Samples carry the time of their host, the phases of a run that of this machine."""
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


def _known(repo: Repo, target: Target) -> dict[str, EngineFound]:
    """Return the engines of earlier sweeps, unless they were wiped from the target since."""
    known = {}
    with suppress(TargetError):
        for name, earlier in provisioned(repo, target.name).engines.items():
            with suppress(TargetError):
                known[name] = _found(target.server, name, earlier.role)
    return known


def _found(server: Host, engine: str, role: str | None) -> EngineFound:
    try:
        refused = json.loads(server.read(ETC / "engines" / f"{engine}.refused.json"))
        return EngineFound(engine=engine, role=role, version="none", refused=refused["reason"])
    except TargetError:
        found = json.loads(server.read(ETC / "engines" / f"{engine}.json"))
        return EngineFound(
            engine=engine,
            role=role,
            version=found["version"],
            port=found["port"],
            refused_variants=found.get("refused_variants", {}),
        )

"""The doctor: what a target can run, and why it cannot run the other engines."""

import json
from dataclasses import dataclass, replace

from benchlab import study, target
from benchlab.drivers import drivers
from benchlab.errors import BenchlabError, TargetError
from benchlab.plan import Planner, largest_envelope
from benchlab.plan.envelope import GIB
from benchlab.repo import Repo
from benchlab.target import Deployment, Node, preflight
from benchlab.target.preflight import Size


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    what: str
    usable: bool
    detail: str


def examine(repo: Repo, on: Deployment) -> list[Finding]:
    """Check rights, kernel, observers, profiles and engines; nothing changes on the target."""
    findings = [_on(on, node, _root(node)) for node in on.nodes]
    if not all(finding.usable for finding in findings):
        return findings
    findings += [_on(on, node, _system(node)) for node in on.nodes]
    for node in on.databases:
        found = [*of_envelope(repo, node), _perf(node)]
        found += [_command(node, name) for name in ("iostat", "mpstat", "pidstat", "vmstat")]
        findings += [_on(on, node, one) for one in found]
    for node in on.load:
        findings += [_on(on, node, _command(node, driver.program)) for driver in drivers()]
    sizes = preflight.sizes(on)
    for name in study.names(repo):
        findings += _profiles(repo, on, sizes, name)
    findings += _engines(repo, on)
    return findings


def _on(on: Deployment, node: Node, found: Finding) -> Finding:
    """Name the node of a finding, if the target has several nodes."""
    return found if len(on.nodes) == 1 else replace(found, what=f"{node.name}: {found.what}")


def _root(node: Node) -> Finding:
    try:
        node.run("true")
    except TargetError as error:
        return Finding("root", False, str(error))
    return Finding("root", True, "directly or by sudo")


def _system(node: Node) -> Finding:
    lack = preflight.lacks(node)
    return Finding("system", lack is None, lack or "Debian's packages, and Python")


def _ask(node: Node, script: str) -> str:
    return node.run("sh", "-c", script).decode().strip()


def of_envelope(repo: Repo, node: Node) -> list[Finding]:
    """Ask what the role of the envelope asks before it makes one."""
    asks = repo.ansible / "roles/envelope/files/preflight.py"
    image = f"{preflight.HOME}/disk.img"
    try:
        said = node.run("python3", "-I", "-", preflight.HOME, image, stdin=asks.read_bytes())
    except TargetError as error:
        return [Finding("cgroup", False, str(error))]
    found = json.loads(said)
    cgroup, missing, loop = found["cgroup"], found["missing_controllers"], found["loop"]
    if missing:
        cgroup += f" without {', '.join(missing)}: no envelope can be enforced"
    return [
        Finding("cgroup", not missing, cgroup),
        Finding("loop device", loop, "/dev/loop-control" if loop else "no module loop"),
    ]


def _perf(node: Node) -> Finding:
    said = _ask(node, "perf record -q -e cpu-clock -o /dev/null true 2>&1 || echo failed")
    if "not found" in said:
        return Finding(
            "perf", False, "not installed yet; provisioning installs it if it can be had"
        )
    return Finding("perf", not said, said.splitlines()[-1] if said else "cpu-clock samples")


def _command(node: Node, name: str) -> Finding:
    try:
        path = _ask(node, f"command -v {name} || true")
    except TargetError as error:
        return Finding(name, False, str(error))
    return Finding(name, bool(path), path or "not installed yet; provisioning installs it")


def _profiles(repo: Repo, on: Deployment, sizes: list[Size], name: str) -> list[Finding]:
    spec = study.load(repo, name)
    if not spec.is_rerun:
        return [Finding(name, False, "not rerun yet: its file has claims only")]
    instance = target.instance_type(repo, spec.instance)
    versions = dict.fromkeys(spec.engines, "unknown")
    envelopes = preflight.at_once(on, spec.engines.values())
    findings = []
    for profile_name in spec.profiles:
        plan = Planner(spec, profile_name, instance, versions, on.enforce).plan(on.name)
        limits = largest_envelope(plan.batches)
        size = f"{limits.cores:g} cores, {limits.memory_limit_bytes / GIB:g} GiB of memory"
        try:
            for one in sizes:
                one.check(limits, envelopes)
            findings.append(Finding(f"{name}, profile {profile_name}", True, size))
        except BenchlabError as error:
            findings.append(Finding(f"{name}, profile {profile_name}", False, str(error)))
    return findings


def _engines(repo: Repo, on: Deployment) -> list[Finding]:
    try:
        found = target.provisioned(repo, on.name).engines
    except TargetError:
        return [Finding("engines", False, "not provisioned yet; `benchlab run` provisions them")]
    findings = []
    for name, engine in found.items():
        if engine.refused:
            findings.append(Finding(f"engine {name}", False, engine.refused))
            continue
        port = f", port {engine.port}" if engine.port else ""
        findings.append(Finding(f"engine {name}", True, f"{engine.version}{port}"))
        for variant, reason in engine.refused_variants.items():
            findings.append(Finding(f"engine {name}, variant {variant}", False, reason))
    return findings

"""A checkout of its own for every test that reads or writes one: nothing here touches the real data.

The tests marked ``machine`` share one :class:`Machine`: this one, provisioned once for all of them with
a study of a few seconds.
"""

import fcntl
import importlib
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchlab import cli, repo, study, target
from benchlab.claims.judge import Judgement, judge
from benchlab.plan import Batch, Plan, Planner, Trial, envelope, selected
from benchlab.plan.envelope import Envelope
from benchlab.raw.record import RECORD_NAME, Record, RunFolder, Status
from benchlab.repo import Repo
from benchlab.run import lock, planning
from benchlab.run.planning import Selection
from benchlab.store import RUN_TABLES, Store, ingest, results, schema, writer
from benchlab.store.results import Rerun
from benchlab.study import Study
from benchlab.target import Deployment, library, provision
from benchlab.target.host import AGENT
from benchlab.target.session import Session
from hypothesis import settings
from ruamel.yaml import YAML
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from benchlab.report.sections import Content

# no deadline: a busy machine is no failure; and the same examples every time, for CI
settings.register_profile("benchlab", deadline=None, derandomize=True)
settings.load_profile("benchlab")

ROOT = Path(__file__).resolve().parents[2]
ANSIBLE = ROOT / "ansible"
DATA = Path(__file__).parent / "data"

STUDY = "postgres_vs_tidb"

#: Measured part of the runs that `close_run` leaves, in Unix seconds: that of data/sample/whole.jsonl.
MEASURED = (1795223897.0, 1795223902.9)

#: Whose trials `measured` takes.
MEASURED_PROFILE = "standard"

#: Roles of one machine alone.
ALONE = {"localhost": ("db.primary", "load")}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A checkout with the real studies, their numbers and inventories, no runs; we are in it."""
    root = tmp_path / "checkout"
    for folder in ("paper/studies", "ansible/inventories", "data/published", "data/prices"):
        shutil.copytree(ROOT / folder, root / folder)
    monkeypatch.chdir(root)
    monkeypatch.delenv("BENCHLAB_DATA", raising=False)
    return Repo(root)


@pytest.fixture
def benchlab(
    checkout: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> Callable[[str], tuple[int, str, str]]:
    """Run a command line in the checkout: exit code, standard output, standard error."""

    def call(arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["benchlab", *arguments.split()])
        monkeypatch.setattr(cli.console, "_width", 300)
        with pytest.raises(SystemExit) as ended:
            cli.app()
        said = capsys.readouterr()
        return ended.value.code or 0, said.out, said.err

    return call


def planned(checkout: Repo, name: str = STUDY, profile: str = "quick") -> Plan:
    """Plan a study as a sweep on this machine would."""
    return planning.planned(checkout, Selection(name, profile), study.load(checkout, name))


@cache  # in pure Python a study takes a second
def _content(text: str) -> dict:
    return YAML(typ="safe").load(text)


def study_content(name: str = STUDY, studies: Path = ROOT / "paper/studies") -> dict:
    """Return a copy of the content of a study's file."""
    return deepcopy(_content((studies / f"{name}.yml").read_text()))


@contextmanager
def edited_study(checkout: Repo, name: str = STUDY) -> Iterator[dict]:
    """Yield the content of a study's file in a checkout; write it when the block ends."""
    spec = study_content(name, checkout.studies)
    yield spec
    yaml = YAML(typ="safe")
    yaml.sort_base_mapping_type_on_output = False  # engines and variants keep their order
    yaml.dump(spec, checkout.studies / f"{name}.yml")


def share_trials(checkout: Repo) -> None:
    """Let the first study's profile `quick` have trials of `standard`, of three, among its own."""
    with edited_study(checkout) as spec:
        standard = spec["profiles"]["standard"]
        standard["trials"] = 3
        spec["profiles"]["quick"] = {**standard, "concurrency": [1, 16], "trials": 1}


def measure_all_points(checkout: Repo, name: str) -> None:
    """Let a study's profile `standard` have three trials of all points, however short its own is."""
    with edited_study(checkout, name) as spec:
        spec["profiles"][MEASURED_PROFILE]["trials"] = 3
        spec["matrix"] = [
            {key: value for key, value in block.items() if key != "profiles"}
            for block in spec["matrix"]
            if "envelope" in block or "paper" in block.get("profiles", ["paper"])
        ]


def set_claims(
    checkout: Repo, tests: list[dict], kind: str = "order", name: str = STUDY, **more: object
) -> None:
    """Let a study have these claims alone, ``c0``, ``c1``, ..., each decided by its test.

    ``more`` are further keys of each claim.
    """
    with edited_study(checkout, name) as spec:
        spec["claims"] = [
            {
                "id": f"c{number}",
                "where": "here",
                "claim": "So it is.",
                "kind": kind,
                "decided_by": test,
            }
            | more
            for number, test in enumerate(tests)
        ]


def leave_claims_only(checkout: Repo, name: str) -> None:
    """Let a study be one that is not rerun yet, whose file has its article's claims only."""
    with edited_study(checkout, name) as spec:
        for key in spec.keys() - {"study", "article", "claims"}:
            del spec[key]


def judged(checkout: Repo, found: Rerun, test: dict, kind: str = "mechanism") -> Judgement:
    """Judge the one claim that is decided by a test."""
    set_claims(checkout, [test], kind)
    (one,) = judge(checkout, STUDY, found)
    return one


@pytest.fixture
def batches(checkout: Repo) -> Callable[..., list[Batch]]:
    """Plan the first study's closed loops: ``batches("quick", engines=["postgres"])``."""
    spec = study.load(checkout, STUDY)
    instance = target.instance_type(checkout, spec.instance)
    unknown = dict.fromkeys(spec.engines, "1.0")

    def planned(
        profile: str = "quick", versions: dict[str, str] = unknown, seed: int = 1, **selection
    ) -> list[Batch]:
        closed = Planner(spec, profile, instance, versions).closed_loops(seed)
        return selected(spec, closed, **selection)

    return planned


@pytest.fixture
def benchmark_part(monkeypatch):
    """Import a part of `make bench` by its name; its modules are forgotten at the end."""
    folder = ROOT / "lib/benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "").parent == folder:
            del sys.modules[name]


@pytest.fixture
def at_sixteen(batches) -> Trial:
    """A trial of the first study: PostgreSQL's write_only at 16 threads."""
    curve = batches(engines=["postgres"], variants=["default"], workloads=["oltp_write_only"])
    trials = [trial for batch in curve for trial in batch.trials]
    (found,) = (trial for trial in trials if trial.point.concurrency == 16)
    return found


@pytest.fixture
def close_run(checkout: Repo, batches) -> Callable[..., Record]:
    """Leave a finished run folder with the given files, as a sweep would."""
    trials = [trial for batch in batches() for trial in batch.trials]

    def close(
        status: Status = "ok",
        error: str | None = None,
        trial: Trial | None = None,
        **files: bytes,
    ) -> Record:
        folder = RunFolder(checkout.raw, trial or trials[0], "local", ALONE)
        folder.phases["measure"] = MEASURED
        for name, content in (files or CAPTURES if status == "ok" else files).items():
            folder.write(name, content)
        return folder.finish(status, error)

    return close


#: What a run that counts leaves, recorded.
CAPTURES = {
    "sysbench.out": (DATA / "sysbench" / "oltp_write_only.txt").read_bytes(),
    "sample.jsonl": (DATA / "sample" / "whole.jsonl").read_bytes(),
    "iostat.json": (DATA / "iostat" / "whole.json").read_bytes(),
    "vmstat.txt": (DATA / "vmstat" / "killed.txt").read_bytes(),
    "host.json": b'{"cpu_model": "A", "cores": 2}',
    "settings.json": b'[{"name": "max_wal_size", "requested": "32MB", "effective": "32",'
    b' "unit": "MB", "source": "configuration file"}]',
    "counters-begin.json": b'{"pg_stat_wal.wal_bytes": 1.0, "gone": 3.0}',
    "counters-end.json": b'{"pg_stat_wal.wal_bytes": 5.5}',
}


class _Editable(Store):
    def _show(self) -> None:
        super()._show()
        self._catalogue = None  # its files do not hold what the test changes


def editable(folder: Path) -> Store:
    """Open a store with tables in place of its views, so that a test may change what runs measured."""
    store = _Editable(folder)
    for name in RUN_TABLES:
        store.connection.execute(f'CREATE TEMP TABLE "{name}" AS FROM "{name}"')
    store.connection.execute(schema.views().replace("CREATE OR REPLACE VIEW", "CREATE TEMP VIEW"))
    return store


@pytest.fixture
def measured(checkout, close_run):
    """Return a store with the given throughputs, ``{(engine, variant, workload): {threads: [tps]}}``,
    of the profile `standard` with all points and three trials.

    ``None`` in place of a throughput is a trial that failed. ``also`` gives further files of a run,
    ``passed`` says which of them passed the gate. Called again, it adds runs.
    """
    opened = []

    def measure(
        throughputs: dict,
        target: str = "local",
        study: str = STUDY,
        also: Callable[[Trial], dict[str, bytes]] = lambda _: {},
        passed: Callable[[Trial], bool] = lambda _: True,
    ) -> object:
        measure_all_points(checkout, study)
        plan = planned(checkout, study, MEASURED_PROFILE)
        expected = {}
        for trial in plan.trials:
            *name, envelope = trial.point.curve
            tps = throughputs.get(tuple(name), {}).get(trial.point.concurrency, [])
            if envelope == "main" and trial.number <= len(tps):
                value = tps[trial.number - 1]
                record = close_run(
                    *(["failed", "it died"] if value is None else []),
                    trial=trial,
                    **(CAPTURES | also(trial) if value is not None else {}),
                )
                expected[record.run_id] = value, passed(trial)
        ingest.ingest_new(checkout)
        with editable(checkout.store) as store:
            for run_id, (value, passes) in expected.items():
                store.connection.execute(
                    "UPDATE run SET tps = ?, target = ? WHERE run_id = ?", [value, target, run_id]
                )
                store.connection.execute(
                    "UPDATE gate SET passed = ? OR \"check\" <> 'steady' WHERE run_id = ?",
                    [passes, run_id],
                )
            changed = {name: store.sql(f'FROM "{name}"') for name in (*RUN_TABLES, schema.PLANNED)}
        with writer.rebuilding(checkout.store) as rebuilding:
            rebuilding.add(changed)
        store = editable(checkout.store)
        opened.append(store)
        return store

    yield measure
    for store in opened:
        store.close()


def rerun(
    store: Store, profile: str = MEASURED_PROFILE, target: str | None = None, study: str = STUDY
) -> Rerun:
    """Open the results of a study in the checkout around the working directory."""
    return results.open_rerun(repo.find(), store, study, profile, target)


def content(checkout: Repo, own: Store) -> "Content":
    """Gather everything that the paper places, as `benchlab paper` does in several processes."""
    from benchlab.report import manuscript  # its libraries take a second, and few tests need it

    names = manuscript.counted(checkout, own)
    return manuscript.whole(
        checkout, own, {name: manuscript.section(checkout, own, None, name) for name in names}
    )


def repository_files() -> list[Path]:
    """Return the files of this checkout that are, or would be, in a clone of it."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout, so nobody knows which files are the repository's")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def environment() -> dict[str, str]:
    """Return this process's environment with the programs beside its Python first."""
    folder = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def fetched(script: str, to: Path, tarball: Path | str, sha256: str = "") -> tuple[int, str]:
    """Run a script of a role that fetches a server, as the role does.

    Returns:
        The exit code, and what was said of the reason.
    """
    common = ANSIBLE / "roles/host/files/fetching.sh"
    done = subprocess.run(
        ["sh", "-s", to, tarball, sha256],
        input=common.read_text() + (ANSIBLE / "roles" / script).read_text(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def unused_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return unused.getsockname()[1]


# The real machine


#: Files of tests that need what this machine has once.
_MACHINE_FILES = {
    path.name
    for path in Path(__file__).parent.glob("test_*.py")
    if "pytest.mark.machine" in path.read_text()
}


class OneMachine(LoadScopeScheduling):
    """Tests in files of those that need what this machine has once go to one worker, others to any.

    The cells of a notebook stay together, too: they share a kernel.
    """

    def _split_scope(self, nodeid: str) -> str:
        """Return what goes to one worker together: tests in one scope."""
        file = Path(nodeid.partition("::")[0])
        if file.name in _MACHINE_FILES:
            return "machine"
        return str(file) if file.suffix == ".ipynb" else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneMachine:
    """Take our own scheduler; xdist's own groups (3.8.0) have no effect with pytest 9.2."""
    return OneMachine(config, log)


#: A study of the first one's engines and settings that takes seconds.
MINI = "mini"

#: The same with every engine that there is, for the contract that all of them keep.
EVERY_ENGINE = "every_engine"

ETC = Path("/etc/benchlab")
HOME = Path("/var/lib/benchlab")

#: The longest that an event of a sweep is waited for; none is timed.
_TIMEOUT_S = 600


def wait_for(
    condition: Callable[[], object],
    what: str,
    every_s: float = 0.02,
    timeout_s: float = _TIMEOUT_S,
) -> object:
    """Return the condition's value as soon as it is true."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {timeout_s} s in vain for: {what}"
        time.sleep(every_s)
    return value


def cgroups(pattern: str) -> list[str]:
    """Return the cgroups of this machine of that name; others come and go during the walk."""
    walked = (folder for folder, _, _ in os.walk("/sys/fs/cgroup"))
    return [folder for folder in walked if fnmatch(Path(folder).name, pattern)]


def mini_study() -> dict:
    """Return the small study: all engines and variants, one workload, two clients."""
    spec = study_content()
    # they name engines that the small studies lack, and their article is another's
    del spec["claims"], spec["interventions"], spec["article"]["file"]
    # where TiDB can be had, it would be a download of hundreds of MB
    spec["engines"]["tidb"]["role_vars"] = {
        "tidb_source": "path",
        "tidb_server_path": "/nonexistent/tidb-server",
    }
    spec["matrix"] = [
        {
            "engines": sorted(spec["engines"]),
            "variants": ["default", "tuned"],
            "workloads": ["oltp_write_only"],
        }
    ]
    smoke = spec["profiles"]["smoke"] | {"concurrency": [2], "warmup_s": 2, "measure_s": 2}
    spec["profiles"] = {"smoke": smoke}
    return spec


def tidb_server() -> dict[str, str] | None:
    """Return where TiDB is, as its role's variables: what BENCHLAB_TIDB names, or a server on the PATH.

    It names a server, which then has its embedded store, or an offline tarball of TiUP.
    """
    named = os.environ.get("BENCHLAB_TIDB") or shutil.which("tidb-server")
    if not named:
        return None
    if tarball := re.search(r"-v([\d.]+)-.*\.tar\.gz$", named):
        return {"tidb_source": "tiup", "tidb_tarball": named, "tidb_version": tarball[1]}
    return {"tidb_source": "path", "tidb_server_path": named}


def every_engine() -> dict:
    """Return the small study with the engines, too, that the first study lacks."""
    spec = mini_study()
    mib = 1 << 20
    for name in ("mariadb", "mysql"):
        variants = {"default": 128 * mib, "tuned": 256 * mib}
        spec["engines"][name] = {
            "label": name,
            "load_variant": "tuned",
            "settings": {"local_infile": True, "innodb_lock_wait_timeout": 20},
            "variants": {
                variant: {"innodb_buffer_pool_size": size} for variant, size in variants.items()
            },
        }
    if server := tidb_server():
        spec["engines"]["tidb"] |= {
            "role_vars": server,
            # so small that a statement fills it; the embedded store has none
            "settings": {"log.level": "warn", "rocksdb.writecf.write-buffer-size": "1MB"},
            "variants": {
                variant: {"table_cache": False, "tidb_table_cache_lease": seconds}
                for variant, seconds in (("default", 3), ("tuned", 5))
            },
        }
    first = spec["engines"]["postgres"]
    first["variants"]["slow_log"] = first["variants"]["tuned"]
    first["log_disks"] = {"slow_log": {"write_delay_ms": 30}}
    # other versions beside the first: each has a name, a user and data of its own
    first["role_vars"] = {"postgres_version": "15", "postgres_source": "distribution"}
    overrides = spec["profiles"]["smoke"]["overrides"]
    for name, version in {"postgres13": "13.4", "postgres18": "18.1"}.items():
        exact = {"postgres_version": version, "postgres_source": "maven"}
        spec["engines"][name] = first | {"role": "postgres", "role_vars": exact}
        overrides[name] = overrides["postgres"]
    spec["matrix"][0]["engines"] = sorted(spec["engines"])
    # OceanBase's log takes half of the disk for two engines, and starts only if that is free
    spec["profiles"]["smoke"]["envelope"]["disk"] = "6GiB"
    return spec


class Sweep:
    """A command of benchlab under way, in a session of its own as a terminal's."""

    def __init__(self, machine: "Machine", data: Path, *arguments: str):
        self.data = data
        data.mkdir(exist_ok=True)
        self.before = set(data.glob("raw/*"))
        self.output = data / "benchlab.out"
        with self.output.open("w") as stream:
            self.process = subprocess.Popen(
                [Path(sys.executable).with_name("benchlab"), *arguments],
                cwd=machine.root,
                env={**os.environ, "BENCHLAB_DATA": str(data), "COLUMNS": "300"},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        """What it has printed so far."""
        return self.output.read_text()

    def end(self) -> int:
        """Wait for its end; return its exit code."""
        return self.process.wait(_TIMEOUT_S)

    def send(self, number: signal.Signals) -> int:
        """Signal it and all that share its terminal; return its exit code."""
        os.killpg(self.process.pid, number)
        return self.end()

    def wait_for(self, event: Callable[[], object], what: str) -> object:
        """Wait for something that must come before its end."""

        def come() -> object:
            assert self.process.poll() is None, self.said
            return event()

        return wait_for(come, what)

    def begun(self, trial: Trial, file: str) -> Path:
        """Wait until its run of a trial has a file; return the run's folder."""
        pattern = f"raw/*-{trial.key[:8]}/{file}"

        def under_way() -> Path | None:
            found = {path.parent for path in self.data.glob(pattern)} - self.before
            return next((folder for folder in found if not closed(folder)), None)

        return self.wait_for(under_way, f"{file} of ×{trial.point.concurrency}")

    def measured(self, trial: Trial) -> Path:
        """Wait until the measured part of a trial begins; return the run's folder."""
        return self.begun(trial, "counters-begin.json")


def closed(folder: Path) -> bool:
    """Whether a run's folder is closed."""
    return (folder / RECORD_NAME).exists()


class Machine:
    """This machine, provisioned in the standard places, and a checkout to use it from."""

    def __init__(self, root: Path):
        self.root, self.repo = root, Repo(root)
        self.provisioned_before = ETC.exists()
        self._snapshots_before = self._snapshots()
        (root / "paper/studies").mkdir(parents=True)
        (root / "data").mkdir()
        for path in ("ansible", "notebooks", "data/published", *library.LOCKS):
            (root / path).symlink_to(ROOT / path)
        self.write_study(MINI, mini_study())
        self.write_study(EVERY_ENGINE, every_engine())
        self.converged = False

    def write_study(self, name: str, spec: dict) -> None:
        """Add a study to the checkout."""
        with (self.repo.studies / f"{name}.yml").open("w") as stream:
            YAML(typ="safe").dump(spec | {"study": name}, stream)

    @property
    def variables(self) -> dict:
        """What the small study of every engine asks the playbooks for."""
        _, spec, limits = self._requested()
        return provision.variables(spec, "smoke", limits, sorted(spec.engines))

    def provision(self) -> None:
        """Converge to what the small study of every engine asks for, as a sweep does."""
        on, spec, limits = self._requested()
        self.found = provision.provision(self.repo, on, spec, "smoke", limits, sorted(spec.engines))
        self.converged = True

    def _requested(self) -> tuple[Deployment, Study, Envelope]:
        on, spec = target.load(self.repo, "local"), study.load(self.repo, EVERY_ENGINE)
        instance = target.instance_type(self.repo, spec.instance)
        profile = spec.profile("smoke")
        return on, spec, envelope.resolve(spec, profile, instance, "main", on.enforce, spec.engines)

    def up(self) -> None:
        """Provisioned for the small study, the envelope up: after others' faults, too."""
        if self.converged:
            agent("envelope", "up")
        else:
            self.provision()

    def plan(self, name: str = MINI, profile: str = "smoke", **options) -> list[Batch]:
        """Plan a study with the engines' versions as found here."""
        spec = study.load(self.repo, name)
        instance = target.instance_type(self.repo, spec.instance)
        here = self.found.engines
        versions = {
            name: here[name].version if name in here else "unknown" for name in spec.engines
        }
        closed = Planner(spec, profile, instance, versions).closed_loops()
        return selected(spec, closed, **options)

    def session(self, engine: str) -> Session:
        """An engine here."""
        return Session(self.found, engine)

    def start(self, data: Path, *arguments: str) -> Sweep:
        """Start a command of benchlab whose runs go to ``data``."""
        self.converged = False
        return Sweep(self, data, *arguments)

    def benchlab(self, data: Path, *arguments: str) -> tuple[int, str]:
        """Run a command of benchlab to its end; return its exit code and what it printed."""
        command = self.start(data, *arguments)
        return command.end(), command.said

    def leftovers(self) -> list[str]:
        """Name whatever of benchlab is on this machine and should not outlive a command."""
        return [*_processes(self.root), *_mounts(), *_loops(), *_cgroups()]

    def mounted(self) -> bool:
        """Whether the envelope's disk is mounted."""
        return any(_mounts())

    def take_away(self) -> None:
        """Take everything down; delete it, too, unless it was there before the tests."""
        options = [] if self.provisioned_before else ["--wipe"]
        code, said = self.benchlab(self.root / "data", "teardown", *options)
        assert code == 0, said
        # the kernel counts a killed process until its parent has looked at it
        wait_for(lambda: not self.leftovers(), "nothing left of benchlab")
        for folder in self._snapshots() - self._snapshots_before:
            shutil.rmtree(folder)
        if not self.provisioned_before:
            assert not [one.pw_name for one in _users()]
            for folder in ("/etc", "/opt", "/run", "/usr/local/lib", "/var/lib"):
                assert not (Path(folder) / "benchlab").exists()

    def _snapshots(self) -> set[Path]:
        return set(HOME.glob("snapshots/*/*"))


def agent(*command: str) -> dict:
    """Run the installed agent."""
    done = subprocess.run([*AGENT, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _users() -> list[pwd.struct_passwd]:
    """The engines' accounts."""
    return [one for one in pwd.getpwall() if one.pw_name.startswith("benchlab-")]


def _processes(root: Path) -> Iterator[str]:
    """Servers by their user; kernels of run notebooks and the load by their working directory."""
    uids = {one.pw_uid for one in _users()}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "comm").read_text().strip()
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            theirs = folder.stat().st_uid in uids or (folder / "cwd").readlink() == root
        except OSError:
            continue  # gone
        # Python's own, which ends a moment after the command that spawned processes
        tracker = "multiprocessing.resource_tracker" in command
        if state not in "ZX" and theirs and not tracker:
            yield f"process {folder.name}: {command.strip()} ({name})"


def _mounts() -> Iterator[str]:
    for line in Path("/proc/mounts").read_text().splitlines():
        if line.split()[1].startswith(str(HOME)):
            yield f"mount {line}"


def _loops() -> Iterator[str]:
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        if (backing := path.read_text().strip()).startswith(str(HOME)):
            yield f"{path.parts[3]} on {backing}"


def _cgroups() -> Iterator[str]:
    for pattern in ("benchlab", "*/benchlab"):
        for path in Path("/sys/fs/cgroup").glob(pattern):
            yield f"cgroup {path}"


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Provision this machine once; take everything away again at the end."""
    if os.geteuid():
        pytest.skip("needs root")
    with pytest.MonkeyPatch.context() as patch, lock.opened() as held:
        patch.delenv("BENCHLAB_DATA", raising=False)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.skip(f"{lock.PATH} is held: a sweep is running on this machine")
        machine = Machine(tmp_path_factory.mktemp("machine").resolve())
        try:
            machine.provision()
            fcntl.flock(held, fcntl.LOCK_UN)  # the tests' own sweeps take it
            yield machine
        finally:
            fcntl.flock(held, fcntl.LOCK_UN)
            machine.take_away()

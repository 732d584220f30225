"""Preflight: what is missing is said before anything is started, with how much of it is needed."""

import json
import os
import re
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
from benchlab import study
from benchlab.errors import TargetError
from benchlab.plan.envelope import Envelope
from benchlab.repo import Repo
from benchlab.run import lock, planning, ready
from benchlab.run.planning import Selection
from benchlab.run.ready import take_down
from benchlab.target import Deployment, Node, doctor, preflight
from benchlab.target.host import Host, NoRoot, kill
from conftest import ROOT, STUDY, edited_study, wait_for
from rich.console import Console

GIB = 1 << 30

ENVELOPE = Envelope(
    name="main",
    cores=2,
    memory_bytes=GIB,
    read_bytes_per_s=None,
    write_bytes_per_s=None,
    read_iops=None,
    write_iops=None,
    disk_bytes=6 * GIB,
    enforce=True,
)
NODE = Node(name="db1", roles=("db.primary", "load"))
DEPLOYMENT = Deployment(name="local", nodes=(NODE,), enforce=True)
UNLIMITED = DEPLOYMENT.model_copy(update={"enforce": False})


def disk(free: int, image: int = 0, snapshots: int = 0) -> bytes:
    """What a host answers about its disk; in GiB."""
    return b"%d\n%d\n%d\n" % (free * GIB, image * GIB, snapshots * GIB)


ENOUGH = {"true": b"", "nproc": b"2\n", "sh": disk(10), "memory_kib": 1_572_864}


def answer(monkeypatch, **said) -> None:
    """Give the server these answers; any other query fails the test."""
    said = ENOUGH | said

    def run(self: Host, command: str, *_: str, stdin: bytes = b"") -> bytes:
        return said[command]

    monkeypatch.setattr(Host, "run", run)
    meminfo = f"MemTotal:  {said['memory_kib']} kB\nMemFree:  1 kB\n".encode()
    monkeypatch.setattr(Host, "read", lambda self, path: {"/proc/meminfo": meminfo}[path])


def test_a_host_with_just_enough_passes(monkeypatch):
    answer(monkeypatch)
    preflight.check(DEPLOYMENT, ENVELOPE)


def test_what_benchlab_occupies_already_counts_as_there(monkeypatch):
    answer(monkeypatch, sh=disk(3, image=7))
    preflight.check(DEPLOYMENT, ENVELOPE)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"nproc": b"1\n"}, "db1: the profile needs 2 cores, there are 1"),
        (
            {"memory_kib": 1_048_576},
            "db1: the profile needs 1.5 GiB of memory, 1.0 GiB are there",
        ),
        (
            {"sh": disk(1, image=4)},
            "db1: the profile needs 10.0 GiB of disk, 5.0 GiB are there",
        ),
        (
            {"sh": disk(1, image=4, snapshots=7)},
            "db1: the profile needs 10.0 GiB of disk, 5.0 GiB are there; snapshots take 7.0 GiB, which"
            " `benchlab teardown --wipe` frees",
        ),
    ],
)
def test_what_is_missing_is_named(monkeypatch, said, message):
    answer(monkeypatch, **said)
    with pytest.raises(TargetError) as error:
        preflight.check(DEPLOYMENT, ENVELOPE)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"nproc": b"16\n"}, "2 cores, there are 16"),
        ({"memory_kib": 16 << 20}, "1.0 GiB of memory, there are 16.0 GiB"),
    ],
)
def test_a_host_that_limits_nothing_must_not_be_larger_than_the_profile(monkeypatch, said, message):
    envelope = ENVELOPE.model_copy(update={"enforce": False})
    answer(monkeypatch, memory_kib=1 << 20)
    preflight.check(UNLIMITED, envelope)
    answer(monkeypatch, **{"memory_kib": 1 << 20} | said)
    full = f"db1: the profile is for {message}, and the target limits nothing (envelope_enforce: false)"
    with pytest.raises(TargetError, match=f"^{re.escape(full)}$"):
        preflight.check(UNLIMITED, envelope)
    # with limits of its own, it is the server of somebody else that has none
    preflight.check(DEPLOYMENT, envelope)


LAB = Deployment(
    name="lab",
    nodes=(
        Node(name="db1", roles=("db.primary",)),
        Node(name="db2", roles=("db.standby",)),
        Node(name="load1", roles=("load",)),
    ),
    enforce=True,
    is_lab=True,
)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"nproc": b"3\n"}, "4 cores, there are 3"),
        ({"memory_kib": 2 * GIB >> 10}, "2.5 GiB of memory, 2.0 GiB are there"),
        ({"sh": disk(9, image=3)}, "16.0 GiB of disk, 15.0 GiB are there"),
    ],
)
def test_the_hosts_of_a_lab_share_a_machine(monkeypatch, checkout, said, message):
    """Both that PostgreSQL and its standby run on are in use at once."""
    enough = {"nproc": b"4\n", "memory_kib": 5 * GIB >> 11, "sh": disk(10, image=3)}
    answer(monkeypatch, **enough)
    spec = study.load(checkout, "remote_wal").engines["postgres"]
    assert preflight.at_once(LAB, [spec]) == 2
    preflight.check(LAB, ENVELOPE, 2)
    answer(monkeypatch, **enough | said)
    with pytest.raises(TargetError, match=f"^this machine: the profile needs {message}$"):
        preflight.check(LAB, ENVELOPE, 2)


def test_an_engine_on_one_host_of_a_lab_has_the_machine_alone(checkout):
    engines = study.load(checkout, STUDY).engines.values()
    assert preflight.at_once(LAB, engines) == 1
    assert preflight.at_once(DEPLOYMENT, engines) == 1


def test_what_a_sweep_checks_is_the_largest_envelope_of_its_points(monkeypatch, checkout, tmp_path):
    """A block may have more clients than the profile."""
    with edited_study(checkout) as content:
        block = {"engines": ["postgres"], "variants": ["default"], "workloads": ["oltp_insert"]}
        content["matrix"].append(block | {"profiles": ["quick"], "concurrency": [1024]})
    selection = Selection(STUDY)
    spec = study.load(checkout, STUDY)
    chosen = planning.planned(checkout, selection, spec).batches
    checked = Mock(side_effect=TargetError("too small"))
    monkeypatch.setattr(preflight, "check", checked)
    monkeypatch.setattr(lock, "PATH", tmp_path / "lock")
    monkeypatch.setattr(ready, "take_down", lambda on: None)
    with (
        pytest.raises(TargetError, match="too small"),
        ready.ready(checkout, selection, spec, list(chosen), Console()),
    ):
        pass
    _, envelope, envelopes = checked.call_args.args
    needed = max(one.point.envelope.memory_limit_bytes for batch in chosen for one in batch.trials)
    assert envelope.memory_limit_bytes == needed
    assert envelope.connections_memory_bytes == 1024 * (2560 << 10)
    assert envelopes == 1


def test_the_size_of_snapshots_is_measured(monkeypatch, tmp_path):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(preflight, "HOME", str(tmp_path / "home"))
    here = Node(name="here", roles=("db.primary", "load"))
    assert preflight.Size.of(here).snapshots_bytes == 0
    (tmp_path / "home/snapshots/postgres/key").mkdir(parents=True)
    (tmp_path / "home/snapshots/postgres/key/table").write_bytes(bytes(1 << 20))
    found = preflight.Size.of(here)
    assert 1 << 20 <= found.snapshots_bytes < 2 << 20
    assert found.free_bytes > 0


def test_the_instance_type_itself_is_large_enough(monkeypatch):
    """Its kernel reports less memory than its vendor sells, and its disk has the system on it."""
    size = {"memory_bytes": 32 * GIB, "disk_bytes": 100 * GIB}
    itself = ENVELOPE.model_copy(update={**size, "enforce": False})
    answer(monkeypatch, memory_kib=int(30.9 * GIB) >> 10)
    preflight.check(UNLIMITED, itself)
    answer(monkeypatch, memory_kib=16 * GIB >> 10)
    with pytest.raises(TargetError, match=r"needs 28\.8 GiB of memory, 16\.0 GiB are there"):
        preflight.check(UNLIMITED, itself)


@pytest.mark.parametrize(
    ("sudo", "said"),
    [
        (None, "sudo: not installed"),
        (
            "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n",
            "sudo: a password is required",
        ),
    ],
    ids=["no sudo", "sudo with a password"],
)
def test_a_user_who_cannot_become_root_is_reported_so(monkeypatch, tmp_path, sudo, said):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    if sudo:
        (tmp_path / "sudo").write_text(sudo)
        (tmp_path / "sudo").chmod(0o755)
    node = Node(name="here", roles=("db.primary", "load"))
    message = f"here: root is needed, directly or by sudo without a password ({said})"
    on = Deployment(name="local", nodes=(node,), enforce=True)
    for check in (
        lambda: preflight.root(on),
        lambda: preflight.check(on, ENVELOPE),
        node.provisioned,
        lambda: take_down(on),  # or it would say that nothing is running
    ):
        with pytest.raises(TargetError) as error:
            check()
        assert str(error.value) == message
    assert doctor.examine(None, on) == [doctor.Finding("root", False, message)]


@pytest.mark.parametrize(
    ("said", "lack"),
    [
        (b"Debian GNU/Linux 12 (bookworm)\n/usr/bin/apt-get\n3.11\n", None),
        (
            b"Ubuntu 22.04.5 LTS\n/usr/bin/apt-get\n3.10\n",
            "Ubuntu 22.04.5 LTS has Python 3.10: 3.11 or newer is needed",
        ),
        (
            b"Amazon Linux 2023\n\n3.9\n",
            "Amazon Linux 2023 has no packages of Debian: Debian 12 or Ubuntu 24.04 is needed",
        ),
    ],
)
def test_a_system_that_the_roles_are_not_written_for_is_refused(monkeypatch, said, lack):
    answer(monkeypatch, sh=said)
    assert preflight.lacks(NODE) == lack
    if lack is None:
        preflight.system(DEPLOYMENT)
    else:
        with pytest.raises(TargetError, match=f"^db1: {lack}"):
            preflight.system(DEPLOYMENT)


@pytest.mark.parametrize(
    ("missing", "said"), [([], "v2"), (["io"], "v2 without io: no envelope can be enforced")]
)
def test_the_doctor_names_the_controllers_that_an_envelope_lacks(monkeypatch, missing, said):
    found = {"cgroup": "v2", "missing_controllers": missing, "loop": True}
    answer(monkeypatch, python3=json.dumps(found).encode())
    cgroup, loop = doctor.of_envelope(Repo(ROOT), NODE)
    assert cgroup == doctor.Finding("cgroup", not missing, said)
    assert loop.usable


def test_this_machines_system_is_one(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    here = Node(name="here", roles=("db.primary", "load"))
    assert preflight.lacks(here) is None


def test_sudos_warning_about_the_hosts_name_is_not_why_a_command_failed(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    warning = "sudo: unable to resolve host db1: Name or service not known"
    (tmp_path / "sudo").write_text(f'#!/bin/sh\nshift\necho "{warning}" >&2\nexec "$@"\n')
    (tmp_path / "sudo").chmod(0o755)
    with pytest.raises(TargetError, match=r"^here: false: exit code 1$") as error:
        Host(name="here").run("false")
    assert not isinstance(error.value, NoRoot)


def test_a_checkout_among_benchlabs_own_folders_is_not_wiped(tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "HOME", str(tmp_path / "home"))
    preflight.outside_of_home(tmp_path, tmp_path / "home-of-mine")
    with pytest.raises(TargetError, match=r"home/data lies in .*, which would be deleted"):
        preflight.outside_of_home(tmp_path, tmp_path / "home" / "data")


def test_a_command_that_does_not_end_in_time_is_killed_also_below_sudo(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "sudo").write_text('#!/bin/sh\nshift\necho "$@" >>"$0.said"\nexec "$@"\n')
    (tmp_path / "sudo").chmod(0o755)
    monkeypatch.setattr(subprocess.Popen, "kill", Mock(side_effect=PermissionError))
    with pytest.raises(TargetError, match=r"^here: sleep: did not end within 0.2 s$"):
        Host(name="here").run("sleep", "60", timeout_s=0.2)
    assert (tmp_path / "sudo.said").read_text().splitlines()[1].startswith("kill -KILL ")


def test_what_sudo_runs_is_killed_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    # like sudo it stays the parent, and cannot pass SIGKILL on
    (tmp_path / "sudo").write_text('#!/bin/sh\nshift\n"$@"\nexit $?\n')
    (tmp_path / "sudo").chmod(0o755)
    sudo = Host(name="here").popen("sh", "-c", "echo $$; exec sleep 60", stdout=subprocess.PIPE)
    below = Path(f"/proc/{int(sudo.stdout.readline())}/stat")
    assert sudo.pid != int(below.parent.name)
    kill(sudo)
    wait_for(lambda: not below.exists() or below.read_text().split()[2] == "Z", "its end")


def test_a_process_of_sudo_is_signalled_as_often_as_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "sudo").write_text('#!/bin/sh\nprintf "%s\\n" "$*" >>"$0.said"\n')
    (tmp_path / "sudo").chmod(0o755)
    process = Mock(pid=4711, kill=Mock(side_effect=PermissionError))
    for _ in range(2):
        kill(process)
    assert (tmp_path / "sudo.said").read_text().splitlines() == ["-n kill -KILL 4711"] * 2


def test_a_program_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(TargetError, match=r"^here: nosuchprogram: not installed$"):
        Host(name="here").run("nosuchprogram")


def test_the_lock_is_every_users(monkeypatch, tmp_path):
    monkeypatch.setattr(lock, "PATH", tmp_path / "lock")
    for _ in range(2):
        with (
            lock.locked(),
            pytest.raises(TargetError, match=r"in use by `.*`, process \d+"),
            lock.locked(),
        ):
            pass
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o666


def test_the_lock_is_no_link_to_another_file(monkeypatch, tmp_path):
    (tmp_path / "other").write_text("kept")
    (tmp_path / "lock").symlink_to(tmp_path / "other")
    monkeypatch.setattr(lock, "PATH", tmp_path / "lock")
    with pytest.raises(TargetError, match=r"lock cannot be used \(.*\): remove it"), lock.locked():
        pass
    assert lock.user() is None
    assert (tmp_path / "other").read_text() == "kept"

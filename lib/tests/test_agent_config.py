"""The agent's configuration: every mistake is one line that names the file and the key."""

import json
from pathlib import Path

import pytest
from benchlab.agent.config import AgentError, engine_names, load_engine, load_envelope

ENVELOPE = {
    "home": "/srv/bench",
    "image": "/srv/bench/disk.img",
    "image_bytes": 1 << 30,
    "mount": "/srv/bench/disk",
    "cores": 2.0,
    "memory_bytes": None,
    "read_bytes_per_s": 35_000_000,
    "write_bytes_per_s": 35_000_000,
    "read_iops": None,
    "write_iops": None,
    "enforce": True,
}
SERVICE = {"name": "server", "start": ["/bin/true"], "port": 55432}
ENGINE = {
    "engine": "fake",
    "user": "nobody",
    "data_dir": "/srv/bench/disk/fake",
    "snapshot_root": "/srv/bench/snapshots/fake",
    "log": "/srv/bench/log/fake.log",
    "pid_file": "/run/bench/fake.pid",
    "port": 55432,
    "variants": {"default": {"services": [SERVICE], "env": {}}},
    "ready": ["/bin/true"],
    "ready_timeout_s": 60,
    "stop_signal": "SIGINT",
    "stop_timeout_s": 60,
}


def services(*changes: dict[str, object]) -> dict[str, object]:
    """Return the variants of an engine with these services, each as it differs from SERVICE."""
    return {"variants": {"default": {"services": [SERVICE | one for one in changes], "env": {}}}}


def log_disk(**config: object) -> dict[str, object]:
    """Return the variants of an engine with this disk for its log."""
    return {"variants": {"default": {"services": [SERVICE], "env": {}, "log_disk": config}}}


def write_envelope(etc: Path, **changes: object) -> None:
    (etc / "envelope.json").write_text(json.dumps(ENVELOPE | changes))


def write_engine(etc: Path, **changes: object) -> None:
    (etc / "engines").mkdir(exist_ok=True)
    (etc / "engines" / "fake.json").write_text(json.dumps(ENGINE | changes))


def test_envelope(tmp_path):
    write_envelope(tmp_path)
    config = load_envelope(tmp_path)
    assert config.mount == Path("/srv/bench/disk")
    assert (config.cgroup, config.first_cpu) == ("benchlab", 0)
    assert config.disk_limits["read_iops"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cores": "two"}, "cores has a wrong type: 'two'"),
        ({"cores": True}, "cores has a wrong type: True"),
        ({"enforce": 1}, "enforce has a wrong type: 1"),
        ({"memory_bytes": 0}, "memory_bytes must be above 0"),
        ({"first_cpu": -1}, "first_cpu must not be below 0"),
        ({"first_cpu": 0.5}, "first_cpu has a wrong type: 0.5"),
        ({"mount": "disk"}, "mount must be an absolute path"),
        ({"corse": 2}, "unknown key corse; valid: cgroup, cores"),
        ({"cgroup": "a/b"}, "cgroup must be the name of one cgroup"),
    ],
)
def test_wrong_envelope(tmp_path, changes, message):
    write_envelope(tmp_path, **changes)
    with pytest.raises(AgentError, match=message) as error:
        load_envelope(tmp_path)
    assert str(tmp_path / "envelope.json") in str(error.value)


def test_missing_and_broken_files(tmp_path):
    with pytest.raises(AgentError, match=r"envelope.json does not exist: provision the host first"):
        load_envelope(tmp_path)
    (tmp_path / "envelope.json").write_text('{"home": "/srv"}')
    with pytest.raises(AgentError, match="missing cores, enforce, image,"):
        load_envelope(tmp_path)
    (tmp_path / "envelope.json").write_text("{")
    with pytest.raises(AgentError, match="is not JSON"):
        load_envelope(tmp_path)


def test_engine(tmp_path):
    write_envelope(tmp_path)
    write_engine(tmp_path)
    (tmp_path / "engines" / "gone.refused.json").write_text(
        '{"engine": "gone", "reason": "no build for this CPU"}'
    )
    envelope = load_envelope(tmp_path)
    assert engine_names(tmp_path) == ["fake"]
    engine = load_engine(tmp_path, "fake", envelope)
    assert engine.account.pw_name == "nobody"
    with pytest.raises(AgentError, match="unknown variant 'tuned'; choose from default"):
        engine.variant("tuned")
    with pytest.raises(AgentError, match="unknown engine 'nope'; provisioned on this host: fake"):
        load_engine(tmp_path, "nope", envelope)
    with pytest.raises(AgentError, match="gone is refused on this host: no build for this CPU"):
        load_engine(tmp_path, "gone", envelope)


def test_an_engine_that_an_older_benchlab_left_can_be_taken_down(tmp_path):
    write_envelope(tmp_path)
    write_engine(tmp_path, variants={"default": {"start": ["postgres", "-D", "x"], "env": {}}})
    (service,) = load_engine(tmp_path, "fake", load_envelope(tmp_path)).variant("default").services
    assert (service.start, service.port) == (["postgres", "-D", "x"], 55432)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_dir": "/srv/other"}, "data_dir /srv/other must lie in the mount /srv/bench/disk"),
        ({"data_dir": "/srv/bench/disk"}, "must lie in the mount"),
        ({"data_dir": "/srv/bench/disk/../../../etc"}, "data_dir /etc must lie in the mount"),
        ({"snapshot_root": "/srv/bench/disk/s"}, "snapshot_root .* outside the mount"),
        ({"stop_signal": "SIGNOTHING"}, "stop_signal 'SIGNOTHING' is not a signal"),
        ({"variants": {"default": {"start": ["a"]}}}, "variant default must have services and env"),
        (services({"start": "postgres"}), "a service must have a name, start"),
        (services({"name": "../client"}), "a service must have a name, start"),
        (services({"name": "tasks"}), "a service must have a name, start"),
        (services({}, {}), "two services have the same name: server, server"),
        (services({"port": 1}), "the last service must be the one on the engine's port, 55432"),
        (services(), "the last service must be the one on the engine's port, 55432"),
        (log_disk(), "log_disk must have folder and write_delay_ms"),
        (
            log_disk(folder="../pg_wal", write_delay_ms=1),
            "log_disk's folder must be a folder's name",
        ),
        (
            log_disk(folder="pg_wal", write_delay_ms=0),
            "write_delay_ms and bytes_per_s must be above 0",
        ),
        (
            log_disk(folder="pg_wal", write_delay_ms=1, bytes_per_s=0.5),
            "write_delay_ms and bytes_per_s must be above 0",
        ),
        ({"ready": []}, "ready must be a non-empty list of strings"),
        ({"port": "55432"}, "port has a wrong type: '55432'"),
    ],
)
def test_wrong_engine(tmp_path, changes, message):
    write_envelope(tmp_path)
    write_engine(tmp_path, **changes)
    with pytest.raises(AgentError, match=message):
        load_engine(tmp_path, "fake", load_envelope(tmp_path))


@pytest.mark.parametrize(
    ("user", "message"),
    [("root", "'root' is root"), ("no-such-user-here", "does not exist on this host")],
)
def test_an_engine_needs_a_user_of_its_own(tmp_path, user, message):
    write_envelope(tmp_path)
    write_engine(tmp_path, user=user)
    with pytest.raises(AgentError, match=message):
        _ = load_engine(tmp_path, "fake", load_envelope(tmp_path)).account

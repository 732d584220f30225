"""`benchlab intervene` on a real server: limits lowered inside a run, and put back whatever happens."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from benchlab.raw import folders
from benchlab.store import open_store, results
from benchlab.target.host import AGENT
from conftest import ETC, MINI, agent, wait_for

pytestmark = pytest.mark.machine

POINT = ("--engine", "postgres", "--workload", "oltp_write_only", "--threads", "2")
INTERVENE = ("intervene", MINI, "--profile", "smoke", *POINT, "--resource", "cpu")


def limits() -> dict:
    return agent("envelope", "status")["limits"]


def is_up() -> bool:
    return ETC.exists() and agent("envelope", "status")["up"]


def processes(verb: str) -> list[int]:
    """Those of the agent that carry out a verb."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if AGENT[-1].encode() in words and verb.encode() in words:
                found.append(int(path.parent.name))
    return found


def test_a_run_with_its_limits_lowered(machine, tmp_path):
    data = tmp_path / "data"
    command = (*INTERVENE, "--resource", "write_bandwidth", "--block", "3", "--blocks", "1")
    code, said = machine.benchlab(data, *command)
    assert code == 0, said
    assert "broke off" not in said
    (folder,) = folders.finished(data / "raw")
    assert str(folder) in said
    assert "disk write bandwidth" in said
    assert "too few blocks" in said
    assert machine.leftovers() == []
    header, *lines = map(json.loads, (folder / "blocks.jsonl").read_text().splitlines())
    in_force = header["header"]["limits"]
    envelope = folders.read(folder).trial.point.envelope
    assert in_force["cores"] == envelope.cores
    assert in_force["write_bytes_per_s"] == envelope.write_bytes_per_s
    lowered = {line["limit"]: line["value"] for line in lines}
    assert lowered == {
        None: None,
        "cores": 0.8 * envelope.cores,
        "write_bytes_per_s": int(0.8 * envelope.write_bytes_per_s),
    }
    with open_store(data / "store") as store:
        blocks = store.sql("SELECT * FROM intervention_block ORDER BY number")
        assert len(blocks) == 5
        assert set(blocks["seconds"]) == {2}
        assert store.sql("SELECT DISTINCT answer FROM elasticity").rows() == [("unclear",)]
        # it is no trial of a curve
        assert results.open_rerun(machine.repo, store, MINI, "smoke").runs.is_empty()
    again, _ = machine.benchlab(data, *command)
    assert again == 0
    assert len(list(folders.finished(data / "raw"))) == 1


def test_limits_are_put_back_when_benchlab_is_killed_inside_a_block(machine, tmp_path):
    sweep = machine.start(tmp_path / "data", *INTERVENE, "--block", "3", "--blocks", "40")
    full = sweep.wait_for(lambda: is_up() and limits()["write_iops"] and limits(), "a load")
    sweep.wait_for(lambda: limits()["cores"] < full["cores"], "a block that lowers the CPU limit")
    sweep.send(signal.SIGKILL)
    # the notebook's kernel sees that its parent is gone, and with it the agent
    wait_for(lambda: not processes("intervene"), "the intervention to end")
    assert limits() == full
    assert len(folders.unfinished(tmp_path / "data" / "raw")) == 1


def test_an_intervention_that_is_killed_fails_its_run(machine, tmp_path):
    sweep = machine.start(tmp_path / "data", *INTERVENE, "--block", "3", "--blocks", "1")
    sweep.wait_for(lambda: is_up() and processes("intervene"), "an intervention")
    for pid in processes("intervene"):
        os.kill(pid, signal.SIGKILL)
    assert sweep.end() == 1
    (folder,) = folders.finished(tmp_path / "data" / "raw")
    record = folders.read(folder)
    assert record.status == "failed"
    assert record.error.startswith("intervention broke off: ")
    assert machine.leftovers() == []

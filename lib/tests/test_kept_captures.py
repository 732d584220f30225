"""What of a node's captures is kept in a run's folder if some of them cannot be used."""

import io
import json
import tarfile

import pytest
from benchlab.raw.record import RunFolder
from benchlab.run import observe
from conftest import ALONE, DATA

SCRIPT = (DATA / "perf" / "script.txt").read_bytes()


def archive(captures: dict[str, bytes]) -> bytes:
    """The captures as the agent sends them: in the order of their names."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w|") as tar:
        for name, content in sorted(captures.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def kept(checkout, at_sixteen):
    """Keep what an agent sent; returns file → content."""

    def keep(sent: bytes, errors: bytes = b"") -> dict[str, bytes]:
        folder = RunFolder(checkout.raw, at_sixteen, "local", ALONE)
        observe._keep(sent, errors, folder, "localhost")
        return {path.name: path.read_bytes() for path in folder.path.iterdir()}

    return keep


def test_stacks_are_folded_and_the_rest_is_kept_as_it_is(kept):
    found = kept(archive({"perf.script": SCRIPT, "sample.jsonl": b"{}\n"}))
    assert set(found) == {"perf.folded", "sample.jsonl"}
    assert found["sample.jsonl"] == b"{}\n"
    assert found["perf.folded"]


def test_stacks_that_are_cut_cost_no_other_capture(kept):
    reported = {"iostat.json": "exit code 1: no such device"}
    found = kept(
        archive(
            {
                "observers.json": json.dumps(reported).encode(),
                "perf.script": SCRIPT[: len(SCRIPT) // 2],
                "sample.jsonl": b"{}\n",
            }
        )
    )
    assert set(found) == {"observers.json", "sample.jsonl"}
    failed = json.loads(found["observers.json"])
    assert failed.keys() == {"iostat.json", "perf.script"}
    assert failed["perf.script"].startswith("perf script")


def test_an_archive_that_is_cut_is_reported_with_what_the_agent_said(kept):
    whole = archive({"iostat.json": b"{}", "sample.jsonl": b"{}\n" * 10_000})
    found = kept(whole[:20_000], b"agent: killed")
    assert "killed" in json.loads(found["observers.json"])["agent"]
    assert kept(b"", b"no agent")["observers.json"]

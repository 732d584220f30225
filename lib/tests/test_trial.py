"""What is told of a trial that did not come to its end."""

import pytest
from benchlab.raw.record import RunFolder
from benchlab.run.trial import _Run
from conftest import DATA

RESET = "postgres: connection failed: server closed the connection unexpectedly"


@pytest.mark.parametrize(
    ("capture", "told"),
    [
        # of PostgreSQL with 256 clients in 1 GiB, whose log had nothing of it
        ("oom.jsonl", f"{RESET} (the kernel killed a process for want of memory)"),
        ("whole.jsonl", RESET),
        ("damaged", RESET),
        (None, RESET),
    ],
)
def test_a_process_killed_for_want_of_memory_is_the_reason_told(checkout, curves, capture, told):
    trial = curves()[0].trials[0]
    folder = RunFolder(checkout.raw, trial, "local", single_host=True)
    if capture:
        damaged = b"no sample\n" * 3
        path = DATA / "sample" / capture
        folder.write("sample.jsonl", path.read_bytes() if path.exists() else damaged)
    record = _Run(None, trial, folder).close(RESET)
    assert (record.status, record.error) == ("failed", told)

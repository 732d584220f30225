"""A store that several processes use: nobody who reads it is in the way of anybody who writes it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchlab.store import ingest, open_store, writer
from conftest import STUDY, wait_for

#: A notebook: it opens the store, says so, and reads all of it again for every line that it gets.
NOTEBOOK = """
import sys, benchlab
from itertools import chain
with benchlab.open() as lab:
    for line in chain(["begin"], sys.stdin):
        runs = lab.runs()
        samples = lab.sql("FROM os_sample SEMI JOIN chosen USING (run_id)", chosen=runs["run_id"])
        missing = set(runs["run_id"]) - set(samples["run_id"])
        print(runs.height, runs["run_id"].n_unique(), len(missing), flush=True)
"""

#: A sweep's ingest: all that is new, again and again until its input ends.
INGEST = """
import sys
from benchlab import repo
from benchlab.store import ingest
for line in sys.stdin:
    print(ingest.ingest_new(repo.find()).count, flush=True)
"""


class Process:
    """A program that answers every line with a line."""

    def __init__(self, program: str):
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self) -> None:
        self.process.stdin.write("again\n")
        self.process.stdin.flush()

    def answer(self) -> list[int]:
        return [int(word) for word in self.process.stdout.readline().split()]

    def counts(self) -> list[int]:
        self.tell()
        return self.answer()


@pytest.fixture
def start(checkout) -> Iterator:
    """Start a program in the checkout."""
    started = []

    def begin(program: str) -> Process:
        started.append(Process(program))
        return started[-1]

    yield begin
    for one in started:
        one.process.stdin.close()
        assert one.process.wait(60) == 0
        one.process.stdout.close()


def test_every_command_works_beside_a_notebook(
    checkout, batches, close_run, start, benchlab, tmp_path
):
    trials = batches()[0].trials
    close_run(trial=trials[0])
    ingest.ingest_new(checkout)
    notebook = start(NOTEBOOK)
    assert notebook.answer() == [1, 1, 0]
    close_run(trial=trials[1])
    for arguments in (
        "ingest",
        "status",
        f"verdicts {STUDY}",
        f"export {tmp_path / 'exported'}",
        "ingest --rebuild",
    ):
        code, said, reason = benchlab(arguments)
        assert code == 0, said + reason
        held, distinct, missing = notebook.counts()
        assert (distinct, missing) == (held, 0)
    with open_store(checkout.store) as store:
        assert store.runs().height == 2


def test_a_notebook_reads_whole_runs_while_a_sweep_ingests(checkout, batches, close_run, start):
    trials = batches()[0].trials
    close_run(trial=trials[0])
    ingest.ingest_new(checkout)
    notebook, sweep = start(NOTEBOOK), start(INGEST)
    assert notebook.answer() == [1, 1, 0]
    for _ in range(10):
        close_run(trial=trials[0])
        sweep.tell()
        notebook.tell()
        assert sweep.answer() == [1]
        held, distinct, missing = notebook.answer()
        assert (distinct, missing) == (held, 0)
    assert start(NOTEBOOK).answer() == [11, 11, 0]


def test_a_query_for_some_runs_sees_them_after_their_files_were_replaced(
    checkout, batches, close_run
):
    records = []
    for trial in batches()[0].trials[:2]:  # a segment each
        records.append(close_run(trial=trial))
        ingest.ingest_new(checkout)
    one = records[0].run_id
    with open_store(checkout.store) as store:
        ingest.rebuild(checkout)
        samples = store.sql("FROM os_sample SEMI JOIN chosen USING (run_id)", chosen=[one])
        assert set(samples["run_id"]) == {one}
        # and the next query sees all of them again
        assert store.sql("SELECT DISTINCT run_id FROM os_sample").height == 2


def test_two_ingests_at_once_add_each_run_once(checkout, batches, close_run, start):
    both = [start(INGEST), start(INGEST)]
    for round_ in range(1, 4):
        for trial in batches()[0].trials[:3]:
            close_run(trial=trial)
        for one in both:
            one.tell()
        assert sum(one.answer()[0] for one in both) == 3
        with open_store(checkout.store) as store:
            assert len(store.runs()) == 3 * round_


def test_a_writer_waits_for_the_one_before_it(checkout, close_run, start):
    close_run()
    with writer.adding(checkout.store):
        other = start(INGEST)
        other.tell()
        lock = str((checkout.store / "lock").stat().st_ino)
        wait_for(lambda: f":{lock} " in Path("/proc/locks").read_text(), "the lock")
        assert not (checkout.store / "run").exists()
    assert other.answer() == [1]

"""What observers cost, as the benchmark works it out of blocks with them and without."""

import gzip

import pytest
from benchlab.agent.observe import REPORT
from benchlab.observers.log_trace import LogTrace
from conftest import DATA

RECORDED = DATA / "log_trace" / "remote_update_32.json.gz"


@pytest.fixture
def observer_cost(benchmark_part):
    return benchmark_part("observer_cost")


class Observed:
    """Observers of a block that were stopped and left these captures."""

    def __init__(self, **captures: bytes):
        self.captures = captures

    def collect(self, folder) -> None:
        for name, content in self.captures.items():
            folder.write(name, content, "db1")


@pytest.fixture
def watched(observer_cost):
    observers = {"trace": LogTrace("postgres", "pg_wal")}
    return observer_cost.Watched(
        "two tracers", observers, "oltp_insert", 2, 10, 6, "", observer_cost._traced_s
    )


def test_each_pair_gives_a_ratio_of_one_set(observer_cost, watched):
    blocks = [True, False, False, True, True, False]
    tps = {}
    for number, on in enumerate(blocks):
        level = (1 + number // 2) * (0.98**2 if on else 1.0)  # the machine grows faster
        for second in range(1, 11):
            counts = 6 < second < 10
            tps[10 * number + second] = level if counts else 99.0
    del tps[38]  # sysbench left one out
    found = observer_cost.ratios(tps, blocks, watched)
    assert found == pytest.approx([0.98, 0.98])  # the first pair warms up


def traced(seconds: int) -> bytes:
    """What bpftrace printed in its first seconds."""
    lines = gzip.decompress(RECORDED.read_bytes()).splitlines(keepends=True)
    times = [number for number, line in enumerate(lines) if b'"printf"' in line]
    return b"".join(lines[: times[seconds]])


def test_tracers_that_watched_all_that_counts_are_let_pass(observer_cost, watched):
    captures = {"0-trace": traced(3), "1-trace": traced(5)}
    observer_cost._require_watched(Observed(**captures), watched)


@pytest.mark.parametrize(
    ("captures", "said"),
    [
        (
            {"0-trace": traced(3), "1-trace": traced(2)},
            "1-trace watched for 2 s of a block, of which 3 s count",
        ),
        ({"1-trace": traced(3)}, "0-trace watched for 0 s of a block, of which 3 s count"),
        ({REPORT: b'{"0-trace": "exit code 1"}'}, 'an observer failed: {"0-trace": "exit code 1"}'),
    ],
)
def test_a_tracer_that_began_late_or_failed_is_not_taken_for_a_cheap_one(
    observer_cost, watched, captures, said
):
    with pytest.raises(SystemExit) as raised:
        observer_cost._require_watched(Observed(**captures), watched)
    assert str(raised.value) == said

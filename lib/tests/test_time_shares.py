"""Where the time of a rerun goes, as the benchmark reports it."""

from datetime import UTC, datetime

import pytest


@pytest.fixture
def time_shares(benchmark_part):
    return benchmark_part("time_shares")


def at(second: float) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def test_shares_are_those_of_what_a_rerun_did(time_shares, close_run):
    # 10 s set-up; then, from 1000 on, 40 s provisioning, 20 s in which a dataset is loaded, two runs of
    # 15 s (the second begins 1 s before the first is closed), 3 s until the sweep ends, 8 s paper
    one, two = (close_run() for _ in range(2))
    phases = {"cold": (1060, 1062), "warmup": (1063, 1066), "measure": (1066, 1072)}
    later = {name: (begin + 14, end + 14) for name, (begin, end) in phases.items()}
    runs = [
        two.model_copy(update={"started": at(1074), "ended": at(1089), "phases": later}),
        one.model_copy(update={"started": at(1060), "ended": at(1075), "phases": phases}),
    ]
    times = time_shares.Times(10, 1000, 1040, 1092, 1100, runs, loaded=[1050])
    assert {
        what: share * 110 for what, share in time_shares.shares(times).items()
    } == pytest.approx(
        {
            "set-up": 10,
            "provisioning": 40,
            "what lies between runs, a dataset loaded": 20,
            "what lies between other runs": 3,
            "cold starts": 4,
            "load (warm-up and measured parts)": 18,
            "what else a run does": 7,
            "the paper": 8,
        }
    )
    assert sum(time_shares.shares(times).values()) == pytest.approx(1)

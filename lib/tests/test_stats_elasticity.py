"""Elasticity over blocks, held against simulated runs whose truth is known."""

import numpy as np
import pytest
from benchlab import stats
from hypothesis import given
from hypothesis import strategies as st

FACTOR = 0.8


def compared(
    rng: np.random.Generator,
    true: float,
    blocks: int,
    noise: float = 0.05,
    stalls: float = 0.0,
    drift: float = 0.0,
    seconds: int = 4,
) -> tuple[list[float], list[float]]:
    """Throughput of lowered blocks and of those beside, from a run of dependent seconds.

    noise: of a second, relative (ρ = 0.5); stalls: share of seconds at which one begins, of up to three
    seconds at a third; drift: logarithm of the level's change over the run.
    """
    length = (2 * blocks + 1) * seconds
    level = np.zeros(length)
    for at in range(1, length):
        level[at] = 0.5 * level[at - 1] + rng.normal(0, noise * 0.75**0.5)
    tps = np.exp(level + drift * np.linspace(0, 1, length)) * 1000
    for at in np.flatnonzero(rng.random(length) < stalls):
        tps[at : at + rng.integers(1, 4)] *= 1 / 3
    means = tps.reshape(-1, seconds)[:, 1:].mean(axis=1)
    lowered = means[1::2] * FACTOR**true
    return list(lowered), list((means[:-1:2] + means[2::2]) / 2)


RUNS = {
    "steady": {},
    "noisy": {"noise": 0.2},
    "bursts": {"noise": 0.1, "stalls": 0.1},
    "drift": {"drift": 1.0},
    "long": {"drift": -0.5, "seconds": 8},
}


@pytest.mark.parametrize("blocks", [3, 4, 8, 15])
@pytest.mark.parametrize("true", [0.0, 1.0])
@pytest.mark.parametrize("kind", RUNS)
def test_the_interval_covers_the_truth(kind, true, blocks):
    rng = np.random.default_rng(7)
    found = [
        stats.elasticity(*compared(rng, true, blocks, **RUNS[kind]), FACTOR, shared=blocks - 1)
        for _ in range(600)
    ]
    covered = np.mean([one.low <= true <= one.high for one in found])
    assert covered > 0.915  # 95 % less three standard errors of 600 runs, and a little
    errors = [one.value - true for one in found]
    assert abs(np.mean(errors)) < 0.05 + 4 * np.std(errors) / 600**0.5


def test_bursts_widen_the_interval_and_blocks_narrow_it():
    rng = np.random.default_rng(3)

    def width(blocks: int, **kind: float) -> float:
        found = [stats.elasticity(*compared(rng, 1, blocks, **kind), FACTOR) for _ in range(200)]
        return float(np.median([one.high - one.low for one in found]))

    assert width(6, **RUNS["bursts"]) > 3 * width(6)
    assert width(12) < 0.7 * width(4)


def of_one_run(
    rng: np.random.Generator, truths: list[float], noises: list[float], blocks: int
) -> list[stats.Estimate]:
    """Elasticity to each limit that a run's blocks lowered, the spread moderated by all of them."""
    found = [
        compared(rng, true, blocks, noise=noise) for true, noise in zip(truths, noises, strict=True)
    ]
    prior = stats.in_common(stats.block_spread(*one) for one in found)
    return [stats.elasticity(*one, FACTOR, shared=blocks - 1, prior=prior) for one in found]


@pytest.mark.parametrize("blocks", [3, 4, 8])
@pytest.mark.parametrize(
    "noises",
    [[0.1] * 5, [0.05, 0.1, 0.1, 0.1, 0.2], [0.03, 0.1, 0.1, 0.1, 0.1]],
    ids=["alike", "unlike", "one steady"],
)
def test_what_other_limits_blocks_tell_of_the_spread_narrows_and_still_covers(noises, blocks):
    rng = np.random.default_rng(11)
    truths = [0.0, 1.0, 0.0, 0.5, 0.0]
    runs = [of_one_run(rng, truths, noises, blocks) for _ in range(300)]
    covered = np.mean(
        [
            [one.low <= true <= one.high for one, true in zip(run, truths, strict=True)]
            for run in runs
        ],
        axis=0,
    )
    assert covered.mean() > 0.915  # as above
    assert covered.min() > 0.85  # of one that is twice as noisy as the others
    if len(set(noises)) == 1:
        own = [
            stats.elasticity(*compared(rng, 0, blocks, noise=0.1), FACTOR, shared=blocks - 1)
            for _ in range(300)
        ]
        widest = np.quantile([one.high - one.low for one in own], 0.9)
        assert np.quantile([run[0].high - run[0].low for run in runs], 0.9) < 0.85 * widest


@given(
    base=st.lists(st.floats(1, 1e6), min_size=1, max_size=12),
    true=st.floats(-1, 3),
    factor=st.floats(0.05, 0.95),
    scale=st.floats(1e-3, 1e3),
)
def test_an_exact_response_is_found_exactly(base, true, factor, scale):
    lowered = [one * factor**true for one in base]
    found = stats.elasticity(lowered, base, factor)
    assert found.value == pytest.approx(true, abs=1e-9)
    assert found.n == len(base)
    scaled = stats.elasticity([x * scale for x in lowered], [x * scale for x in base], factor)
    assert scaled.value == pytest.approx(found.value, abs=1e-9)
    if len(base) < 3:
        assert found.low is None
        assert found.high is None
    else:
        assert found.low <= found.value <= found.high
        assert found.high - found.low < 1e-6


def test_a_block_in_which_all_stood_still_counts():
    found = stats.elasticity([0.0, 800, 800], [1000, 1000, 1000], FACTOR)
    assert found.low < 1 < found.value < found.high


@pytest.mark.parametrize(
    ("lowered", "beside", "factor"),
    [
        ([], [], 0.8),
        ([1], [1, 2], 0.8),
        ([1], [1], 1),
        ([1], [1], 0),
        ([0], [1], 0.8),
        ([1], [0], 0.8),
    ],
)
def test_what_has_no_elasticity_is_refused(lowered, beside, factor):
    with pytest.raises(ValueError, match="elasticity"):
        stats.elasticity(lowered, beside, factor)

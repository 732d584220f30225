"""TPC-C's random rules: the standard's examples, ranges, and distributions by chi-square."""

import random
import subprocess
import sys

import numpy as np
import pytest
from benchlab.workloads import tables_of
from benchlab.workloads.tpcc import rules
from benchlab.workloads.tpcc.dataset import Tpcc
from benchlab.workloads.tpcc.rules import Constants
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

#: The standard's, with fewer items: every pair of draws is counted here.
USES = [(rules.C_LAST_A, 0, 999), (rules.C_ID_A, 1, 3000), (rules.OL_I_ID_A, 1, 3000)]


def probabilities(a: int, x: int, y: int, c: int) -> np.ndarray:
    """Of each number from x to y, by counting every pair of draws."""
    either = np.arange(a + 1, dtype=np.int32)[:, None] | np.arange(x, y + 1, dtype=np.int32)
    return np.bincount(((either + c) % (y - x + 1)).ravel(), minlength=y - x + 1) / either.size


def test_the_standards_example_of_a_last_name():
    assert rules.last_name(371) == "PRICALLYOUGHT"  # clause 4.3.2.3
    assert rules.last_name(0) == "BARBARBAR"
    assert rules.last_name(999) == "EINGEINGEING"
    assert len({rules.last_name(number) for number in range(rules.LAST_NAMES)}) == 1000


@pytest.mark.parametrize(("a", "x", "y"), USES)
def test_both_forms_of_nurand_have_the_distribution_of_its_definition(a, x, y):
    c = a // 3
    expected = probabilities(a, x, y, c) * 100_000
    drawn = rules.nurand(np.random.default_rng(1), a, x, y, c, 100_000)
    scalar_random = random.Random(1)
    scalars = [rules.nurand_int(scalar_random, a, x, y, c) for _ in range(100_000)]
    # numbers of about the same probability together, so that enough of each are expected
    order = np.argsort(expected, kind="stable")
    bins = np.array_split(order, 100)
    for values in (drawn, np.array(scalars)):
        assert values.min() >= x
        assert values.max() <= y
        counts = np.bincount(values - x, minlength=y - x + 1)
        found = [counts[one].sum() for one in bins]
        assert chisquare(found, [expected[one].sum() for one in bins]).pvalue > 0.001


def test_one_number_is_a_scalar():
    assert 0 <= int(rules.nurand(np.random.default_rng(1), 255, 0, 999, 7)) <= 999


@given(st.integers(0, 2**64), st.integers(0, 2**64))
def test_a_runs_constants_keep_their_distance_from_the_loads(load_seed, run_seed):
    load = rules.load_constants(load_seed)
    run = rules.run_constants(run_seed, load)
    distance = abs(run.c_last - load.c_last)
    assert 65 <= distance <= 119
    assert distance not in (96, 112)
    for one in (load, run):
        assert 0 <= one.c_last <= 255
        assert 0 <= one.c_id <= 1023
        assert 0 <= one.ol_i_id <= 8191


def test_every_constant_of_a_load_leaves_several_for_a_run():
    for c_last in range(256):
        load = Constants(c_last, 0, 0)
        assert len({rules.run_constants(seed, load).c_last for seed in range(10)}) > 3


def test_constants_are_those_of_the_seed():
    load = rules.load_constants(7)
    assert load == rules.load_constants(7) != rules.load_constants(8)
    assert rules.run_constants(1, load) == rules.run_constants(1, load)
    assert rules.run_constants(1, load) != rules.run_constants(2, load)


def test_a_run_is_told_constants_that_fit_its_load():
    dataset = Tpcc(warehouses=6, seed=11)
    options = tables_of(dataset).options()
    assert options.keys() == {"warehouses", "c-last", "c-id", "ol-i-id"}
    assert options["warehouses"] == 6
    distance = abs(options["c-last"] - rules.load_constants(11).c_last)
    assert distance in rules.C_LAST_DELTAS


def test_terminals_need_no_numpy_for_it():
    code = "import sys; from benchlab.workloads.tpcc import rules; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

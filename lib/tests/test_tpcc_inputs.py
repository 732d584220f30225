"""What terminals enter: each input is distributed as its clause has it, and follows from the seed."""

from collections import Counter
from decimal import Decimal

import msgspec
import numpy as np
import pytest
from benchlab.drivers.tpcc import inputs
from benchlab.drivers.tpcc.inputs import Draws, Inputs
from benchlab.workloads.tpcc.dataset import CUSTOMERS, DISTRICTS, ITEMS, TYPES
from benchlab.workloads.tpcc.rules import C_ID_A, C_LAST_A, Constants, last_name
from benchlab.workloads.tpcc.transactions.contract import REQUESTS
from scipy import stats

CONSTANTS = Constants(c_last=123, c_id=456, ol_i_id=7890)
WAREHOUSES, HOME, PLACE = 5, 3, 7
DRAWN = 20_000

#: So unlikely by chance that it is an error; seeds are fixed, so it never is by chance twice.
ALPHA = 0.001


def draw(name: str, count: int = DRAWN, warehouses: int = WAREHOUSES, home: int = HOME) -> list:
    """Return requests and traits of one terminal's cycles."""
    one, draws = Inputs(CONSTANTS, warehouses), Draws(1)
    number = TYPES.index(name)
    return [one.draw(number, draws.of(4, cycle), home, PLACE) for cycle in range(1, count + 1)]


@pytest.fixture(scope="module")
def new_orders() -> list:
    return draw("new_order")


@pytest.fixture(scope="module")
def payments() -> list:
    return draw("payment")


def are_uniform(values: list, low: int, high: int) -> bool:
    counts = Counter(values)
    assert set(counts) <= set(range(low, high + 1))
    return stats.chisquare([counts[one] for one in range(low, high + 1)]).pvalue > ALPHA


def is_share(count: int, of: int, share: float) -> bool:
    return stats.binomtest(count, of, share).pvalue > ALPHA


def are_nurand(values: list[int], a: int, x: int, y: int, c: int) -> bool:
    """Whether values are as clause 2.1.6 has them: all outcomes of its two uniform draws counted."""
    either = np.arange(a + 1)[:, None] | np.arange(x, y + 1)[None, :]
    expected = np.bincount((((either + c) % (y - x + 1)) + x).ravel(), minlength=y + 1)[x:]
    found = np.bincount(values, minlength=y + 1)[x:]
    # bins of some dozens each
    width = 20
    expected, found = (np.add.reduceat(one, range(0, len(one), width)) for one in (expected, found))
    return stats.chisquare(found, expected / expected.sum() * len(values)).pvalue > ALPHA


# New-Order (clause 2.4.1)


def test_orders_are_of_any_district_and_a_customer_by_nurand(new_orders):
    requests = [request for request, _ in new_orders]
    assert {one.w_id for one in requests} == {HOME}
    assert are_uniform([one.d_id for one in requests], 1, DISTRICTS)
    assert are_nurand([one.c_id for one in requests], C_ID_A, 1, CUSTOMERS, CONSTANTS.c_id)


def test_orders_have_from_5_to_15_lines_and_1_to_10_of_each(new_orders):
    assert are_uniform([len(request.lines) for request, _ in new_orders], 5, 15)
    assert are_uniform(
        [line.quantity for request, _ in new_orders for line in request.lines], 1, 10
    )


def test_one_order_in_100_rolls_back_by_its_last_item_alone(new_orders):
    rolled_back = [request for request, traits in new_orders if traits.rolled_back]
    assert is_share(len(rolled_back), DRAWN, 0.01)
    assert {request.lines[-1].i_id for request in rolled_back} == {inputs.UNUSED_ITEM}
    valid = [line.i_id for request in rolled_back for line in request.lines[:-1]]
    valid += [
        line.i_id
        for request, traits in new_orders
        if not traits.rolled_back
        for line in request.lines
    ]
    assert min(valid) >= 1
    assert max(valid) <= ITEMS


def test_items_are_by_nurand(new_orders):
    items = np.array([line.i_id for request, _ in new_orders for line in request.lines[:-1]])
    # without C it is one of 8192 numbers or one of the catalogue: low bits are set 3 times in 4
    either = (items - 1 - CONSTANTS.ol_i_id) % ITEMS
    ones = [(either >> bit & 1).mean() for bit in range(13)]
    assert all(0.73 < share < 0.77 for share in ones), ones
    # drawn uniformly, five sixths of the catalogue would be among them
    assert len(np.unique(items)) < ITEMS / 2


def test_one_line_in_100_is_from_another_warehouse_each_as_likely(new_orders):
    suppliers = [line.supply_w_id for request, _ in new_orders for line in request.lines]
    remote = [one for one in suppliers if one != HOME]
    assert is_share(len(remote), len(suppliers), 0.01)
    assert are_uniform([one - (one > HOME) for one in remote], 1, WAREHOUSES - 1)


def test_an_order_s_lines_are_counted(new_orders):
    for request, traits in new_orders:
        assert traits.lines == len(request.lines)
        assert traits.remote_lines == sum(line.supply_w_id != HOME for line in request.lines)
        assert traits.remote is traits.by_name is None


# Payment (clause 2.5.1)


def test_payments_are_of_a_customer_of_another_warehouse_15_times_in_100(payments):
    remote = [request for request, traits in payments if traits.remote]
    assert is_share(len(remote), DRAWN, 0.15)
    assert are_uniform([one.c_w_id - (one.c_w_id > HOME) for one in remote], 1, WAREHOUSES - 1)
    # the customer's district is drawn anew
    pairs = np.zeros((DISTRICTS, DISTRICTS))
    np.add.at(pairs, ([one.d_id - 1 for one in remote], [one.c_d_id - 1 for one in remote]), 1)
    assert stats.chisquare(pairs.ravel()).pvalue > ALPHA
    own = [request for request, traits in payments if not traits.remote]
    assert {one.c_w_id for one in own} == {HOME}
    assert all(one.c_d_id == one.d_id for one in own)


def test_payments_are_from_1_to_5000_in_cents(payments):
    amounts = [request.h_amount for request, _ in payments]
    assert all(one == one.quantize(Decimal("0.01")) for one in amounts)
    cents = [int(one * 100) - 100 for one in amounts]
    assert min(cents) >= 0
    assert max(cents) <= 499_900
    assert are_uniform([one * 20 // 499_901 for one in cents], 0, 19)


@pytest.mark.parametrize("name", ["payment", "order_status"])
def test_customers_are_named_60_times_in_100_and_numbered_otherwise(name):
    drawn = draw(name)
    named = [request.c_last for request, traits in drawn if traits.by_name]
    numbered = [request.c_id for request, traits in drawn if not traits.by_name]
    assert is_share(len(named), DRAWN, 0.6)
    assert all((request.c_id is None) is traits.by_name for request, traits in drawn)
    assert all((request.c_last is None) is not traits.by_name for request, traits in drawn)
    numbers = {last_name(number): number for number in range(1000)}
    assert are_nurand([numbers[one] for one in named], C_LAST_A, 0, 999, CONSTANTS.c_last)
    assert are_nurand(numbered, C_ID_A, 1, CUSTOMERS, CONSTANTS.c_id)


# the others


def test_carriers_thresholds_and_districts():
    assert are_uniform([request.o_carrier_id for request, _ in draw("delivery")], 1, 10)
    assert are_uniform([request.d_id for request, _ in draw("order_status")], 1, DISTRICTS)
    levels = [request for request, _ in draw("stock_level")]
    assert are_uniform([one.threshold for one in levels], 10, 20)
    assert {(one.w_id, one.d_id) for one in levels} == {(HOME, PLACE)}


def test_one_warehouse_alone_has_no_other():
    for request, traits in draw("new_order", 2000, warehouses=1, home=1):
        assert {line.supply_w_id for line in request.lines} == {1}
        assert traits.remote_lines == 0
    for request, traits in draw("payment", 2000, warehouses=1, home=1):
        assert request.c_w_id == 1
        assert traits.remote is False


# what they follow from


@pytest.mark.parametrize("name", TYPES)
def test_an_input_follows_from_seed_terminal_and_cycle_alone(name):
    one, number = Inputs(CONSTANTS, WAREHOUSES), TYPES.index(name)

    def drawn(seed: int, keys: list[tuple[int, int]]) -> dict:
        draws = Draws(seed)
        return {key: one.draw(number, draws.of(*key), HOME, PLACE) for key in keys}

    keys = [(terminal, cycle) for terminal in range(20) for cycle in range(1, 20)]
    there, back = drawn(1, keys), drawn(1, keys[::-1])
    assert there == back
    assert there != drawn(2, keys)
    assert there != {(a, b): value for (b, a), value in there.items()}


def test_random_numbers_of_neighbours_are_independent():
    draws = Draws(1)
    first = np.array([[draws.of(a, b).random() for b in range(200)] for a in range(200)])
    assert stats.kstest(first.ravel(), "uniform").pvalue > ALPHA
    cells = np.zeros((10, 10))
    for neighbour in (np.roll(first, 1, axis=0), np.roll(first, 1, axis=1)):
        cells[:] = 0
        np.add.at(cells, ((first * 10).astype(int), (neighbour * 10).astype(int)), 1)
        assert stats.chisquare(cells.ravel()).pvalue > ALPHA


@pytest.mark.parametrize("name", TYPES)
def test_the_application_server_reads_what_is_sent(name):
    for request, _ in draw(name, 200):
        assert msgspec.json.decode(msgspec.json.encode(request), type=REQUESTS[name]) == request

"""Whether a run is steady: decided during the run, to end it, and again from its captures."""

from collections.abc import Sequence
from math import floor

#: Largest relative difference between levels of throughput that does not matter.
TOLERANCE = 0.05

#: Least number of cycles of the engine's background work over which a workload that writes is measured.
CYCLES = 2

#: Least length of a measured part in seconds. In fewer values it cannot be decided whether neighbours
#: depend on each other, nor whether the level changed (:func:`benchlab.stats.change_points`).
LEAST_S = 12

#: Least warm-up of a workload that writes, in seconds. Every 5 s the kernel writes the pages that have
#: been dirty for 30 s (dirty_writeback_centisecs, dirty_expire_centisecs; kernel documentation,
#: admin-guide/sysctl/vm). Until then the disk has less to do than at any later time.
WRITEBACK_S = 40


#: Least number of transactions with which a measured part may end before its longest time. A count of
#: 100 random events has a standard deviation of a tenth.
LEAST_TRANSACTIONS = 100


def cycles_between(first: float, last: float) -> float:
    """Return how many complete cycles lie between two counts.

    Of fractions of a cycle it is the difference. Whole numbers count cycles that have begun: three
    starts enclose two complete cycles.

    Args:
        first: count from :meth:`benchlab.engines.Engine.background_cycles`.
        last: a later count.
    """
    if float(first).is_integer() and float(last).is_integer():
        return max(last - first - 1, 0.0)
    return last - first


def unsteady(
    tps: Sequence[float], writes: bool, cycles: float | None, warmed_s: float
) -> str | None:
    """Return why a measured part is not steady; ``None`` if it is.

    It is steady if no change of level of more than :data:`TOLERANCE` can be detected in its seconds
    (:func:`benchlab.stats.steady_from`), nor a drift by more than that from its begin to its end
    (:func:`benchlab.stats.trend`). If the workload writes, the measured part must also come after
    a warm-up of :data:`WRITEBACK_S` and span :data:`CYCLES` cycles of the engine's background work.

    Args:
        tps: throughput of each second.
        writes: whether the workload writes.
        cycles: cycles in it (:func:`cycles_between`); ``None``: the engine does not report them.
        warmed_s: length of the warm-up in seconds.
    """
    from benchlab import stats  # slow to import, for notebooks that do not need it

    seconds = len(tps)
    if seconds < LEAST_S:
        return f"{seconds} s are too short to tell whether it was steady, which takes {LEAST_S} s"
    if writes and warmed_s < WRITEBACK_S:
        return f"warmed up for {warmed_s:.0f} s, where a workload that writes takes {WRITEBACK_S} s"
    if writes and cycles is None:
        return "the engine does not report its background work"
    if writes and cycles < CYCLES:
        done = floor(10 * cycles) / 10  # rounded up it might be enough
        return f"{done:g} of {CYCLES} cycles of the engine's background work in {seconds} s"
    if not any(tps):
        return f"no transaction ended in {seconds} s"
    begin = stats.steady_from(tps, TOLERANCE)
    if begin is None:
        return f"not settled to within {TOLERANCE:.0%} in {seconds} s"
    if begin:
        return f"settled to within {TOLERANCE:.0%} only after {begin} of {seconds} s"
    trend = stats.trend(tps)
    if stats.equivalent(trend, 1, 1 + TOLERANCE) is stats.Answer.FAILS:
        return f"drifted by {trend.value - 1:+.0%} in {seconds} s"
    return None


def may_end(tps: Sequence[float], writes: bool, cycles: float | None, warmed_s: float) -> bool:
    """Return whether a measured part may end before its longest time.

    It must be steady, :data:`LEAST_TRANSACTIONS` must have ended, and the means of its halves must
    differ by :data:`TOLERANCE` at most. In noise a drift cannot be detected at first. By the time the
    means agree, either it can be detected or the noise has averaged out.

    Args:
        tps: see :func:`unsteady`.
        writes: see :func:`unsteady`.
        cycles: see :func:`unsteady`.
        warmed_s: see :func:`unsteady`.
    """
    from benchlab import stats  # as above

    if sum(tps) < LEAST_TRANSACTIONS or unsteady(tps, writes, cycles, warmed_s):
        return False
    return abs(stats.drift(tps)) <= TOLERANCE


def least_warmup_s(least_s: float, writes: bool) -> float:
    """Return the seconds that a warm-up lasts at least.

    Args:
        least_s: least length that the profile sets.
        writes: whether the workload writes.
    """
    return max(least_s, WRITEBACK_S) if writes else least_s


def is_warm(seconds: int, least_s: int, writes: bool, cycles: float | None) -> bool:
    """Return whether a warm-up may end.

    It lasts ``least_s``. For a workload that writes it also lasts :data:`WRITEBACK_S` and one cycle of
    the engine's background work.

    Args:
        seconds: seconds since the warm-up started.
        least_s: least length of the warm-up in seconds.
        writes: whether the workload writes.
        cycles: see :func:`unsteady`; if they are not reported, the warm-up does not wait for one.
    """
    is_long_enough = seconds >= least_warmup_s(least_s, writes)
    return is_long_enough and (not writes or cycles is None or cycles >= 1)

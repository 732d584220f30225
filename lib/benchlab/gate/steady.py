"""Whether a run was steady: while it goes on, to end it, and from what it left."""

from collections.abc import Sequence

#: Relative difference between levels of throughput that does not matter.
TOLERANCE = 0.05

#: Cycles of the engine's background work that a workload that writes is measured over.
CYCLES = 2

#: Seconds below which it cannot be told whether neighbours depend on each other, and so neither
#: whether a level changed (:func:`benchlab.stats.change_points`).
LEAST_S = 12

#: Seconds that a workload that writes is warmed up for at least. The kernel looks every 5 s for pages
#: to write that have been dirty for 30 s (dirty_writeback_centisecs, dirty_expire_centisecs; kernel
#: documentation, admin-guide/sysctl/vm): until then the disk has less to do than ever after.
WRITEBACK_S = 40


def spanned(first: float, last: float) -> float:
    """Return how many cycles surely lie between two counts of them.

    An engine that reports parts of a cycle reports the difference. Whole counts are those of cycles
    begun, and between three begins lie two cycles.

    Args:
        first: as of :meth:`benchlab.engines.Engine.background_cycles`.
        last: the same, later.
    """
    if float(first).is_integer() and float(last).is_integer():
        return max(last - first - 1, 0.0)
    return last - first


def unsteady(
    tps: Sequence[float], writes: bool, cycles: float | None, warmed_s: float
) -> str | None:
    """Return why a measured part is not steady, or ``None``.

    It is if no change of level of more than :data:`TOLERANCE` can be detected in its seconds
    (:func:`benchlab.stats.steady_from`). Where the workload writes it also has to come after a warm-up
    of :data:`WRITEBACK_S` and to span :data:`CYCLES` cycles of the engine's background work.

    Args:
        tps: throughput of each second.
        writes: whether the workload does.
        cycles: that it spans, of :func:`spanned`; ``None``: the engine does not report them.
        warmed_s: seconds that the load went on before.
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
        return f"{cycles:.2g} of {CYCLES} cycles of the engine's background work in {seconds} s"
    begin = stats.steady_from(tps, TOLERANCE)
    if begin is None:
        return f"not settled to within {TOLERANCE:.0%} in {seconds} s"
    if begin:
        return f"settled to within {TOLERANCE:.0%} only after {begin} of {seconds} s"
    return None


def enough(tps: Sequence[float], writes: bool, cycles: float | None, warmed_s: float) -> bool:
    """Return whether a measured part may end before its longest time.

    It has to be steady, and the means of its halves to lie within :data:`TOLERANCE`: in noise a drift
    cannot be detected at first, and by then it can be, or the noise has averaged out.

    Args:
        tps: as of :func:`unsteady`, as are the others.
        writes: see there.
        cycles: see there.
        warmed_s: see there.
    """
    from benchlab import stats  # as above

    if unsteady(tps, writes, cycles, warmed_s):
        return False
    return abs(stats.drift(tps)) <= TOLERANCE


def warm(seconds: int, least_s: int, writes: bool, cycles: float | None) -> bool:
    """Return whether a warm-up may end.

    It takes its time, and for a workload that writes :data:`WRITEBACK_S` and one cycle of the engine's
    background work.

    Args:
        seconds: since its begin.
        least_s: its time.
        writes: whether the workload does.
        cycles: as in :func:`unsteady`; where they are not reported they are not waited for.
    """
    if not writes:
        return seconds >= least_s
    return seconds >= max(least_s, WRITEBACK_S) and (cycles is None or cycles >= 1)

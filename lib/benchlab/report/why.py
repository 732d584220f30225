"""Why a claim has its verdict: its test, the runs that the test uses, and their limits."""

from collections.abc import Iterator

import polars as pl

from benchlab.claims import words
from benchlab.claims.judge import Judgement
from benchlab.gate import sizes
from benchlab.gate.similar import dissimilar
from benchlab.plan.envelope import GIB
from benchlab.report import points
from benchlab.report.points import with_curve
from benchlab.store import metrics
from benchlab.store.results import Rerun
from benchlab.study import DEFAULT_ENVELOPE
from benchlab.study.resources import UNKNOWN
from benchlab.study.vocabulary import OF_CLAIMS, OF_SINGLE_WRITES


def lines(one: Judgement) -> Iterator[str]:
    """Yield what a claim says, what its test requires, and the result."""
    claim = one.claim
    yield f"claim      {claim.claim.strip()}"
    yield f"section    {claim.where}"
    yield f"test       {claim.decided_by.test}: {words.condition(claim.decided_by) or 'none'}"
    yield f"verdict    {one.verdict}"
    if one.found:
        yield f"found      {one.found}"
    if one.reason:
        yield f"reason     {one.reason}"
    if one.confidence is not None:
        yield f"confidence {one.confidence:.1%} of each interval, as all verdicts are one family"
    if one.trials_needed:
        yield f"trials     about {one.trials_needed:,} of each point would decide"


def runs(rerun: Rerun, one: Judgement) -> pl.DataFrame:
    """Return the runs that a claim's test uses, one row per run; none if it uses no runs.

    A metric of single writes is the median over the writes of the run.

    Columns: ``curve``, ``workload``, ``clients``, ``trial``, ``metric`` (with its unit), ``value``,
    ``bound by``, ``gate`` (``passed``, or the checks that the run or its curve failed) and ``run_id``.
    Client counts are ours, not the article's.
    """
    failed = rerun.gate.group_by("run_id").agg(pl.col("found").str.join("; ").alias("failed"))
    unlike = pl.DataFrame(
        [(*curve, found) for curve, found in dissimilar(rerun).items()],
        schema=dict.fromkeys(("engine", "variant", "unlike"), pl.String),
        orient="row",
    )
    counted = rerun.counted.filter(envelope=DEFAULT_ENVELOPE)
    written = rerun.single_writes.filter(envelope=DEFAULT_ENVELOPE)
    bound = points.bound_by(rerun, pl.concat([counted, written], how="diagonal"))
    writes = metrics.of_single_writes(rerun.store, written).group_by("run_id")
    measured = (
        pl.concat(
            [
                metrics.of(rerun.store, counted),
                written.join(writes.agg(pl.col(*OF_SINGLE_WRITES).median()), on="run_id"),
            ],
            how="diagonal",
        )
        .join(bound, on="run_id", how="left")
        .join(failed, on="run_id", how="left")
        .join(unlike, on=["engine", "variant"], how="left")
        .with_columns(
            pl.concat_str("failed", "unlike", separator="; ", ignore_nulls=True).alias("gate")
        )
    )
    frames = [
        with_curve(
            measured.filter(
                pl.col("run_id").is_in(
                    (written if series.metric in OF_SINGLE_WRITES else counted)["run_id"].implode()
                ),
                engine=series.engine,
                variant=series.variant,
                workload=series.workload,
            ).sort("concurrency", "trial"),
            rerun.study,
        ).select(
            "curve",
            points.named(rerun.study),
            pl.col("concurrency").alias("clients"),
            "trial",
            pl.lit(OF_CLAIMS[series.metric].heading).alias("metric"),
            pl.col(series.metric).cast(pl.Float64).round_sig_figs(4).alias("value"),
            pl.col("binding").fill_null(UNKNOWN).alias("bound by"),
            pl.col("gate").replace("", "passed"),
            "run_id",
        )
        for _, series in one.claim.series
    ]
    return pl.concat(frames).unique(maintain_order=True) if frames else pl.DataFrame()


def limits(rerun: Rerun) -> str:
    """Name the limits under which a rerun's main curves ran, and those of the article's machine."""
    counted = rerun.counted.filter(envelope=DEFAULT_ENVELOPE)
    if counted.is_empty():
        return "no run counts"
    run = counted.row(0, named=True)
    disk = ", ".join(
        f"{what} {run[column] / scale:,.0f} {unit}"
        for what, column, scale, unit in (
            ("reads", "limit_read_bytes_per_s", 1e6, "MB/s"),
            ("writes", "limit_write_bytes_per_s", 1e6, "MB/s"),
            ("reads", "limit_read_iops", 1, "operations/s"),
            ("writes", "limit_write_iops", 1, "operations/s"),
        )
        if run[column] is not None
    )
    in_article, ours = (size / GIB for size in sizes.memory(rerun))
    here = f"{run['limit_cores']:g} cores, {ours:.3g} GiB"
    theirs = f"{rerun.instance.cores} cores, {in_article:.3g} GiB"
    return f"{here}, {disk or 'disk without limits'} (the article's machine: {theirs})"

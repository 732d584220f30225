"""What bound each run, and by which evidence."""

from collections import Counter

import polars as pl

from benchlab.report import points
from benchlab.report.points import with_curve
from benchlab.store.results import POINT, Rerun
from benchlab.study import DEFAULT_ENVELOPE
from benchlab.study.resources import UNKNOWN


def evidence(rerun: Rerun, engine: str, workload: str) -> pl.DataFrame:
    """Return what bound each run that represents a point of an engine's workload, with the evidence.

    All envelopes. Columns: ``variant``, ``envelope``, ``concurrency``, ``trial``, ``tps``
    (transactions/s), ``bound by``, ``evidence``, ``gate passed``.
    """
    bound = rerun.metrics.filter(engine=engine, workload=workload).join(
        points.bound_by(rerun), on="run_id", how="left"
    )
    return points.in_order(bound, rerun.study, "envelope", "concurrency", "trial").select(
        "variant",
        "envelope",
        "concurrency",
        "trial",
        pl.col("tps").round(),
        pl.col("binding").fill_null(UNKNOWN).alias("bound by"),
        "evidence",
        points.gate_passed(),
    )


def of_curves(rerun: Rerun) -> pl.DataFrame:
    """Return what bound each curve at its peak and at its most clients, and by which evidence.

    Main envelope only. The peak is that of the points that passed the gate, or of all if none did.

    Columns: ``curve``, ``workload``, ``concurrency``, ``at`` (peak, most clients, or both), ``tps``
    (median), ``bound by`` (each resource, with the number of trials that it bound), ``evidence`` (of
    the last trial that the first of them bound), ``gate passed``.
    """
    runs = (
        rerun.metrics.filter(envelope=DEFAULT_ENVELOPE)
        .join(points.bound_by(rerun), on="run_id", how="left")
        .with_columns(pl.col("binding").fill_null(UNKNOWN))
        .sort(*POINT, "trial")
    )
    rows = []
    for _, of_curve in runs.group_by(["engine", "variant", "workload"], maintain_order=True):
        medians = of_curve.group_by("concurrency", "valid").agg(pl.col("tps").median())
        at: dict[int, list[str]] = {}
        by_throughput = medians.sort("valid", "tps", "concurrency")
        at.setdefault(by_throughput["concurrency"][-1], []).append("peak")
        at.setdefault(medians["concurrency"].max(), []).append("most clients")
        for concurrency, what in at.items():
            trials = of_curve.filter(concurrency=concurrency)
            most = points.bound_most(trials)
            counts = Counter(trials["binding"])
            others = [name for name, _ in counts.most_common() if name != most]
            rows.append(
                {
                    **trials.select("engine", "variant", "workload", "valid").row(0, named=True),
                    "concurrency": concurrency,
                    "at": " and ".join(what),
                    "tps": trials["tps"].median(),
                    "bound by": ", ".join(
                        f"{name} ({counts[name]} of {len(trials)})" for name in (most, *others)
                    ),
                    "evidence": trials.filter(binding=most)["evidence"][-1],
                }
            )
    text = ("engine", "variant", "workload", "at", "bound by", "evidence")
    schema = dict.fromkeys(text, pl.String)
    schema |= {"concurrency": pl.Int64, "tps": pl.Float64, "valid": pl.Boolean}
    found = points.in_order(with_curve(pl.DataFrame(rows, schema=schema), rerun.study), rerun.study)
    return found.select(
        "curve",
        points.named(rerun.study),
        "concurrency",
        "at",
        pl.col("tps").round_sig_figs(4),
        "bound by",
        "evidence",
        points.gate_passed(),
    )

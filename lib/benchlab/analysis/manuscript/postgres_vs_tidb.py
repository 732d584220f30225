"""What the section on PostgreSQL against TiDB has beyond those of all studies."""

from typing import Any

import altair as alt
import polars as pl

from benchlab import results
from benchlab.analysis import charts, tables
from benchlab.analysis.manuscript.parts import Content, Source, digits
from benchlab.store import Store

#: Concurrency at which the effect of the tuning is told in the text.
_EFFECT_CONCURRENCY = 16

#: Figure → workload and variants of its curves.
_THROUGHPUT = {
    "write-only-default": ("oltp_write_only", ["default"]),
    "insert-default": ("oltp_insert", ["default"]),
    "point-select-default": ("oltp_point_select", ["default"]),
    "write-only": ("oltp_write_only", ["default", "tuned"]),
    "insert": ("oltp_insert", ["default", "tuned"]),
    "point-select": ("oltp_point_select", ["default", "tuned"]),
}


def section(source: Source) -> Content:
    """Gather what ``paper/sections/postgres_vs_tidb.md`` places of its own."""
    own, spec, profile = source.own, source.spec, source.profile
    measured = source.measured
    main = measured.filter(envelope="main")
    monitored = _monitored(own, spec.study, profile)
    made = Content(
        {
            "disk_mb_per_s": source.instance.disk_bytes_per_s / 1e6,
            "as_sold": "as_sold" in measured["envelope"],
            "effect": _effect(main),
        },
        _throughput(main),
    )
    made.figures["envelopes"] = charts.envelopes(
        measured.filter(engine="postgres", variant="default", workload="oltp_write_only")
    )
    if monitored:
        samples, limits = tables.monitor_samples(own, monitored), tables.limits(own, monitored)
        made.figures["monitor"] = charts.monitor(samples, *limits)
    made.tables = {
        # ratios of different sizes: three digits each, not the same decimals for all
        "similitude": digits(
            tables.similitude(own, spec, profile, source.instance), "article", "ours"
        ),
        "evidence": tables.evidence(own, spec.study, profile, "postgres", "oltp_write_only"),
        "checkpoints": tables.checkpoints(own, spec.study, profile),
        "costs": tables.costs(own, spec.study, profile),
    }
    return made


def _throughput(main: pl.DataFrame) -> dict[str, alt.TopLevelMixin]:
    """Return the charts of throughput that there are points for."""
    figures = {}
    for name, (workload, variants) in _THROUGHPUT.items():
        shown = main.filter(pl.col("variant").is_in(variants), workload=workload)
        if not shown.is_empty():
            figures[name] = charts.throughput(shown, workload)
    return figures


def _effect(main: pl.DataFrame) -> dict[str, Any] | None:
    at = main.filter(engine="postgres", workload="oltp_write_only", concurrency=_EFFECT_CONCURRENCY)
    by_variant = {row["variant"]: row for row in at.iter_rows(named=True)}
    if by_variant.keys() != {"default", "tuned"}:
        return None
    default, tuned = by_variant["default"], by_variant["tuned"]
    return {
        "concurrency": _EFFECT_CONCURRENCY,
        "ratio": tuned["tps"] / default["tps"],
        "default_binding": default["binding"],
        "default_utilisation": default["binding_utilisation"] or 0.0,
        "tuned_binding": tuned["binding"],
    }


def _monitored(store: Store, study_name: str, profile: str) -> dict[str, str]:
    """Return the runs for the monitor charts: oltp_insert under as many threads as were run."""
    inserts = results.counted(store, study_name, profile).filter(workload="oltp_insert")
    highest = inserts["concurrency"].max()
    return tables.monitored(store, study_name, profile, "oltp_insert", highest) if highest else {}

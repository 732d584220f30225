"""What the manuscript needs: values, figures and tables out of the store and the study files."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import altair as alt
import polars as pl

from benchlab import noise, results, study, target, theme
from benchlab.analysis import (
    articles,
    charts,
    flame,
    intervention_charts,
    interventions,
    points,
    tables,
    verdict_charts,
    verdicts,
)
from benchlab.claims.judge import judge
from benchlab.repo import Repo
from benchlab.results import POINT
from benchlab.store import Store
from benchlab.study import Study

_GIB = 1 << 30

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


@dataclass
class Content:
    """The three mappings that :func:`benchlab.paper.build` takes."""

    context: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, alt.TopLevelMixin] = field(default_factory=dict)
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)


def content(repo: Repo, own: Store, reference: Store | None) -> Content:
    """Gather everything that ``paper/paper.md`` places.

    Args:
        repo: the checkout, for the study files.
        own: the reader's results.
        reference: the shipped ones, if there are any.

    Raises:
        StoreError: the reader's store has no run that counts.
    """
    spec = study.load(repo, "postgres_vs_tidb")
    instance = target.instance_type(repo, spec.instance)
    profile = results.largest_profile(own, spec.study)
    made = Content()
    counted = results.runs(own, spec.study, profile)
    missing = points.not_counted(own, spec.study, profile)
    measured = points.points(own, spec.study, profile)
    main = measured.filter(envelope="main")
    monitored = _monitored(own, spec.study, profile)
    unsettled = tables.unsettled(own, spec.study, profile)
    made.context = {
        "profile": profile,
        "host": _host(own, counted),
        "runs": {
            **{name: (counted["status"] == name).sum() for name in ("ok", "failed", "refused")},
            "not_counted": not missing.is_empty(),
        },
        "instance": {
            "cores": instance.cores,
            "memory_gib": instance.memory_bytes / _GIB,
            "disk_mb_per_s": instance.disk_bytes_per_s / 1e6,
        },
        "have": {
            "oceanbase": "oceanbase" in measured["engine"],
            "as_sold": "as_sold" in measured["envelope"],
            "unsettled": not unsettled.is_empty(),
        },
        "effect": _effect(main),
        "reference": None,
    }
    made.figures = _throughput(main)
    made.figures["envelopes"] = charts.envelopes(
        measured.filter(engine="postgres", variant="default", workload="oltp_write_only")
    )
    if monitored:
        samples, limits = tables.monitor_samples(own, monitored), tables.limits(own, monitored)
        made.figures["monitor"] = charts.monitor(samples, *limits)
    made.tables = {
        "overview": points.overview(own, spec.study, profile),
        "not-counted": missing,
        "similitude": tables.similitude(own, spec, profile, instance),
        "parameters-postgres": tables.parameters(own, spec.study, profile, "postgres"),
        "parameters-oceanbase": tables.parameters(own, spec.study, profile, "oceanbase"),
        "unsettled": unsettled,
        "evidence": tables.evidence(own, spec.study, profile, "postgres", "oltp_write_only"),
        "checkpoints": tables.checkpoints(own, spec.study, profile),
        "costs": tables.costs(own, spec.study, profile),
        "noise": noise.table(own, spec.study, profile),
    }
    answers = interventions.answers(own, spec.study, profile)
    made.context["interventions"] = answers.rename(lambda name: name.replace(" ", "_")).to_dicts()
    if not answers.is_empty():
        made.tables["interventions"] = answers
        made.tables["used"] = interventions.used(own, spec.study, profile)
        made.figures["elasticities"] = intervention_charts.elasticities(
            interventions.elasticities(own, spec.study, profile)
        )
    made.context["profiled"] = _profiled(own, spec, profile, made)
    if reference is not None:
        shipped = results.largest_profile(reference, spec.study)
        host = _host(reference, results.runs(reference, spec.study, shipped))
        made.context["reference"] = {"profile": shipped, "cpu_model": host["cpu_model"]}
        made.tables["beside"] = beside(points.points(reference, spec.study, shipped), measured)
    judged = judge(repo, own, spec.study, profile)
    of_runs = verdicts.of_runs(judged)
    made.context["verdicts"] = Counter(one.verdict for one in of_runs)
    every_claim, untested = verdicts.table(of_runs), pl.col("verdict") == "not testable here"
    made.tables["verdicts"] = every_claim.filter(~untested)
    made.tables["not-testable"] = every_claim.filter(untested).select("claim", "article", "why")
    every = verdicts.every_study(repo, judged, own)
    made.figures["verdicts"] = verdict_charts.summary(verdicts.summary(every))
    ratios = verdicts.ratios(of_runs)
    if not ratios.is_empty():
        made.figures["verdict-ratios"] = verdict_charts.ratios(ratios)
    made.context["have"]["noise"] = not made.tables["noise"].is_empty()
    made.context["audits"], audits = audited(repo)
    made.tables |= audits
    made.context["drawn"] = list(made.figures)
    # ratios of different sizes: three digits each, not the same decimals for all
    made.tables["similitude"] = _digits(made.tables["similitude"], "article", "ours")
    made.tables = {name: _headed(frame) for name, frame in made.tables.items()}
    return made


def beside(reference: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Return both results' throughput at every point that both have, and their ratio."""
    return (
        reference.select(*POINT, pl.col("tps").alias("reference"))
        .join(own.select(*POINT, "curve", pl.col("tps").alias("here")), on=POINT)
        .with_columns((pl.col("here") / pl.col("reference")).round(2).alias("here : reference"))
        .with_columns(pl.col("reference", "here").round())
        .select("curve", *POINT[2:], "reference", "here", "here : reference")
        .sort("workload", "curve", "concurrency")
    )


def _throughput(main: pl.DataFrame) -> dict[str, alt.Chart]:
    """Return the charts of throughput that there are points for."""
    figures = {}
    for name, (workload, variants) in _THROUGHPUT.items():
        shown = main.filter(pl.col("variant").is_in(variants), workload=workload)
        if not shown.is_empty():
            figures[name] = charts.throughput(shown, workload)
    return figures


def _profiled(store: Store, spec: Study, profile: str, made: Content) -> list[dict[str, str]]:
    """Add flame graph and table of every engine that its CPU bound anywhere; return which these are."""
    found = []
    for engine in spec.engines:
        stacks = flame.where_cpu_binds(store, spec.study, profile, engine)
        if flame.of_engine(stacks, engine).is_empty():
            continue
        names = {"figure": f"flame-{engine}", "table": f"functions-{engine}"}
        made.figures[names["figure"]] = flame.flame(stacks, engine)
        made.tables[names["table"]] = flame.top_functions(stacks, engine)
        found.append({"engine": theme.label(engine), **names})
    return found


def _host(store: Store, counted: pl.DataFrame) -> dict[str, Any]:
    run_id = counted.filter(status="ok")["run_id"][0]
    facts = store.table("host", run_id)
    found = dict(zip(facts["fact"], facts["value"], strict=True))
    return {
        "cpu_model": found["cpu_model"],
        "cores": int(found["cores"]),
        "memory_gib": int(found["memory_bytes"]) / _GIB,
        "kernel": found["kernel"],
    }


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


def audited(repo: Repo) -> tuple[list[dict[str, Any]], dict[str, pl.DataFrame]]:
    """Return every article with its audits, as values and as tables."""
    every = articles.audits(repo)
    summary = articles.audit_summary(repo, every)
    listed = [
        {
            "study": row["study"],
            "subject": study.load(repo, row["study"]).article.subject,
            "table": f"audit-{row['study'].replace('_', '-')}",
            "audits": row["audits"],
            "not_reproduced": row["not reproduced"],
        }
        for row in summary.iter_rows(named=True)
    ]
    # the source of a fact explains what was found
    explained = pl.concat_str("found", pl.lit(" ("), "source", pl.lit(")"))
    found = pl.when(pl.col("source") == "").then("found").otherwise(explained)
    shown = {
        one["table"]: every.filter(study=one["study"]).select("claim", "told", found, "verdict")
        for one in listed
    }
    return listed, {"audit-summary": summary, **shown}


def _digits(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Write numbers with three significant digits, each by itself."""

    def written(value: float) -> str:
        rounded = float(f"{value:.3g}")
        return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"

    return frame.with_columns(
        pl.col(column).map_elements(written, return_dtype=pl.String)
        for column in columns
        if column in frame.columns
    )


def _headed(frame: pl.DataFrame) -> pl.DataFrame:
    """Column names as a reader expects them."""
    return frame.rename(lambda name: name.replace("_", " "))

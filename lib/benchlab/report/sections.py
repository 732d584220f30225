"""A study's section of the paper: the common content, the default content, and the study's own.

``paper/sections/<study>.md`` is a study's own text. ``benchlab.studies.<study>.section`` gathers what
that text places beyond the common content. Both are found by the study's name. A study without its own
text gets ``paper/sections/_default.md``.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import altair as alt
import polars as pl

from benchlab import stats
from benchlab.attribution.decide import EXHAUSTED, EXHAUSTED_WITH_QUEUE
from benchlab.claims import reruns
from benchlab.claims.judge import Judgement, judge
from benchlab.drivers.tpcc.limits import LATE
from benchlab.gate import checks, similar, speed, steady
from benchlab.plan.envelope import GIB
from benchlab.repo import Repo
from benchlab.report import (
    agreement,
    charts,
    claimed,
    cpu,
    evidence,
    findings,
    flame,
    gate,
    hosts,
    intervention_charts,
    interventions,
    latencies,
    noise,
    open_loop,
    points,
    published_beside,
    settings,
    similitude,
    tidb,
    verdict_charts,
    verdicts,
    waits,
)
from benchlab.report.paper.charts import Drawn
from benchlab.store import Store, results
from benchlab.store.results import POINT, Rerun
from benchlab.study import DEFAULT_ENVELOPE, Study
from benchlab.study.vocabulary import METRICS

#: Column → its heading, where its name does not tell a reader enough.
_HEADINGS = {
    "sync_us": "a sync (µs)",
    "for_log": "wait for the log (share of sessions)",
    "for_standby": "wait for the standby (share of sessions)",
    "bound": "bound by (last run)",
    "latency_ms": "latency of the log (ms)",
    "share_of_one": "throughput of one thread (share)",
    "lease_s": "lease (s)",
    "every_s": "seconds between writes",
    "write_share": "writes (share of statements)",
    "wait_s": "time of COMMIT (s)",
    "tps_with": "TPS with",
    "tps_without": "TPS without",
    "wal_with": "WAL with (bytes/transaction)",
    "wal_without": "WAL without (bytes/transaction)",
    "sync": "synchronous (TPS)",
    "async": "asynchronous (TPS)",
}

#: What the gate and the attribution require, as the texts name it.
_THRESHOLDS = {
    "tolerance": steady.TOLERANCE,
    "shortest_s": steady.LEAST_S,
    "shortest_with_drift_s": stats.SHORTEST_WITH_DRIFT_S,
    "cycles": steady.CYCLES,
    "writeback_s": steady.WRITEBACK_S,
    "similar_within": similar.WITHIN,
    "speed_within": speed.WITHIN,
    "hosts_within": speed.ALIKE,
    "exhausted": EXHAUSTED,
    "exhausted_with_queue": EXHAUSTED_WITH_QUEUE,
    "most_foreign": checks.MOST_FOREIGN,
    "least_sampled": checks.LEAST_SAMPLED,
    "most_short_sd": checks.MOST_SHORT_SD,
    "least_cached": checks.LEAST_CACHED,
    "late_ms": LATE,
}


@dataclass(frozen=True)
class Source:
    """Where a section's numbers come from."""

    repo: Repo
    rerun: Rerun
    """The reader's results."""
    reference: Store | None
    """The shipped results; ``None`` if there are none."""

    @cached_property
    def shipped(self) -> Rerun | None:
        """The rerun of this study in the shipped results, if they have one with none of its runs."""
        if self.reference is None:
            return None
        found = results.find_rerun(self.repo, self.reference, self.rerun.study.study)
        return None if found and reruns.share_runs(found, self.rerun) else found

    @cached_property
    def measured(self) -> pl.DataFrame:
        """The points of the reader's runs; see :func:`benchlab.report.points.points`."""
        return points.points(self.rerun)


@dataclass
class Content:
    """What a text places: the three mappings that :func:`benchlab.report.paper.build` takes."""

    context: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, alt.TopLevelMixin | Drawn] = field(default_factory=dict)
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    panels: list[alt.LayerChart] = field(default_factory=list)
    """Charts for the first page, drawn there with those of other studies."""

    def __or__(self, other: "Content") -> "Content":
        """Return the contents of both; the other's values replace those of the same name."""
        return Content(
            self.context | other.context,
            self.figures | other.figures,
            self.tables | other.tables,
            self.panels + other.panels,
        )


def section(source: Source) -> tuple[Content, list[Judgement]]:
    """Return what a study's section places, and the verdicts on the article's claims.

    Names of figures and tables are prefixed with the study's (``spec-tree-overview``). All values are
    in the mapping ``study``: among them ``text``, the section's file; ``drawn``, the names of the
    figures; ``listed``, the names of the tables with rows.
    """
    name = source.rerun.study.study
    made, judged = common(source)
    own_text = source.repo.root / "paper" / "sections" / f"{name}.md"
    if not own_text.is_file():
        made |= default(source)
    if gather := own_section(name):
        made |= gather(source)
    prefix = name.replace("_", "-") + "-"
    made.context |= {
        "study": name,
        "prefix": prefix,
        "text": f"sections/{name if own_text.is_file() else '_default'}.md",
        "drawn": list(made.figures),
        "listed": [table for table, frame in made.tables.items() if not frame.is_empty()],
    }
    return (
        Content(
            {"study": made.context},
            {prefix + figure: chart for figure, chart in made.figures.items()},
            {
                prefix + table: _headed(source.rerun.study, frame)
                for table, frame in made.tables.items()
            },
            made.panels,
        ),
        judged,
    )


def own_section(study: str) -> Callable[[Source], Content] | None:
    """Return the function that gathers a study's own part: ``section`` of the module with its name."""
    name = f"benchlab.studies.{study}"
    if not study.isidentifier() or find_spec(name) is None:
        return None
    return getattr(import_module(name), "section", None)


def common(source: Source) -> tuple[Content, list[Judgement]]:
    """Return the content common to all sections, and the verdicts on the article's claims."""
    rerun = source.rerun
    statuses = rerun.last["status"].to_list()
    made = Content(
        {
            "profile": rerun.profile,
            "article": {
                "title": rerun.study.article.english_title or rerun.study.article.title,
                "subject": rerun.study.article.subject,
            },
            "clients": rerun.study.clients,
            "host": hosts.first(rerun),
            "points": len(source.measured),
            "intervals": source.measured["tps_low"].count(),
            "gate": gate.summary(rerun),
            "checks": gate.applied(rerun),
            "most_client_cpu": gate.most_client_cpu(rerun),
            "agreeing": noise.AGREEING,
            **_THRESHOLDS,
            "runs": {name: statuses.count(name) for name in ("ok", "failed", "refused")},
            "not_run": len(rerun.not_run),
            "instance": {
                "cores": rerun.instance.cores,
                "memory_gib": rerun.instance.memory_bytes / GIB,
            },
        }
    )
    made.tables = {
        "overview": points.overview(rerun),
        "not-counted": points.not_counted(rerun),
        "hosts": hosts.table(rerun),
        "gate": gate.table(rerun),
        "noise": noise.table(rerun),
        # ratios of different sizes: three digits each, not the same decimals for all
        "similitude": digits(similitude.similitude(rerun), "article", "here"),
        "costs": points.cost_table(rerun),
        "services": cpu.by_service(rerun),
        "own-work": tidb.own_work(rerun),
        "round-trips": tidb.round_trips(rerun),
        "commits": tidb.commits(rerun),
    }
    made.panels = findings.panels(rerun, source.measured)
    _beside_article(source, made)
    made.context["settings"] = _settings(source, made)
    _limits(source, made)
    made.context["profiled"] = _profiled(source, made)
    made.context["reference"] = _reference(source, made)
    judged = judge(source.repo, rerun.study.study, rerun)
    _verdicts(source, judged, made)
    return made, judged


def _verdicts(source: Source, judged: list[Judgement], made: Content) -> None:
    """Add the verdicts on the claims that runs can decide, beside those of other reruns."""
    of_runs = verdicts.of_runs(judged)
    made.context["verdicts"] = Counter(one.verdict for one in of_runs)
    # one confidence for the whole family of verdicts; 0 if no claim is testable
    made.context["confidence"] = max((one.confidence or 0 for one in of_runs), default=0)
    every_claim = verdicts.table(of_runs).drop("id")
    untested = pl.col("verdict") == "not testable here"
    made.tables["verdicts"] = every_claim.filter(~untested)
    made.tables["not-testable"] = every_claim.filter(untested).select("claim", "article", "why")
    ratios = verdicts.ratios(of_runs)
    if not ratios.is_empty():
        made.figures["verdict-ratios"] = verdict_charts.ratios(ratios)
    own = reruns.judged(source.rerun, judged)
    others = agreement.others(source.repo, source.rerun, source.shipped)
    made.tables["agreement"] = agreement.summary(own, others)
    made.tables["differing"] = agreement.differing(own, others)


def default(source: Source) -> Content:
    """Return what ``paper/sections/_default.md`` places beyond the common content.

    ``throughputs`` and ``latencies`` name their figures, one per workload with several client counts.
    ``claimed`` names the figures of other metrics that claims are about.
    """
    rerun, study = source.rerun, source.rerun.study
    main = source.measured.filter(envelope=DEFAULT_ENVELOPE)
    latency, due = latencies.latencies(rerun), open_loop.open_loop(rerun)
    made = Content({"throughputs": [], "latencies": [], "resolution": latencies.resolution(study)})
    curved = points.curved(main)
    for workload in study.workloads:
        if workload in curved:
            named = {"workload": study.workload_label(workload), "concurrency": study.clients}
            for kind, chart in (
                ("throughputs", charts.throughput(study, main, workload)),
                ("latencies", latencies.chart(study, latency, workload)),
            ):
                figure = f"{kind}-{workload}"
                made.figures[figure] = chart
                made.context[kind].append(named | {"figure": figure})
    made.context["claimed"] = []
    for metric in claimed.charted(rerun):
        figure = f"claimed-{metric}"
        made.figures[figure] = claimed.chart(study, claimed.values(rerun, metric), metric)
        made.context["claimed"].append({"figure": figure, "metric": METRICS[metric].label})
    if not (used := cpu.used(rerun)).is_empty():
        made.figures["cpu"] = cpu.chart(study, used)
    if not due.is_empty():
        made.figures["open-loop"] = open_loop.chart(study, due)
    made.tables = {
        "latencies": latencies.table(rerun),
        "claimed": claimed.table(rerun),
        "evidence": evidence.of_curves(rerun),
        "waits": waits.table(rerun),
        "missed": open_loop.missed(rerun),
    }
    return made


def digits(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Write numbers with three significant digits each, from 100 on as whole numbers."""

    def written(value: float) -> str:
        if abs(value) >= 100:
            return f"{value:,.0f}"
        return f"{float(f'{value:.3g}'):g}"

    return frame.with_columns(
        pl.col(column).map_elements(written, return_dtype=pl.String)
        for column in columns
        if column in frame.columns
    )


def _settings(source: Source, made: Content) -> list[dict[str, str]]:
    """Add a table of settings for every engine that ran; return the engines and their tables."""
    found = []
    for engine in source.rerun.study.engines:
        table = settings.parameters(source.rerun, engine)
        if not table.is_empty():
            made.tables[f"parameters-{engine}"] = table
            found.append(
                {"engine": source.rerun.study.label(engine), "table": f"parameters-{engine}"}
            )
    return found


def _limits(source: Source, made: Content) -> None:
    """Add the results of the interventions, which lowered limits, if there are any."""
    answers = interventions.answers(source.rerun)
    made.context["interventions"] = answers.rename(lambda name: name.replace(" ", "_")).to_dicts()
    if not answers.is_empty():
        made.tables["interventions"] = answers
        made.tables["used"] = interventions.used(source.rerun)
        made.figures["elasticities"] = intervention_charts.elasticities(
            interventions.elasticities(source.rerun)
        )


def _profiled(source: Source, made: Content) -> list[dict[str, str]]:
    """Add flame graph and table of every engine that its CPU bound in some run; return their names."""
    found = []
    for engine in source.rerun.study.engines:
        stacks = flame.where_cpu_binds(source.rerun, engine)
        role = source.rerun.study.role(engine)
        if flame.of_engine(stacks, role).is_empty():
            continue
        names = {"figure": f"flame-{engine}", "table": f"functions-{engine}"}
        made.figures[names["figure"]] = flame.flame(stacks, role)
        made.tables[names["table"]] = flame.top_functions(stacks, role)
        found.append({"engine": source.rerun.study.label(engine), **names})
    return found


def _beside_article(source: Source, made: Content) -> None:
    """Add the published numbers that we also measured, beside ours, with one chart per metric."""
    found = published_beside.beside(source.repo, source.rerun)
    made.context["beside_article"] = []
    if found.is_empty():
        return
    study = source.rerun.study
    made.tables["beside-article"] = published_beside.table(source.rerun, found)
    for metric in published_beside.charted(found):
        figure = f"beside-article-{metric}"
        made.figures[figure] = published_beside.chart(study, found, metric)
        made.context["beside_article"].append({"figure": figure, "metric": METRICS[metric].label})


def _reference(source: Source, made: Content) -> dict[str, str] | None:
    """Add the shipped results beside the reader's; return their profile and CPU model."""
    if not (shipped := source.shipped):
        return None
    made.tables["beside"] = _beside(source.rerun.study, points.points(shipped), source.measured)
    return {"profile": shipped.profile, "cpu_model": hosts.first(shipped)["cpu_model"]}


def _beside(study: Study, reference: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Return the throughput of both results at their common points, and the ratio."""
    both = reference.select(*POINT, pl.col("tps").alias("reference")).join(
        own.select(*POINT, "curve", pl.col("tps").alias("here")), on=POINT
    )
    return points.in_order(both, study, "envelope", "concurrency").select(
        "curve",
        points.named(study),
        "envelope",
        "concurrency",
        pl.col("reference", "here").round(),
        (pl.col("here") / pl.col("reference")).round(2).alias("here : reference"),
    )


def _headed(study: Study, frame: pl.DataFrame) -> pl.DataFrame:
    """Rename columns for a reader: with units, and clients as the article calls them."""
    names = _HEADINGS | {name: metric.heading for name, metric in METRICS.items()}
    names |= {"concurrency": study.clients, "clients": study.clients, "tps": "TPS"}
    return frame.rename(lambda name: names.get(name, name.replace("_", " ")))

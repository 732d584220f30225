"""What every study's section of the paper has: runs, settings, limits, CPU, verdicts, noise."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import altair as alt
import polars as pl

from benchlab.claims import noise
from benchlab.claims.judge import Judgement, judge
from benchlab.errors import StoreError
from benchlab.repo import Repo
from benchlab.report import (
    flame,
    intervention_charts,
    interventions,
    points,
    settings,
    verdict_charts,
    verdicts,
)
from benchlab.store import Store, results
from benchlab.store.results import POINT, Rerun

GIB = 1 << 30


@dataclass(frozen=True)
class Source:
    """Where a section's numbers come from."""

    repo: Repo
    rerun: Rerun
    """The reader's results."""
    reference: Store | None
    """The shipped ones."""

    @cached_property
    def measured(self) -> pl.DataFrame:
        """The points of the reader's runs; see :func:`benchlab.report.points.points`."""
        return points.points(self.rerun)


@dataclass
class Content:
    """The three mappings that :func:`benchlab.report.paper.build` takes."""

    context: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, alt.TopLevelMixin] = field(default_factory=dict)
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)

    def __or__(self, other: "Content") -> "Content":
        """Return what both have."""
        return Content(
            self.context | other.context, self.figures | other.figures, self.tables | other.tables
        )

    def add(self, section: "Content", study: str) -> None:
        """Add a study's section under its name; ``drawn`` and ``listed`` say what there is of it."""
        prefix = study.replace("_", "-") + "-"
        section.context |= {
            "study": study,
            "prefix": prefix,
            "drawn": list(section.figures),
            "listed": [name for name, frame in section.tables.items() if not frame.is_empty()],
        }
        self.context["studies"].append(section.context)
        self.figures |= {prefix + name: chart for name, chart in section.figures.items()}
        self.tables |= {prefix + name: _headed(frame) for name, frame in section.tables.items()}


def every_study(source: Source) -> tuple[Content, list[Judgement]]:
    """Return what the sections of all studies have, and the verdicts on the article's claims."""
    rerun = source.rerun
    runs = rerun.runs
    made = Content(
        {
            "profile": rerun.profile,
            "host": host(rerun),
            "runs": {name: (runs["status"] == name).sum() for name in ("ok", "failed", "refused")},
            "instance": {
                "cores": rerun.instance.cores,
                "memory_gib": rerun.instance.memory_bytes / GIB,
            },
        }
    )
    made.tables = {
        "overview": points.overview(rerun),
        "not-counted": points.not_counted(rerun),
        "unsettled": points.unsettled(rerun),
        "noise": noise.table(rerun),
    }
    made.context["settings"] = _settings(source, made)
    _limits(source, made)
    made.context["profiled"] = _profiled(source, made)
    made.context["reference"] = _reference(source, made)
    judged = judge(source.repo, rerun.study.study, rerun)
    of_runs = verdicts.of_runs(judged)
    made.context["verdicts"] = Counter(one.verdict for one in of_runs)
    every_claim, untested = verdicts.table(of_runs), pl.col("verdict") == "not testable here"
    made.tables["verdicts"] = every_claim.filter(~untested)
    made.tables["not-testable"] = every_claim.filter(untested).select("claim", "article", "why")
    ratios = verdicts.ratios(of_runs)
    if not ratios.is_empty():
        made.figures["verdict-ratios"] = verdict_charts.ratios(ratios)
    return made, judged


def host(rerun: Rerun) -> dict[str, Any]:
    """Return what the first run that counts tells of its host."""
    facts = rerun.store.table("host", rerun.counted["run_id"][0])
    found = dict(zip(facts["fact"], facts["value"], strict=True))
    return {
        "cpu_model": found["cpu_model"],
        "cores": int(found["cores"]),
        "memory_gib": int(found["memory_bytes"]) / GIB,
        "kernel": found["kernel"],
    }


def digits(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Write numbers of different sizes with three significant digits, each by itself."""

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
    """Add a table of settings of every engine that ran; return which these are."""
    found = []
    for engine in source.rerun.study.engines:
        table = settings.parameters(source.rerun, engine)
        if not table.is_empty():
            made.tables[f"parameters-{engine}"] = table
            found.append(
                {"engine": source.rerun.study.labels[engine], "table": f"parameters-{engine}"}
            )
    return found


def _limits(source: Source, made: Content) -> None:
    """Add what each limit is worth, where limits were lowered."""
    answers = interventions.answers(source.rerun)
    made.context["interventions"] = answers.rename(lambda name: name.replace(" ", "_")).to_dicts()
    if not answers.is_empty():
        made.tables["interventions"] = answers
        made.tables["used"] = interventions.used(source.rerun)
        made.figures["elasticities"] = intervention_charts.elasticities(
            interventions.elasticities(source.rerun)
        )


def _profiled(source: Source, made: Content) -> list[dict[str, str]]:
    """Add flame graph and table of every engine that its CPU bound anywhere; return which these are."""
    found = []
    for engine in source.rerun.study.engines:
        stacks = flame.where_cpu_binds(source.rerun, engine)
        role = source.rerun.study.role(engine)
        if flame.of_engine(stacks, role).is_empty():
            continue
        names = {"figure": f"flame-{engine}", "table": f"functions-{engine}"}
        made.figures[names["figure"]] = flame.flame(stacks, role)
        made.tables[names["table"]] = flame.top_functions(stacks, role)
        found.append({"engine": source.rerun.study.labels[engine], **names})
    return found


def _reference(source: Source, made: Content) -> dict[str, str] | None:
    """Add the shipped results beside the reader's; return where they are from."""
    if source.reference is None:
        return None
    try:
        shipped = results.open_rerun(source.repo, source.reference, source.rerun.study.study)
    except StoreError:
        return None  # it has no run of this study
    made.tables["beside"] = _beside(points.points(shipped), source.measured)
    return {"profile": shipped.profile, "cpu_model": host(shipped)["cpu_model"]}


def _beside(reference: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Return both results' throughput at every point that both have, and their ratio."""
    return (
        reference.select(*POINT, pl.col("tps").alias("reference"))
        .join(own.select(*POINT, "curve", pl.col("tps").alias("here")), on=POINT)
        .with_columns((pl.col("here") / pl.col("reference")).round(2).alias("here : reference"))
        .with_columns(pl.col("reference", "here").round())
        .select("curve", *POINT[2:], "reference", "here", "here : reference")
        .sort("workload", "curve", "concurrency")
    )


def _headed(frame: pl.DataFrame) -> pl.DataFrame:
    """Column names as a reader expects them."""
    return frame.rename(lambda name: name.replace("_", " "))

"""Published numbers beside ours: those for which the article names one of our metrics and a point.

Absolute numbers differ between machines. What can be compared is the change of the ratio along a curve
and between curves.
"""

import altair as alt
import polars as pl

from benchlab.claims import published
from benchlab.claims.evidence import Evidence
from benchlab.repo import Repo
from benchlab.report import points, theme
from benchlab.report.points import with_curve
from benchlab.store.results import Rerun
from benchlab.study import DEFAULT_ENVELOPE, Study
from benchlab.study.vocabulary import METRICS, OF_DATASET

_WIDTH, _HEIGHT = 260, 190

_KEY = ("engine", "variant", "workload", "concurrency")

_SCHEMA = {
    **dict.fromkeys(("curve", "engine", "variant", "workload"), pl.String),
    "clients": pl.Int64,
    "concurrency": pl.Int64,
    "metric": pl.String,
    **dict.fromkeys(("article", "here", "ratio"), pl.Float64),
    "valid": pl.Boolean,
}


def beside(repo: Repo, rerun: Rerun) -> pl.DataFrame:
    """Return every number of the article that we also measured, with ours and the ratio.

    Columns: ``curve``, ``engine``, ``variant``, ``workload``, ``clients`` (the article's),
    ``concurrency`` (ours that corresponds to it), ``metric``, ``article``, ``here`` (median over
    trials), ``ratio`` (here : article), ``valid`` (whether ours passed the gate).
    """
    study = rerun.study
    theirs = published.points(repo, study.study)
    per_run = rerun.metrics.filter(envelope=DEFAULT_ENVELOPE)
    if theirs.is_empty() or per_run.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    here = Evidence.of(rerun).here
    theirs = theirs.rename({"concurrency": "clients", "value": "article"}).with_columns(
        pl.col("clients").map_elements(here, return_dtype=pl.Float64).alias("concurrency")
    )
    frames = [
        points.estimates(per_run, metric, _KEY).select(
            *_KEY[:-1],
            pl.col("concurrency").cast(pl.Float64),
            pl.lit(metric).alias("metric"),
            "valid",
            pl.col(metric).alias("here"),
        )
        for metric in theirs["metric"].unique(maintain_order=True)
    ]
    both = theirs.join(pl.concat(frames), on=[*_KEY, "metric"], how="inner").with_columns(
        (pl.col("here") / pl.col("article")).alias("ratio")
    )
    found = points.in_order(with_curve(both, study), study, "clients")
    metrics = pl.col("metric").cast(pl.Enum(list(METRICS)))
    return found.sort(metrics, maintain_order=True).select(*_SCHEMA).cast(_SCHEMA)


def charted(found: pl.DataFrame) -> list[str]:
    """Return the metrics for which a chart shows more than the table: those with a curve."""
    lengths = found.group_by("metric", "engine", "variant", "workload", maintain_order=True).agg(
        pl.col("clients").n_unique()
    )
    curved = lengths.filter(pl.col("clients") > 1, ~pl.col("metric").is_in(OF_DATASET))
    return curved["metric"].unique(maintain_order=True).to_list()


def table(rerun: Rerun, found: pl.DataFrame) -> pl.DataFrame:
    """Return :func:`beside` for reading: one row per point and metric, numbers in the metric's unit.

    There is a column ``note`` if the scale of a dataset differs from the article's.
    """
    study, clients = rerun.study, rerun.study.clients
    names = {name: metric.heading for name, metric in METRICS.items()}
    scales = {name: _scales(rerun, name) for name in found["workload"].unique()}
    note = pl.when(pl.col("metric").is_in(OF_DATASET)).then(
        pl.col("workload").replace_strict(scales, return_dtype=pl.String)
    )
    shown = found.select(
        pl.col("metric").replace_strict(names, return_dtype=pl.String),
        points.named(study),
        "curve",
        pl.col("clients").alias(f"{clients}, article"),
        pl.col("concurrency").alias(f"{clients}, here"),
        pl.col("article", "here").round_sig_figs(4),
        pl.col("ratio").round_sig_figs(3).alias("here : article"),
        points.gate_passed(),
        note.otherwise(pl.lit("")).alias("note"),
    )
    if (shown["note"] == "").all():
        shown = shown.drop("note")
    # a single column of clients is enough if both have the same numbers
    same = found["clients"].equals(found["concurrency"])
    if same:
        shown = shown.drop(f"{clients}, article").rename({f"{clients}, here": clients})
    return shown


def _scales(rerun: Rerun, workload: str) -> str:
    """List the numbers in which a workload's dataset differs from the article's."""
    study = rerun.study
    paper = study.profiles.get("paper")
    if paper is None:
        return ""
    theirs, ours = (
        study.dataset(profile, workload).model_dump()
        for profile in (paper, study.profiles[rerun.profile])
    )
    return ", ".join(
        f"{name.replace('_', ' ')} {theirs[name]:,} there, {value:,} here"
        for name, value in ours.items()
        if type(value) is int and name in theirs and theirs[name] != value
    )


def chart(study: Study, found: pl.DataFrame, metric: str) -> alt.FacetChart:
    """A metric against clients, one view per workload: the article's dashed and hollow, ours solid.

    Both axes are logarithmic, so that curves of the same shape are parallel.

    Args:
        study: whose labels and styles the curves have.
        found: see :func:`beside`.
        metric: one of its metrics.
    """
    of_metric = found.filter(metric=metric).with_columns(points.named(study))
    shown = of_metric.unpivot(
        on=["article", "here"],
        index=["curve", "workload", "clients", "concurrency", "ratio", "valid"],
        variable_name="of",
        value_name="value",
    ).with_columns(pl.col("valid") | (pl.col("of") == "article"))
    styles = theme.styles_of(study, of_metric)
    color = alt.Scale(domain=[one.label for one in styles], range=[one.color for one in styles])
    shape = alt.Scale(domain=[one.label for one in styles], range=[one.shape for one in styles])
    base = (
        alt.Chart()
        .properties(width=_WIDTH, height=_HEIGHT)
        .encode(
            x=theme.log_axis("clients", shown["clients"], f"{study.clients} of the article"),
            y=alt.Y(
                "value:Q",
                title=None,
                scale=alt.Scale(type="log"),
                axis=alt.Axis(values=[10**power for power in range(13)], format="~s"),
            ),
            tooltip=[
                "curve:N",
                "of:N",
                alt.Tooltip("clients:Q", title=f"{study.clients}, article"),
                alt.Tooltip("concurrency:Q", title=f"{study.clients}, here"),
                alt.Tooltip("value:Q", format=",.4~g"),
                alt.Tooltip("ratio:Q", format=".3~g", title="here : article"),
            ],
        )
    )
    of = ["here", "article"]
    lines = base.mark_line().encode(
        color=alt.Color("curve:N", scale=color, legend=None),
        detail="of:N",
        strokeDash=alt.StrokeDash(
            "of:N",
            title=None,
            scale=alt.Scale(domain=of, range=[[1, 0], [4, 3]]),
            legend=alt.Legend(symbolType="stroke", symbolStrokeColor="#222222"),
        ),
    )
    dots = base.mark_point().encode(
        stroke=alt.Stroke("curve:N", title=None, scale=color),
        shape=alt.Shape("curve:N", title=None, scale=shape),
        fill=alt.condition(
            "datum.of === 'article'", alt.value("#FFFFFF"), alt.Fill("curve:N", scale=color)
        ),
    )
    # with a shared legend, a layer that switches it off would switch it off for all
    layers = [lines, dots] if shown["valid"].all() else [lines, dots, theme.crosses(base)]
    layered = alt.layer(*layers, data=shown).resolve_legend(color="independent")
    workloads = shown["workload"].unique(maintain_order=True).to_list()
    return layered.facet(
        alt.Facet("workload:N", title=None, sort=workloads),
        columns=2,
        title=theme.sentence(METRICS[metric].heading),
    )

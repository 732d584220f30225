"""Results of simulations for the paper's appendix: how reliable intervals, verdicts and gate are."""

import altair as alt
import polars as pl

from benchlab.gate import steady
from benchlab.numbers import number, percent
from benchlab.repo import Repo
from benchlab.report import theme
from benchlab.report.sections import Content
from benchlab.simulation import coverage, stopping, stored
from benchlab.simulation.stored import Simulated
from benchlab.stats import CONFIDENCE
from benchlab.stats.quantiles import normal

#: Half width of the 95 % interval of a simulated share, in standard errors.
_ERRORS = normal((1 + CONFIDENCE) / 2)

_WIDTH = 240


def content(repo: Repo) -> Content:
    """Return what the appendix places; ``simulated`` is ``None`` if nothing was simulated."""
    found = stored.read(repo)
    if found is None:
        return Content({"simulated": None})
    of_studies = found.intervals.filter(points="any", statistic="median").unique("study")
    return Content(
        {
            "simulated": {
                "made": max(
                    one["made"].max()
                    for one in (found.intervals, found.verdicts, found.agreement, found.stopping)
                ),
                "reruns": min(found.intervals["reruns"].min(), found.verdicts["reruns"].min()),
                "pairs": found.agreement["pairs"].min(),
                "runs": found.stopping["runs"].min(),
                "noisy": coverage.NOISY,
                "spreads": of_studies.sort("study").to_dicts(),
                "shortest_s": stopping.SHORTEST_S,
                "longest_s": stopping.LONGEST_S,
                "cycle_s": stopping.CYCLE_S,
                "dip": stopping.DIP,
                "tolerance": steady.TOLERANCE,
                "drift": stopping.DRIFT,
                "too_far": stopping.TOO_FAR,
            }
        },
        {"simulated-coverage": chart(found)},
        {
            "simulated-coverage": covered(found),
            "simulated-verdicts": wrong(found),
            "simulated-agreement": agreeing(found),
            "simulated-level": level(found),
            "simulated-drift": drift(found),
        },
    )


def covered(found: Simulated) -> pl.DataFrame:
    """Return the coverage of intervals, one row per study, kind of interval and number of trials."""
    return found.intervals.sort("study", "statistic", "points", "trials").select(
        "study",
        pl.col("statistic").alias("interval of"),
        "points",
        "trials",
        _shares("covered", "error", decimals=1).alias("cover the true value"),
        pl.lit(percent(CONFIDENCE)).alias("target"),
    )


def wrong(found: Simulated) -> pl.DataFrame:
    """Return the share of wrong verdicts, one row per study, and one for all studies as one family."""
    together = coverage.of_all_studies(found.verdicts)
    return pl.concat([found.verdicts.drop("made"), together]).select(
        "study",
        pl.col("testable", "decided").round(1).name.suffix(" verdicts"),
        _shares("wrong", "error", decimals=1).alias("wrong, of those decided"),
        pl.lit(f"≤ {percent(1 - CONFIDENCE)}").alias("target"),
    )


def agreeing(found: Simulated) -> pl.DataFrame:
    """Return how often two reruns agree, one row per study."""
    return found.agreement.select(
        "study",
        pl.col("trials").alias("trials of a point"),
        pl.col("most_trials").alias("most trials, if inconclusive"),
        pl.col("tested").round(1).alias("tested claims"),
        _shares("agreeing", "agreeing_error", decimals=1).alias("agree"),
        _shares("same", "same_error", decimals=1).alias("same verdict in both"),
        pl.col("opposite")
        .map_elements(percent, return_dtype=pl.String)
        .alias("pairs with opposite verdicts"),
    )


def level(found: Simulated) -> pl.DataFrame:
    """Return the results for runs with a constant level, one row per kind of noise."""
    return _by_noise(
        found,
        {
            f"{heading}, {counted} counted": (f"level, {counted} counted", shown)
            for counted in ("begins", "parts")
            for heading, shown in (
                ("pass", _shares("passed", "passed_error")),
                ("cycles", pl.col("cycles").round(1)),
                ("bias", _shares("bias", "bias_error", decimals=1)),
            )
        },
    )


def drift(found: Simulated) -> pl.DataFrame:
    """Return the results for runs that drift, one row per kind of noise."""
    passed, too_far = (_shares(name, f"{name}_error") for name in ("passed", "too_far"))
    slow, fast = stopping.LONGEST_S, stopping.SHORTEST_S
    return _by_noise(
        found,
        {
            f"pass, drift over {slow} s": ("slow drift", passed),
            "pass, though the drift is too large": ("slow drift", too_far),
            f"pass, measured for all {slow} s": ("slow drift, longest time", passed),
            f"pass, drift over {fast} s": ("fast drift", passed),
        },
    )


def chart(found: Simulated) -> alt.HConcatChart:
    """Coverage by number of trials, for medians and for ratios, with the error of the simulation."""
    shown = found.intervals.with_columns(
        (pl.col("study") + ", " + pl.col("points") + " points").alias("of"),
        pl.col("trials").cast(pl.String),
        (pl.col("covered") - _ERRORS * pl.col("error")).alias("low"),
        (pl.col("covered") + _ERRORS * pl.col("error")).alias("high"),
    ).sort("of")
    names = shown["of"].unique(maintain_order=True).to_list()
    studies = shown["study"].unique(maintain_order=True).to_list()
    trials = [str(one) for one in coverage.TRIALS]
    y = {
        "scale": alt.Scale(domain=[min(0.85, shown["low"].min()), 1], nice=False),
        "title": "intervals that cover",
        "axis": alt.Axis(format=".0%"),
    }
    legend = alt.Legend(columns=3, orient="bottom")
    of = {"scale": alt.Scale(domain=studies), "title": None, "legend": legend}
    hollow = alt.Scale(domain=["any", "noisy"], range=[1, 0])
    views = []
    for statistic in ("median", "ratio"):
        base = alt.Chart(shown.filter(statistic=statistic)).encode(
            x=alt.X("trials:N", sort=trials, title="trials", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("of:N", sort=names),
            tooltip=["of", "trials", "covered", "low", "high"],
        )
        rules = base.mark_rule(strokeWidth=1.25).encode(y=alt.Y("low:Q", **y), y2="high:Q")
        points = base.mark_point(size=50, opacity=1).encode(
            y=alt.Y("covered:Q", **y),
            stroke=alt.Stroke("study:N", **of),
            fill=alt.Fill("study:N", **of),
            shape=alt.Shape("study:N", **of),
            fillOpacity=alt.FillOpacity("points:N", scale=hollow, title="points"),
        )
        should = theme.reference_line(y=CONFIDENCE)
        views.append(
            alt.layer(rules, should, points).properties(
                width=_WIDTH, height=200, title=f"Intervals of a {statistic}"
            )
        )
    return alt.hconcat(*views, spacing=16)


def _by_noise(found: Simulated, columns: dict[str, tuple[str, pl.Expr]]) -> pl.DataFrame:
    """Return one row per kind of noise; ``columns``: heading → case and the value to show."""
    noise = [
        pl.col("variation").map_elements(percent, return_dtype=pl.String).alias("CV of a second"),
        pl.col("dependence")
        .map_elements(lambda one: f"{one:.1f}", return_dtype=pl.String)
        .alias("ρ"),
    ]
    cases = found.stopping.partition_by("case", as_dict=True)
    return cases["slow drift",].select(
        *noise,
        *(
            cases[case,].select(shown).to_series().alias(heading)
            for heading, (case, shown) in columns.items()
        ),
    )


def _shares(value: str, error: str, decimals: int = 0) -> pl.Expr:
    """Return shares as text, each with the half width of the simulation's 95 % interval."""

    def text(row: dict[str, float | None]) -> str:
        if row[value] is None:
            return number(None)
        half = number(100 * _ERRORS * (row[error] or 0), decimals)
        return f"{number(100 * row[value], decimals)} ± {half}\N{NO-BREAK SPACE}%"

    return pl.struct(value, error).map_elements(text, return_dtype=pl.String)

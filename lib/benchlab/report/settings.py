"""Table of an engine's settings for the analysis notebooks and the paper."""

import polars as pl

from benchlab.store.results import Rerun


def parameters(rerun: Rerun, engine: str) -> pl.DataFrame:
    """Return the requested and the reported settings of an engine, one column per variant.

    Settings that differ between variants come first. The column of a variant without a counted run is
    null, for example of a variant that was refused.
    """
    latest = rerun.runs.filter(engine=engine)
    ran = set(latest["variant"])
    known = rerun.study.engines[engine].variants if engine in rerun.study.engines else ()
    variants = [one for one in known if one in ran] + sorted(ran.difference(known))
    ids = latest.filter(status="ok").group_by("variant").agg(pl.col("run_id").first())
    settings = rerun.of_runs(
        "SELECT run_id, name, requested, effective, unit FROM engine_setting"
        " SEMI JOIN chosen USING (run_id)",
        ids,
    ).join(ids, on="run_id")
    unit = pl.col("unit").fill_null("")
    shown = settings.with_columns(
        pl.concat_str(
            # what nobody requested is a fact, such as a component's build
            pl.when(pl.col("requested").is_null())
            .then(pl.col("effective"))
            .otherwise(pl.concat_str("requested", pl.lit(" → "), "effective")),
            # PostgreSQL counts some settings in pages: 32768 × 8kB
            pl.when(unit.str.contains(r"^\d")).then(pl.lit(" × ")).otherwise(pl.lit(" ")),
            unit,
        )
        .str.strip_chars()
        # twelve digits of a commit name it, and forty are wider than a column
        .str.replace_all(r"\b([0-9a-f]{12})[0-9a-f]{28}\b", "$1")
        .alias("value")
    )
    if shown.is_empty():
        return pl.DataFrame(schema=dict.fromkeys(("setting", *variants), pl.String))
    wide = shown.pivot(on="variant", index="name", values="value")
    reported = [variant for variant in variants if variant in wide.columns]
    differs = pl.concat_list(reported).list.n_unique() > 1
    return wide.sort(differs, "name", descending=[True, False]).select(
        pl.col("name").alias("setting"),
        *[
            variant if variant in reported else pl.lit(None, pl.String).alias(variant)
            for variant in variants
        ],
    )

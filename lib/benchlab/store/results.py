"""Results: which runs count, and on which target.

Results are always of one target. The same trial has the same key on every target, since a key is made
of what is asked for and not of where; so a target is chosen here, before anything is counted. It is
the one named or, without a name, the target of the last run that counts.
"""

from collections.abc import Sequence

import polars as pl

from benchlab.errors import StoreError, UnknownName
from benchlab.store import Store
from benchlab.study import PROFILES

#: Columns that make a point within one study, profile and target.
POINT = ["engine", "variant", "workload", "envelope", "concurrency"]

_LATEST = """
    SELECT * FROM run WHERE study = ? AND profile = ? AND target = ? AND intervention IS NULL
        AND (share_of_peak IS NOT NULL) = ?
    QUALIFY row_number() OVER (PARTITION BY trial_key ORDER BY started DESC) = 1
    ORDER BY ALL
"""


# Of a point whose limits were lowered, one run: each gives elasticities of its own.
_LATEST_PERTURBED = """
    SELECT * FROM run
    WHERE study = ? AND profile = ? AND target = ? AND intervention IS NOT NULL AND status = 'ok'
    QUALIFY row_number() OVER (
        PARTITION BY engine, variant, workload, envelope, concurrency ORDER BY started DESC
    ) = 1
    ORDER BY engine, variant, workload, envelope, concurrency
"""


def runs(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return the last run of every trial of a study's profile on a target, whatever its status.

    Runs in which limits were lowered are none of these, nor are those whose requests were due at times
    of their own: see :func:`perturbed` and :func:`open_loop`.

    Args:
        store: the store.
        study: name.
        profile: name.
        target: name; ``None``: the target of the last run that counts.

    Raises:
        UnknownName: the study's profile was never run on that target.
    """
    return store.sql(_LATEST, study, profile, _target(store, study, profile, target), False)


def open_loop(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return the last run that counts of every trial whose requests were due at times of their own."""
    chosen = _target(store, study, profile, target)
    return store.sql(_LATEST, study, profile, chosen, True).filter(pl.col("status") == "ok")


def peak(store: Store, study: str, profile: str, target: str, *curve: str) -> float | None:
    """Return the highest median throughput over the concurrencies of a curve in the closed loop.

    Args:
        store: the store.
        study: name.
        profile: name.
        target: name.
        curve: engine, variant, workload and envelope.

    Returns:
        Transactions per second; ``None`` if no run counts.
    """
    names = dict(zip(POINT, curve, strict=False))
    runs = counted(store, study, profile, target).filter(**names)
    return runs.group_by("concurrency").agg(pl.col("tps").median())["tps"].max()


def counted(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return those of :func:`runs` that count."""
    return runs(store, study, profile, target).filter(pl.col("status") == "ok")


def trials(runs: pl.DataFrame, metric: str, by: Sequence[str] = POINT) -> pl.DataFrame:
    """Return the values of a metric at each point, as a list over its trials.

    Points and trials stand in one order, or what is learnt from all of them would differ in its last
    digits from reading to reading.

    Args:
        runs: rows of runs, with the metric; those without a value are left out.
        metric: name of its column.
        by: columns that tell points apart.
    """
    known = runs.drop_nulls(metric).sort(*by, "run_id")
    return known.group_by(by, maintain_order=True).agg(metric)


def perturbed(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return the last run that counts of every point whose limits were lowered; see :func:`runs`."""
    chosen = _target(store, study, profile, target, intervened=True)
    return store.sql(_LATEST_PERTURBED, study, profile, chosen)


def ran(store: Store, study: str) -> list[tuple[str, str]]:
    """Return every profile of a study and target that has a run to judge, counted or not."""
    return store.sql(
        "SELECT DISTINCT profile, target FROM run WHERE study = ? AND intervention IS NULL"
        " ORDER BY ALL",
        study,
    ).rows()


def studies(store: Store) -> set[str]:
    """Return the studies of which a run counts."""
    return set(
        store.sql("SELECT DISTINCT study FROM run WHERE status = 'ok' AND intervention IS NULL")[
            "study"
        ]
    )


def largest_profile(store: Store, name: str) -> str:
    """Return the largest profile of which a store has a counted run of a study.

    Raises:
        StoreError: it has none.
    """
    found = set(
        store.sql(
            "SELECT DISTINCT profile FROM run"
            " WHERE study = ? AND status = 'ok' AND intervention IS NULL",
            name,
        )["profile"]
    )
    for profile in reversed(PROFILES):
        if profile in found:
            return profile
    raise StoreError(f"no run of study {name} counts; run `benchlab run {name}`")


def _target(
    store: Store, study: str, profile: str, wanted: str | None, intervened: bool = False
) -> str | None:
    """Return the target to show, ``None`` if there is no run at all; see :func:`runs`."""
    found = store.sql(
        "SELECT target FROM run WHERE study = ? AND profile = ? AND (intervention IS NOT NULL) = ?"
        " GROUP BY target"
        " ORDER BY max(started) FILTER (status = 'ok') DESC NULLS LAST, max(started) DESC",
        study,
        profile,
        intervened,
    )["target"].to_list()
    if wanted is None:
        return found[0] if found else None
    if found and wanted not in found:
        raise UnknownName("target", wanted, found)
    return wanted

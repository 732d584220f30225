"""CPU and disk over the seconds of chosen runs."""

import polars as pl

from benchlab.errors import NoRuns
from benchlab.report.points import first_trials, with_curve
from benchlab.store import Store
from benchlab.store.results import Rerun
from benchlab.study import DEFAULT_ENVELOPE
from benchlab.study.roles import PRIMARY

_SAMPLES = """
    WITH by_node AS (
        SELECT node, node IN (SELECT node FROM node WHERE run_id = run.run_id AND role = ?)
                AS is_primary,
            floor(t - measure_begin) AS second, subject, metric, avg(value) AS value
        FROM os_sample JOIN run USING (run_id)
        WHERE run_id = ? AND observer = 'sample' AND is_measured(t, measure_begin, measure_end)
        GROUP BY ALL
    )
    SELECT ? AS run, second,
        sum(value) FILTER (is_primary AND subject = 'engine' AND metric = 'cpu_us_per_s') / 1e6
            AS engine_cores,
        sum(value) FILTER (subject = 'client' AND metric = 'cpu_us_per_s') / 1e6 AS client_cores,
        sum(value) FILTER (is_primary AND metric = 'write_bytes_per_s') / 1e6 AS write_mb_per_s
    FROM by_node GROUP BY ALL ORDER BY second
"""


def monitored(rerun: Rerun, workload: str, concurrency: int) -> dict[str, str]:
    """Return the first counted trial of every curve of a workload at one concurrency.

    Returns:
        Name to show → run ID.
    """
    counted = rerun.counted.filter(
        workload=workload, concurrency=concurrency, envelope=DEFAULT_ENVELOPE
    )
    ordered = first_trials(counted).sort("engine", "variant", descending=[True, False])
    found = with_curve(ordered, rerun.study)
    return dict(zip(found["curve"], found["run_id"], strict=True))


def limits(store: Store, run_ids: dict[str, str]) -> tuple[float, float]:
    """Return the limits of CPU (cores) and of disk writes (MB/s) of the chosen runs.

    Raises:
        NoRuns: there is no run.
    """
    run_id = next(iter(run_ids.values()), "none")
    rows = store.sql(
        "SELECT limit_cores, limit_write_bytes_per_s / 1e6 AS mb FROM run WHERE run_id = ?", run_id
    )
    if rows.is_empty():
        raise NoRuns("no run to take the limits from")
    return rows.row(0)


def samples(store: Store, run_ids: dict[str, str]) -> pl.DataFrame:
    """Return CPU and disk over the measured seconds of chosen runs, for the monitor charts.

    Engine and disk are those of the node that clients connect to, whose limits :func:`limits` returns.
    The load generator is that of all nodes, which are sampled at different moments of a second.

    Args:
        store: the store.
        run_ids: name to show → run.

    Returns:
        ``run``, ``second``, ``engine_cores``, ``client_cores``, ``write_mb_per_s``.
    """
    frames = [store.sql(_SAMPLES, PRIMARY, run_id, name) for name, run_id in run_ids.items()]
    return pl.concat(frames)

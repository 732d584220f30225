"""CPU and disk over the seconds of chosen runs."""

import polars as pl

from benchlab.errors import NoRuns
from benchlab.report.points import first_trials, with_curve
from benchlab.store import Store
from benchlab.store.results import Rerun
from benchlab.study import DEFAULT_ENVELOPE


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

    Args:
        store: the store.
        run_ids: name to show → run.

    Returns:
        ``run``, ``second``, ``engine_cores``, ``client_cores``, ``write_mb_per_s``.
    """
    frames = []
    for name, run_id in run_ids.items():
        frames.append(
            store.sql(
                """
                SELECT ? AS run, round(t - measure_begin, 1) AS second,
                    any_value(value) FILTER (subject = 'engine' AND metric = 'cpu_us_per_s') / 1e6
                        AS engine_cores,
                    any_value(value) FILTER (subject = 'client' AND metric = 'cpu_us_per_s') / 1e6
                        AS client_cores,
                    any_value(value) FILTER (metric = 'write_bytes_per_s') / 1e6 AS write_mb_per_s
                FROM os_sample JOIN run USING (run_id)
                WHERE run_id = ? AND observer = 'sample'
                    AND is_measured(t, measure_begin, measure_end)
                GROUP BY ALL ORDER BY second
                """,
                name,
                run_id,
            )
        )
    return pl.concat(frames)

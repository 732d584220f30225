"""TPC-C's load: terminals on the nodes of ``load``, the application server between them and the engine.

The server runs on the first node of ``app`` or, if there is none, on the first node of ``load``. It
ends when the terminals have left it. Ramp-up, measured part and last answers are one stage, since the
standard wants no break between them (clause 5.5.1).
"""

import itertools
import re
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from subprocess import CompletedProcess

import polars as pl

from benchlab.drivers.base import (
    BUCKETS,
    CONTROL,
    MADE,
    MEASURE,
    OPERATIONS,
    SECONDS,
    Driver,
    Job,
    Measured,
    Phase,
    Process,
    Stage,
    Totals,
)
from benchlab.drivers.tpcc import checks, mix, output, validity
from benchlab.drivers.tpcc.limits import DEFERRED
from benchlab.drivers.tpcc.measured import ENDED_WELL, Interval, within
from benchlab.drivers.tpcc.was import LOST, NOT_DONE
from benchlab.engines import Engine
from benchlab.errors import BenchlabError, ParseError
from benchlab.raw.record import CARDINALITIES
from benchlab.study import Scalar, Workload
from benchlab.workloads.tpcc.transactions import Options as Mechanisms
from benchlab.workloads.tpcc.transactions import transactions_of

#: Python on every node of app and load, installed by the Ansible role ``tpcc``.
PYTHON = Path("/opt/benchlab/tpcc/bin/python")

#: Port of the application server; it is below the ports that the kernel gives to connections.
PORT = 28080

#: Most terminals of one process, limited by open files and by what a core can do at TPC-C's pacing.
_MOST_OF_PROCESS = 15_000

#: Result file of the application server: a line of JSON for each deferred delivery (clause 2.7.2.2).
DELIVERIES = "deliveries.jsonl"

#: Seconds that connecting, the last answers and the queue of deferred Deliveries may take together.
_GRACE_S = 100 + DEFERRED

#: Names of the processes; the name of a process with terminals also has its warehouses.
_WAS, _RTE = "was", "terminals"

#: The application server's count of the deliveries that were not done.
_COUNTED = re.compile(rf"{NOT_DONE}(\d+) of (\d+) transactions")

#: Significant digits to which a latency is rounded, as with pgbench.
_DIGITS = 3

#: Shell command that runs a program with its process id in a file, so that a signal can end it well.
_NUMBERED = 'echo $$ >"$1" && shift && exec "$@"'


class Tpcc(Driver):
    """See :class:`~benchlab.drivers.base.Driver`."""

    name = "tpcc"
    program = str(PYTHON)
    protocols = ("postgres", "mysql")
    serves = True
    resolution = 10 ** (1 - _DIGITS)
    ramps_up = True

    def refusal(self, engine: type[Engine], workload: Workload) -> str | None:
        """See :meth:`Driver.refusal`; the engine may also lack the form, or what an option needs."""
        if reason := super().refusal(engine, workload):
            return reason
        form, mechanisms = workload.options["form"], _mechanisms(workload.options)
        try:
            transactions_of(engine.name, str(form), mechanisms)
        except BenchlabError as error:
            return str(error)
        return None

    def stages(self, job: Job) -> list[Stage]:
        """See :meth:`Driver.stages`: the ramp-up is the warm-up."""
        warmup = [Phase("warmup", -job.warmup_s, 0)] if job.warmup_s else []
        return [
            Stage(
                [_server(job), *_terminals(job)],
                [*warmup, Phase(MEASURE)],
                job.warmup_s + job.measure_s,
                grace_s=_GRACE_S,
            )
        ]

    def begun(self, line: str, now: float) -> float | None:
        """See :meth:`Driver.begun`: the end of the ramp-up."""
        del now
        return output.begun(line)

    def second_of(self, line: str) -> tuple[int, float] | None:
        """See :meth:`Driver.second_of`; seconds of the Unix clock."""
        return output.second_of(line)

    def failure(
        self, process: Process, ended: CompletedProcess[bytes], workload: Workload
    ) -> str | None:
        """See :meth:`Driver.failure`; an error is a transaction without its proper answer."""
        who = "the application server" if process.serves else process.name
        said = ended.stderr.decode(errors="replace").strip().splitlines()
        if ended.returncode < 0:
            return f"{who} was killed by {signal.Signals(-ended.returncode).name}"
        if ended.returncode:
            return f"{who} ended with exit code {ended.returncode}: {(said or ['no message'])[-1]}"
        if process.serves:
            reason = _server_failure(said, workload)
            return f"{who} {reason}" if reason else None
        reason = _too_many_errors(output.totals(ended.stdout.decode(errors="replace")), workload)
        return f"{who}: {reason}" if reason else None

    def keep(self, process: Process, made: Sequence[Path], job: Job, folder: Path) -> None:
        """See :meth:`Driver.keep`: the records of the terminals, the results of the deliveries."""
        del job
        if process.serves:
            wanted = [path for path in made if path.name == DELIVERIES]
        else:
            wanted = [path for path in made if path.name == f"{process.name}.parquet"]
        for path in wanted:
            shutil.copyfile(path, folder / path.name)

    def seconds(self, folder: Path, workload: Workload) -> pl.DataFrame:
        """See :meth:`Driver.seconds`: by operation from the records, or else from the printed lines."""
        printed, kept = _kept(folder)
        try:
            interval = output.measured_part(printed) if kept else None
        except ParseError:  # a process was killed after its records, or ended within ramp-up
            interval = None
        if interval:
            found = output.of_seconds(output.records(kept), interval)
        else:
            found = output.seconds(printed)
        return pl.concat([pl.DataFrame(schema=SECONDS), found], how="diagonal").select(*SECONDS)

    def measured(self, folder: Path, workload: Workload) -> Measured:
        """See :meth:`Driver.measured`: transactions answered in the measured part, or lost in it."""
        del workload
        printed, records = _recorded(folder)
        interval = output.measured_part(printed)
        ended = within(records, interval)
        well, response = ENDED_WELL, output.response_us()
        operations = (
            ended.group_by(operation="type")
            .agg(
                transactions=well.sum(),
                errors=(~well).sum(),
                retries=pl.col("retries").sum(),
                latency_mean_us=response.filter(well).mean(),
                latency_max_us=response.filter(well).max(),
            )
            .sort("operation")
            .collect()
            .cast(OPERATIONS)
            .select(*OPERATIONS)
        )
        operations = _with_deferred(operations, _deliveries(folder), interval)
        of_all = ended.filter(well).select(mean=response.mean(), most=response.max()).collect()
        totals = Totals(
            transactions=operations["transactions"].sum(),
            errors=operations["errors"].sum(),
            seconds=(interval.end_us - interval.begin_us) / 1e6,
            latency_mean_us=of_all["mean"].item(),
            latency_max_us=of_all["most"].item(),
        )
        buckets = (
            ended.filter(well)
            .group_by(operation="type", latency_us=response.round_sig_figs(_DIGITS))
            .agg(count=pl.len().cast(pl.Int64))
            .sort("operation", "latency_us")
            .select(*BUCKETS)
            .collect()
        )
        return Measured(totals, operations, buckets)

    def times(self, folder: Path, workload: Workload) -> pl.DataFrame:
        """See :meth:`Driver.times`; of the transactions that ended well in the measured part."""
        del workload
        printed, records = _recorded(folder)
        return output.times(
            records,
            _deliveries(folder),
            output.measured_part(printed),
            _DIGITS,
        )

    def rules(
        self, folder: Path, workload: Workload, checkpoints: pl.DataFrame | str
    ) -> pl.DataFrame:
        """See :meth:`Driver.rules`: TPC-C's rules, as far as terminals and servers recorded them."""
        printed, records = _recorded(folder)
        counted = [output.totals(text) for text in printed]
        counted_rows = folder / CARDINALITIES
        recorded = validity.Recorded(
            records.collect(),
            _deliveries(folder),
            checkpoints,
            output.cardinalities(counted_rows.read_bytes()) if counted_rows.exists() else None,
        )
        facts = validity.Facts(
            warehouses=counted[0].of_warehouses,
            interval=output.measured_part(printed),
            # older records have only the options that the study set
            mix=_mix(str(workload.options.get("mix", "weights")), len(printed)),
            ramp_up=output.ramp_up(printed),
        )
        found = validity.checks(recorded, facts)
        return pl.concat([found, validity.remote_orders(recorded.records, facts)])


def _with_deferred(
    operations: pl.DataFrame, deliveries: pl.DataFrame | None, interval: Interval
) -> pl.DataFrame:
    """Add the failures and repeats of deferred Deliveries, of which the terminals see none.

    A Delivery that was acknowledged and not done is an error. Seconds and latencies still include it:
    the terminals' records do not say which one it is.
    """
    if deliveries is None:
        return operations
    queued = deliveries.filter(interval.has("queued_us"))
    is_delivery = pl.col("operation") == "delivery"
    # one that was queued just before the interval's end may have been answered after it
    not_done = pl.min_horizontal("transactions", pl.lit(queued["completed_us"].null_count()))
    failed = pl.when(is_delivery).then(not_done).otherwise(0)
    return operations.with_columns(
        pl.col("transactions") - failed,
        pl.col("errors") + failed,
        pl.col("retries") + pl.when(is_delivery).then(queued["retries"].sum()).otherwise(0),
    )


def _mechanisms(options: Mapping[str, Scalar]) -> Mechanisms:
    """Return the options of the form ``statements``: how single statements are written."""
    return Mechanisms(**{one.name: bool(options[one.name]) for one in fields(Mechanisms)})


def _server_failure(said: Sequence[str], workload: Workload) -> str | None:
    """Return why a run fails by what its application server said, or ``None``."""
    if lost := next((line for line in said if LOST in line), ""):
        return f"lost the database: {lost.partition(LOST)[2]}"
    counted = next(filter(None, map(_COUNTED.search, said)), None)
    not_done, of = map(int, counted.groups()) if counted else (0, 0)
    tolerated = workload.tolerated_error_share
    if not_done <= tolerated * of:
        return None
    return (
        f"did not do {not_done} deliveries that it had acknowledged, of {of} transactions: more than"
        f" the {tolerated:.1%} that the workload tolerates; the reasons are in {DELIVERIES}"
    )


def _too_many_errors(found: output.Totals, workload: Workload) -> str | None:
    """Return how many transactions failed, and what to do, if they are more than tolerated."""
    errors, tolerated = found.refused + found.errors + found.lost, workload.tolerated_error_share
    if errors <= tolerated * found.all:
        return None
    advice = {
        "raise the workload's options pool and queue": found.refused,
        f"the errors are in {_WAS}.err": found.errors,
        f"{found.lost_terminals} terminals lost their connection": found.lost,
    }
    return "; ".join(
        [
            f"{found.refused} transactions turned away, {found.errors} ended by an error and"
            f" {found.lost} without an answer, of {found.all + errors}: more than the"
            f" {tolerated:.1%} that the workload tolerates",
            *(said for said, count in advice.items() if count),
        ]
    )


def _mix(way: str, processes: int) -> checks.Mix:
    """Return how terminals drew the types of their transactions, for the check of the mix."""
    if way == "decks":
        cards = sum(mix.CARDS.values())
        return checks.Mix({one: count / cards for one, count in mix.CARDS.items()}, deck=cards)
    shares = {one: percent / 100 for one, percent in mix.AIMS.items()}
    return checks.Mix(shares, adjustment=mix.ADJUSTMENT, processes=processes)


def _server(job: Job) -> Process:
    """Return the application server's process; it reads the database's address from its input."""
    argv = _program(
        "was",
        {
            "host": job.application_host,
            "port": PORT,
            "engine": job.engine.name,
            "form": job.options["form"],
            "isolation": job.options["isolation"],
            "pool": job.options["pool"],
            "queue": job.options["queue"],
            # as many as there may be, so that none waits longer for its turn than other transactions do
            "delivery-workers": job.clients,
            "delivery-results": MADE / DELIVERIES,
            "drain": DEFERRED,
        },
    )
    mechanisms = asdict(_mechanisms(job.options)).items()
    switches = [f"--{name}" if on else f"--no-{name}" for name, on in mechanisms]
    return _ended_well(
        Process(
            _WAS,
            [*argv, *switches, "--until-left"],
            f"{job.engine.endpoint.model_dump_json()}\n".encode(),
            role=job.application_role,
            makes_files=True,
            serves=True,
        )
    )


def _terminals(job: Job) -> Iterator[Process]:
    """Yield the processes with terminals, each with the terminals of its warehouses."""
    warehouses = int(job.options["warehouses"])
    count = min(warehouses, max(job.nodes, -(-job.clients // _MOST_OF_PROCESS)))
    bounds = [warehouses * one // count for one in range(count + 1)]
    for number, (first, last) in enumerate(itertools.pairwise(bounds)):
        terminals = job.clients * last // warehouses - job.clients * first // warehouses
        if not terminals:  # there are fewer than nodes
            continue
        argv = _program(
            "rte",
            {
                "was": f"http://{job.application_host}:{PORT}",
                "warehouses": f"{first + 1}-{last}",
                "of-warehouses": warehouses,
                "terminals": terminals,
                **{name: job.options[name] for name in ("c-last", "c-id", "ol-i-id")},
                "pacing": job.options["pacing"],
                "mix": job.options["mix"],
                "ramp-up-s": job.warmup_s,
                "duration-s": job.measure_s,
                "seed": job.seed,
                "records": MADE,
            },
        )
        # the name that the program gives to its records
        name = f"{_RTE}-{first + 1:06}-{last:06}"
        yield _ended_well(Process(name, argv, node=number % job.nodes, makes_files=True))


def _program(name: str, options: dict[str, object]) -> list[str]:
    arguments = [word for option, value in options.items() for word in (f"--{option}", str(value))]
    return [str(PYTHON), "-m", f"benchlab.drivers.tpcc.{name}", *arguments]


def _ended_well(process: Process) -> Process:
    """Return the same process with a command that tells it to end."""
    number = CONTROL / f"{process.name}.pid"
    return replace(
        process,
        argv=["sh", "-c", _NUMBERED, "sh", str(number), *process.argv],
        # it may have ended by itself
        stop=["sh", "-c", f'kill "$(cat {number})" 2>/dev/null || true'],
    )


def _kept(folder: Path) -> tuple[list[str], list[Path]]:
    """Return the output of the processes with terminals, and all records; none if one is missing."""
    outputs = sorted(folder.glob(f"{_RTE}-*.out"))
    records = [path.with_suffix(".parquet") for path in outputs]
    printed = [path.read_bytes().decode(errors="replace") for path in outputs]
    return printed, records if all(path.exists() for path in records) else []


def _recorded(folder: Path) -> tuple[list[str], pl.LazyFrame]:
    """Return the output of the processes with terminals, and the records of all of them.

    Raises:
        ParseError: one of the processes left no records.
    """
    printed, kept = _kept(folder)
    if not kept:
        raise ParseError("tpcc: the terminals left no records")
    return printed, output.records(kept)


def _deliveries(folder: Path) -> pl.DataFrame | None:
    path = folder / DELIVERIES
    return output.deliveries(path.read_bytes()) if path.exists() else None


DRIVER = Tpcc()

"""The contract that every driver keeps, held to what its program really printed.

A driver inherits :class:`DriverContract` and brings recordings. ``test_parse_<driver>.py`` has what is
special of its parser.
"""

import json
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest
from benchlab import drivers
from benchlab.drivers.base import (
    BUCKETS,
    MEASURE,
    OPERATIONS,
    RULES,
    SECONDS,
    TIMES,
    Driver,
    Job,
    Phase,
    Process,
    Stage,
)
from benchlab.drivers.tpcc import output
from benchlab.drivers.tpcc.options import OPTIONS
from benchlab.drivers.tpcc.records import RECORDS
from benchlab.drivers.tpcc.was import NOT_DONE
from benchlab.engines import ENGINES, Endpoint, Engine
from benchlab.errors import ParseError, UnknownName
from benchlab.store import ingest, open_store
from benchlab.study import Scalar, Workload, kinds
from benchlab.workloads import tables_of
from benchlab.workloads.pgbench.dataset import PgbenchTables
from benchlab.workloads.spec_tree.dataset import SpecTree
from benchlab.workloads.sysbench_oltp.dataset import SysbenchTables
from benchlab.workloads.tpcc.dataset import Tpcc
from benchlab.workloads.tpcc.transactions import Options as Mechanisms
from conftest import CAPTURES, DATA

SECRET = "s3cret, with = and spaces"


def engine_of(protocol: str) -> Engine:
    """An engine that speaks a protocol."""
    endpoint = Endpoint(host="192.0.2.1", port=55432, user="root", password=SECRET)
    (first, *_) = (ENGINES[name] for name in sorted(ENGINES) if ENGINES[name].protocol == protocol)
    return first(endpoint)


class DriverContract(ABC):
    """What holds of every driver. Recordings are ``lib/tests/data/<driver>/<name>.txt``.

    Class attributes:
        name: of the driver.
        datasets: that it runs on.
        whole: recordings of runs that ended well → what ran.
        broken: recordings of runs that did not → exit code, and what must be reported. One is
            ``refused``, of a server that does not listen.
        too_short: recordings of ``whole`` that end before the program prints a second.
    """

    name: ClassVar[str]
    datasets: ClassVar[tuple[kinds.DatasetModel, ...]]
    whole: ClassVar[Mapping[str, Workload]]
    broken: ClassVar[Mapping[str, tuple[int, str]]]
    too_short: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def leave(self, recording: str, workload: Workload, folder: Path) -> None:
        """Fill a run's folder as a trial would have with what is recorded."""

    @property
    def driver(self) -> Driver:
        return drivers.driver(self.name)

    def recorded(self, recording: str) -> bytes:
        return (DATA / self.name / f"{recording}.txt").read_bytes()

    def printed(self, recording: str) -> list[str]:
        return self.recorded(recording).decode().splitlines()

    def job(self, dataset: kinds.DatasetModel, protocol: str, **changes: object) -> Job:
        """A job on a dataset, with the first of its scripts."""
        tables = tables_of(dataset)
        script = (dataset.scripts or ("oltp_write_only",))[0]
        times = {"warmup_s": 5, "connections_s": 0, "measure_s": 60}
        requested = {"workload": self.workload(script), **times, **changes}
        scripts = {name: tables.script(name) for name in requested["workload"].weights}
        engine = engine_of(protocol)
        options: dict[str, Scalar] = {
            **kinds.driver_options(self.name).defaults(engine.name),
            **requested["workload"].options,
            **tables.options(),
        }
        return Job(
            **{"engine": engine, "clients": 8, "nodes": 1, "cores": 2.0, "seed": 7}
            | {"scripts": scripts, "options": options}
            | requested
        )

    def workload(self, *scripts: str, **options: Scalar) -> Workload:
        return Workload(
            driver=self.name,
            scripts=dict.fromkeys(scripts, 1),
            writes=True,
            options=options,
            tolerated_error_share=0.99,
        )

    def jobs(self) -> list[Job]:
        """Of every dataset and protocol, in the closed and the open loop, by time and by number."""
        return [
            self.job(dataset, protocol, **changes)
            for dataset in self.datasets
            for protocol in self.driver.protocols
            for changes in (
                {},
                {"rate_per_s": 50},
                {"transactions": 800},
                {"warmup_s": 0},
                {"can_end_early": True},
                *([{"connections_s": 3}] if self.driver.warms_connections else []),
            )
        ]

    # Which processes

    def test_it_is_found_by_its_name(self):
        assert self.driver.name == self.name
        assert self.name in kinds.driver_names()

    def test_there_is_one_measured_part_and_it_comes_last(self):
        for job in self.jobs():
            stages = self.driver.stages(job)
            assert [bool(stage.measured) for stage in stages] == [False] * (len(stages) - 1) + [
                True
            ]
            assert len(stages) == 1 or stages[0].duration_s == job.warmup_s
            assert stages[-1].duration_s == job.connections_s + job.measure_s
            names = [process.name for stage in stages for process in stage.processes]
            assert len({*names}) == len(names)  # or one would overwrite the other's captures

    def test_what_can_end_early_says_how(self):
        for job in self.jobs():
            for stage in self.driver.stages(job):
                assert all(bool(process.stop) == job.can_end_early for process in stage.processes)

    def test_nothing_secret_is_in_a_process_list(self):
        for job in self.jobs():
            for stage in self.driver.stages(job):
                for process in stage.processes:
                    assert not any(SECRET in word for word in process.argv)
                    assert SECRET in process.stdin.decode()

    def test_its_own_options_are_no_workloads_options(self):
        options = kinds.driver_options(self.name)
        assert options.refusal_of_scripts({"one": 1}) is None
        assert options.refusal_of_option("some-option") is None
        for job in self.jobs():
            for stage in self.driver.stages(job):
                for word in stage.processes[0].argv:
                    if word.startswith("--"):
                        option = word[2:].partition("=")[0]
                        assert options.refusal_of_option(option), option

    def test_it_says_whether_it_takes_a_rate(self):
        assert kinds.driver_options(self.name).TAKES_RATE in (True, False)

    def test_a_workloads_options_reach_it(self):
        for dataset in self.datasets:
            plain = self.job(dataset, self.driver.protocols[0])
            more = {**plain.options, "some-option": "some value"}
            job = self.job(dataset, self.driver.protocols[0], options=more)
            for stage in self.driver.stages(job):
                assert "--some-option=some value" in stage.processes[0].argv

    def test_warmup_and_measured_part_draw_other_numbers(self):
        job = self.job(self.datasets[0], self.driver.protocols[0])
        (warmup, measured) = (stage.processes[0].argv for stage in self.driver.stages(job))
        assert any(word.endswith("seed=7") for word in measured)
        assert any(word.endswith("seed=8") for word in warmup)

    def test_an_engine_of_another_protocol_is_refused(self):
        for engine in ENGINES.values():
            defaults = kinds.driver_options(self.name).defaults(engine.name)
            refusal = self.driver.refusal(engine, self.workload("oltp_write_only", **defaults))
            assert (refusal is None) == (engine.protocol in self.driver.protocols)
            assert refusal is None or self.name in refusal

    # How it ends

    def ended(self, recording: str, code: int = 0) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess([], code, self.recorded(recording), b"")

    def test_its_clients_begin_once(self):
        for recording in self.whole:
            begun = [
                at
                for line in self.printed(recording)
                if (at := self.driver.begun(line, now=1.0)) is not None
            ]
            if begun or recording not in self.too_short:
                assert begun == sorted(begun)
                assert begun
        refused = self.printed("refused")
        assert not any(self.driver.begun(line, now=1.0) for line in refused)

    def test_throughput_is_known_of_each_second_as_it_is_printed(self, tmp_path):
        for recording, workload in self.whole.items():
            lines = self.printed(recording)
            found = [one for line in lines if (one := self.driver.second_of(line))]
            seconds = [second for second, _ in found]
            assert seconds == sorted(set(seconds))
            folder = tmp_path / recording
            folder.mkdir()
            self.leave(recording, workload, folder)
            totals = self.driver.measured(folder, workload).totals
            assert len(found) >= totals.seconds - 2
            if found:
                # the last second is not whole
                in_a_second = totals.transactions / totals.seconds
                missing = totals.transactions - sum(tps for _, tps in found)
                assert abs(missing) <= 1.6 * in_a_second + 0.02 * totals.transactions

    def test_a_run_that_ended_well_is_no_failure(self):
        for recording, workload in self.whole.items():
            process = Process(MEASURE, [])
            assert self.driver.failure(process, self.ended(recording), workload) is None

    def test_a_run_that_broke_off_is_reported_with_its_reason(self):
        for recording, (code, expected) in self.broken.items():
            workload = self.workload("one")
            failure = self.driver.failure(
                Process(MEASURE, []), self.ended(recording, code), workload
            )
            assert expected in failure, recording
            assert "\n" not in failure

    def test_an_exit_code_alone_is_a_failure(self):
        (recording, workload), *_ = self.whole.items()
        failure = self.driver.failure(Process(MEASURE, []), self.ended(recording, 3), workload)
        assert "exit code 3" in failure

    # What a folder holds

    def test_totals_operations_and_histogram_agree(self, tmp_path):
        for recording, workload in self.whole.items():
            folder = tmp_path / recording
            folder.mkdir()
            self.leave(recording, workload, folder)
            found = self.driver.measured(folder, workload)
            totals, operations, buckets = found.totals, found.operations, found.buckets
            assert dict(operations.schema) == OPERATIONS
            assert dict(buckets.schema) == BUCKETS
            assert set(operations["operation"]) == set(workload.weights)
            assert operations["transactions"].sum() == totals.transactions > 0
            assert operations["errors"].sum() == totals.errors
            assert operations["latency_max_us"].max() == totals.latency_max_us
            counted = buckets.group_by("operation").agg(pl.col("count").sum())
            assert dict(counted.iter_rows()) == dict(
                operations.filter(pl.col("transactions") > 0)
                .select("operation", "transactions")
                .iter_rows()
            )
            mean = (buckets["latency_us"] * buckets["count"]).sum() / totals.transactions
            # each latency is known to half a bucket, and what is printed to 0.005 ms
            near = pytest.approx(totals.latency_mean_us, rel=self.driver.resolution, abs=5)
            assert mean == near
            assert buckets.sort("operation", "latency_us").equals(buckets)

    def test_seconds_agree_with_the_totals(self, tmp_path):
        for recording, workload in self.whole.items():
            folder = tmp_path / recording
            folder.mkdir()
            self.leave(recording, workload, folder)
            totals = self.driver.measured(folder, workload).totals
            seconds = self.driver.seconds(folder, workload)
            assert dict(seconds.schema) == SECONDS
            assert set(seconds["phase"]) <= {MEASURE}
            assert set(seconds["operation"]) <= set(workload.weights)
            assert not seconds.select("operation", "second").is_duplicated().any()
            whole = int(totals.seconds + 0.05)
            assert seconds["second"].max() in (whole, whole - 1) or recording in self.too_short
            # the last second is not whole, and what was under way at the end is in no second
            missing = totals.transactions - seconds["tps"].sum()
            in_a_second = totals.transactions / totals.seconds
            assert -0.001 * totals.transactions <= missing <= 1.6 * in_a_second + 1

    def test_a_run_that_broke_off_has_no_results(self, tmp_path):
        for recording in self.broken:
            folder = tmp_path / recording
            folder.mkdir()
            workload = self.workload("one")
            self.leave(recording, workload, folder)
            with pytest.raises(ParseError):
                self.driver.measured(folder, workload)
            self.driver.seconds(folder, workload)

    def test_an_empty_folder_is_no_run(self, tmp_path):
        workload = self.workload("one")
        assert self.driver.seconds(tmp_path, workload).is_empty()
        with pytest.raises(ParseError):
            self.driver.measured(tmp_path, workload)


class TestSysbench(DriverContract):
    name = "sysbench"
    datasets = (
        SysbenchTables(tables=10, rows_per_table=1000),
        SpecTree(operators=2, entities=500, revisions=50),
    )
    whole: ClassVar = {
        name: Workload(
            driver="sysbench", script="oltp_insert", writes=True, tolerated_error_share=0.99
        )
        for name in ("oltp_write_only", "oltp_insert", "oltp_point_select", "rate")
    }
    broken: ClassVar = {
        "server_killed": (-11, "exit code -11"),
        "client_killed": (-9, "exit code -9"),
        "connection_lost_mysql": (1, "for query 'DELETE FROM sbtest2 WHERE id=?'"),
        "refused": (1, "Connection refused"),
        "sql_error": (1, 'relation "sbtest3" does not exist'),
    }

    def leave(self, recording: str, workload: Workload, folder: Path) -> None:
        (folder / "sysbench.out").write_bytes(self.recorded(recording))

    def test_more_errors_than_the_workload_brings_about_are_a_failure(self):
        (workload, *_) = self.whole.values()
        few = workload.model_copy(update={"tolerated_error_share": 0.01})
        process = Process(MEASURE, [])
        failure = self.driver.failure(process, self.ended("oltp_write_only"), few)
        assert failure == "90 errors and 0 reconnects in 8310 transactions"

    def test_connections_are_warmed_up_before_they_are_measured(self):
        (dataset, *_), (protocol, *_) = self.datasets, self.driver.protocols
        (stage,) = self.driver.stages(self.job(dataset, protocol, warmup_s=0, connections_s=3))
        (process,) = stage.processes
        assert "BENCHLAB_WARMUP_S=3" in process.argv
        assert [*process.control] == ["wrapper.lua"]
        assert not process.stop  # its time is what was requested
        assert stage.phases == [Phase("warmup", -3, 0), Phase(MEASURE)]

    def test_nodes_share_the_clients_and_draw_other_numbers(self):
        (dataset, *_), (protocol, *_) = self.datasets, self.driver.protocols
        job = self.job(dataset, protocol, clients=5, nodes=2, transactions=500, rate_per_s=50)
        processes = [process for stage in self.driver.stages(job) for process in stage.processes]
        assert [process.node for process in processes] == [0, 1, 0, 1]
        options = [
            dict(word[2:].split("=", 1) for word in one.argv if "=" in word) for one in processes
        ]
        assert [one["threads"] for one in options] == ["3", "2", "3", "2"]
        assert [one["rate"] for one in options] == ["25", "25", "25", "25"]
        assert [one["events"] for one in options] == ["0", "0", "300", "200"]
        assert len({one["rand-seed"] for one in options}) == 4
        assert len({one.name for one in processes}) == 4
        # a node without a client has nothing to run
        (alone,) = self.driver.stages(self.job(dataset, protocol, clients=1, nodes=2, warmup_s=0))
        assert [process.node for process in alone.processes] == [0]

    @pytest.mark.parametrize(("rate", "shares"), [(5, [3, 2]), (1, [1])])
    def test_nodes_have_the_whole_rate_together(self, rate, shares):
        (dataset, *_), (protocol, *_) = self.datasets, self.driver.protocols
        job = self.job(dataset, protocol, clients=4, nodes=2, warmup_s=0, rate_per_s=rate)
        (stage,) = self.driver.stages(job)
        assert [f"--rate={share}" for share in shares] == [
            word for one in stage.processes for word in one.argv if word.startswith("--rate=")
        ]

    def test_what_several_nodes_print_is_added_up(self, tmp_path):
        recordings = ("oltp_insert", "oltp_point_select")
        workload = self.workload("both")
        alone = []
        for number, recording in enumerate(recordings):
            folder = tmp_path / recording
            folder.mkdir()
            self.leave(recording, workload, folder)
            alone.append(self.driver.measured(folder, workload))
            name = f"sysbench-{number + 1}.out" if number else "sysbench.out"
            (tmp_path / name).write_bytes((folder / "sysbench.out").read_bytes())
        together = self.driver.measured(tmp_path, workload)
        one, other = (measured.totals for measured in alone)
        assert together.totals.transactions == one.transactions + other.transactions
        assert together.totals.queries == one.queries + other.queries
        assert together.totals.seconds == max(one.seconds, other.seconds)
        assert together.totals.latency_max_us == max(one.latency_max_us, other.latency_max_us)
        weighted = (
            one.transactions * one.latency_mean_us + other.transactions * other.latency_mean_us
        )
        assert together.totals.latency_mean_us == pytest.approx(
            weighted / together.totals.transactions
        )
        assert together.buckets["count"].sum() == sum(one.buckets["count"].sum() for one in alone)
        assert together.buckets["latency_us"].is_sorted()
        assert together.buckets["latency_us"].is_unique().all()
        seconds = self.driver.seconds(tmp_path, workload)
        parts = [self.driver.seconds(tmp_path / recording, workload) for recording in recordings]
        assert len(seconds) == min(map(len, parts))
        first = [part.row(0, named=True) for part in parts]
        assert seconds["tps"][0] == pytest.approx(sum(row["tps"] for row in first))
        assert seconds["threads"][0] == sum(row["threads"] for row in first)
        assert seconds["latency_us"].is_null().all()

    def test_what_a_node_does_not_know_is_unknown_of_all(self, tmp_path):
        for name, recording in ("sysbench", "warmed_up"), ("sysbench-1", "warmed_up"):
            (tmp_path / f"{name}.out").write_bytes(self.recorded(recording))
        first, second = self.driver.seconds(tmp_path, self.workload("both")).head(2).to_dicts()
        assert first["tps"] > 0
        assert first["qps"] is first["errors_per_s"] is None
        assert second["qps"] > 0

    def test_one_script_at_a_time(self):
        refusal = kinds.driver_options("sysbench").refusal_of_scripts({"one": 1, "two": 2})
        assert refusal == "sysbench runs one script at a time"


def pgbench(options: Mapping[str, Scalar] | None = None, **scripts: int) -> Workload:
    return Workload(
        driver="pgbench",
        scripts={name.replace("_", "-"): weight for name, weight in scripts.items()},
        writes=True,
        options=dict(options or {}),
        tolerated_error_share=0.6,
    )


class TestPgbench(DriverContract):
    name = "pgbench"
    datasets = (PgbenchTables(scale=2),)
    whole: ClassVar = {
        "one_script": pgbench(tpcb_like=1),
        "scripts": pgbench(tpcb_like=1, select_only=9),
        "files": pgbench({"max-tries": 3, "protocol": "extended"}, serializable=1, slow=3),
        "failures": pgbench(serializable=1),
        "deadlocks": pgbench({"max-tries": 2}, deadlock=1),
        "transactions": pgbench(select_only=1),
    }
    too_short: ClassVar = ("transactions",)
    broken: ClassVar = {
        "server_killed": (2, "perhaps the backend died while processing"),
        "client_killed": (-9, "exit code -9"),
        "refused": (1, "Connection refused Is the server running on that host"),
        "password": (1, 'password authentication failed for user "bench"'),
        "sql_error": (2, 'relation "nowhere" does not exist LINE 1: SELECT absent FROM nowhere;'),
    }
    rated = ("scripts", "failures", "deadlocks")

    def leave(self, recording: str, workload: Workload, folder: Path) -> None:
        (folder / "pgbench.out").write_bytes(self.recorded(recording))
        log = DATA / "pgbench" / f"{recording}.log"
        if not log.exists():
            return
        copy = folder / "copy"
        copy.write_bytes(log.read_bytes())
        job = self.job(
            self.datasets[0],
            "postgres",
            workload=workload,
            rate_per_s=1 if recording in self.rated else None,
        )
        self.driver.keep(Process("pgbench", []), [copy], job, folder)
        copy.unlink()

    def test_the_results_by_script_are_those_that_it_prints(self, tmp_path):
        workload = self.whole["files"]
        self.leave("files", workload, tmp_path)
        found = self.driver.measured(tmp_path, workload)
        assert found.operations.rows() == [
            ("serializable", 613, 94, 370, pytest.approx(2930, abs=1), 55391.0),
            ("slow", 2101, 0, 0, pytest.approx(4655, abs=1), 38480.0),
        ]
        assert found.totals.seconds == pytest.approx(2714 / 913.965658)

    def test_a_log_without_some_transactions_is_reported(self, tmp_path):
        workload = self.whole["one_script"]
        self.leave("one_script", workload, tmp_path)
        log = pl.read_parquet(tmp_path / "transactions.parquet")
        log.head(-1).write_parquet(tmp_path / "transactions.parquet")
        with pytest.raises(ParseError, match="log has 1654 transactions and 0 that failed"):
            self.driver.measured(tmp_path, workload)

    def test_without_a_log_the_seconds_are_those_of_the_progress(self, tmp_path):
        for name, operation in (("one_script", "tpcb-like"), ("scripts", None)):
            (tmp_path / "warmup.out").write_bytes(self.recorded(name))
            seconds = self.driver.seconds(tmp_path, self.whole[name])
            assert set(seconds["phase"]) == {"warmup"}
            assert seconds["operation"].unique().to_list() == [operation]
        assert seconds.select("second", "tps").rows() == [(1, 273.0), (2, 328.6)]

    def test_more_failures_than_the_workload_brings_about_are_a_failure(self):
        workload = pgbench(serializable=1).model_copy(update={"tolerated_error_share": 0.1})
        failure = self.driver.failure(Process(MEASURE, []), self.ended("failures"), workload)
        assert failure == "456 transactions failed, 830 did not"

    def test_scripts_have_their_weights_and_files_the_scale(self):
        job = self.job(
            self.datasets[0],
            "postgres",
            workload=pgbench(
                {"protocol": "prepared", "connect": True}, tpcb_like=3, serializable=1
            ),
            rate_per_s=50,
        )
        measured = self.driver.stages(job)[-1].processes[0].argv
        assert {"--builtin=tpcb-like@3", "--connect", "--protocol=prepared", "--rate=50"} < {
            *measured
        }
        assert f"--file={tables_of(self.datasets[0]).folder}/serializable.sql@1" in measured
        assert "--scale=2" in measured
        built_in = self.job(self.datasets[0], "postgres", workload=pgbench(tpcb_like=1))
        assert "--scale=2" not in self.driver.stages(built_in)[-1].processes[0].argv

    def test_short_options_are_refused(self):
        assert "no long name" in kinds.driver_options("pgbench").refusal_of_option("M")


class TestTpcc(DriverContract):
    """Its programs are benchlab's own, and were recorded with no database behind them."""

    name = "tpcc"
    datasets = (Tpcc(warehouses=2),)
    mix: ClassVar = {
        "new_order": 45,
        "payment": 43,
        "order_status": 4,
        "delivery": 4,
        "stock_level": 4,
    }
    whole: ClassVar = {
        "paced": Workload(driver="tpcc", scripts=mix, writes=True, options={"pacing": 0.01})
    }
    broken: ClassVar = {"killed": (-9, "killed by SIGKILL"), "refused": (1, "exit code 1")}

    def workload(self, *scripts: str, **options: Scalar) -> Workload:
        del scripts  # all five, or none
        return Workload(
            driver="tpcc", scripts=self.mix, writes=True, options=options, tolerated_error_share=0.1
        )

    def leave(self, recording: str, workload: Workload, folder: Path) -> None:
        del workload
        (folder / "terminals-000001-000002.out").write_bytes(self.recorded(recording))
        made = [DATA / "tpcc" / f"{recording}.parquet", DATA / "tpcc" / "deliveries.jsonl"]
        if made[0].exists():
            (folder / "terminals-000001-000002.parquet").write_bytes(made[0].read_bytes())
            (folder / made[1].name).write_bytes(made[1].read_bytes())

    def stage(self, **changes: object) -> Stage:
        (stage,) = self.driver.stages(self.job(self.datasets[0], "postgres", **changes))
        return stage

    @pytest.mark.parametrize("lacks", ["its totals", "a measured part"])
    def test_one_that_broke_off_after_its_records_has_the_seconds_that_it_printed(
        self, tmp_path, lacks
    ):
        workload = self.whole["paced"]
        self.leave("paced", workload, tmp_path)
        (printed,) = tmp_path.glob("*.out")
        lines = printed.read_text().splitlines(keepends=True)
        totals = lines.pop()
        if lacks == "a measured part":
            lines.append(re.sub(r'"begun":\d+', '"begun":null', totals))
        printed.write_text("".join(lines))
        with pytest.raises(ParseError):
            self.driver.measured(tmp_path, workload)
        found = self.driver.seconds(tmp_path, workload)
        assert found["tps"].to_list() == [98, 106, 93, 92]

    def test_there_is_one_measured_part_and_it_comes_last(self):
        stage = self.stage()
        assert [(one.name, one.begin_s) for one in stage.phases] == [("warmup", -5), (MEASURE, 0)]
        assert stage.duration_s == 65
        assert [one.name for one in self.stage(warmup_s=0).phases] == [MEASURE]

    def test_what_can_end_early_says_how(self):
        assert all(process.stop for process in self.stage().processes)

    def test_nothing_secret_is_in_a_process_list(self):
        server, terminals = self.stage().processes
        assert not any(SECRET in word for one in (server, terminals) for word in one.argv)
        assert json.loads(server.stdin)["password"] == SECRET
        assert not terminals.stdin

    def test_its_own_options_are_no_workloads_options(self):
        options = kinds.driver_options("tpcc")
        assert options.refusal_of_scripts(self.mix) is None
        assert "delivery, new_order" in options.refusal_of_scripts({"new_order": 1})
        assert options.refusal_of_option("pacing") is None
        assert "is none of" in options.refusal_of_option("host")

    @pytest.mark.parametrize("engine", ENGINES)
    def test_every_option_has_a_default(self, engine):
        defaults = dict(kinds.driver_options("tpcc").defaults(engine))
        assert defaults.keys() == OPTIONS.keys()
        # the application server started by hand writes statements in the same way
        assert asdict(Mechanisms()).items() <= defaults.items()

    def test_a_workloads_options_reach_it(self):
        given = {"form": "statements", "pool": 3, "pacing": 0.5, "mix": "decks", "batched": False}
        plain = self.job(self.datasets[0], "mysql")
        (stage,) = self.driver.stages(replace(plain, options={**plain.options, **given}))
        words = [" ".join(process.argv) for process in stage.processes]
        assert "--form statements" in words[0]
        assert "--pool 3" in words[0]
        assert "--no-batched --prepared --no-joined" in words[0]
        assert "--pacing 0.5 --mix decks" in words[1]

    @pytest.mark.parametrize(
        ("engine", "options", "reason"),
        [
            ("oceanbase", {}, None),
            ("oceanbase", {"form": "statements", "joined": True}, None),
            ("oceanbase", {"form": "statements", "prepared": False}, "has no prepared statements"),
            ("oceanbase", {"batched": False}, "choose the form: statements"),
            ("postgres", {"form": "statements", "prepared": False}, None),
            ("tidb", {}, None),
            ("tidb", {"form": "procedures"}, "no stored procedures"),
            ("tidb", {"form": "statements", "joined": True}, "no updatable views"),
        ],
    )
    def test_what_an_engine_lacks_is_refused_beforehand(self, engine, options, reason):
        defaults = kinds.driver_options("tpcc").defaults(engine)
        refusal = self.driver.refusal(ENGINES[engine], self.workload(**defaults | options))
        assert refusal is None if reason is None else reason in refusal

    def test_warmup_and_measured_part_draw_other_numbers(self):
        """They are of one process, whose generator goes on."""
        assert len(self.stage().processes) == 2

    def test_nodes_share_the_warehouses_and_the_seed_from_which_each_terminal_draws_its_own(self):
        stage = self.stage(nodes=2, clients=19, application_host="app1", application_role="app")
        server, *terminals = stage.processes
        assert (server.role, server.serves) == ("app", True)
        assert [(one.name, one.node) for one in terminals] == [
            ("terminals-000001-000001", 0),
            ("terminals-000002-000002", 1),
        ]
        for one, count in zip(terminals, (9, 10), strict=True):
            words = " ".join(one.argv)
            assert f"--terminals {count} " in words
            assert "--seed 7 " in words
            assert "--was http://app1:28080 " in words

    def test_a_node_without_a_terminal_has_no_process(self):
        _, *terminals = self.stage(nodes=2, clients=1).processes
        assert [one.argv[one.argv.index("--terminals") + 1] for one in terminals] == ["1"]

    def test_a_server_that_died_is_a_failure(self):
        ended, process = self.ended("was-died"), Process("terminals-000001-000001", [])
        said = self.driver.failure(
            process, ended, self.workload().model_copy(update={"tolerated_error_share": 0})
        )
        assert said == (
            "terminals-000001-000001: 0 transactions turned away, 0 ended by an error and 10 without"
            " an answer, of 96: more than the 0.0% that the workload tolerates; 10 terminals lost"
            " their connection"
        )

    def test_a_server_that_was_killed_or_lost_its_database_is_a_failure(self):
        server = Process("was", [], serves=True)
        killed = subprocess.CompletedProcess([], -9, b"", b"")
        assert self.driver.failure(server, killed, self.workload()) == (
            "the application server was killed by SIGKILL"
        )
        lost = subprocess.CompletedProcess([], 0, b"", b"")
        assert self.driver.failure(server, lost, self.workload()) is None
        lost.stderr = (
            b"2026-11-24 11:00:00,000 benchlab on 127.0.0.1:25432: the database is lost: no answer\n"
            b"2026-11-24 11:00:01,000 benchlab on 127.0.0.1:25432: the database is back\n"
        )
        assert self.driver.failure(server, lost, self.workload()) == (
            "the application server lost the database: no answer"
        )

    def test_rules_are_those_of_the_standard(self, tmp_path):
        self.leave("paced", self.whole["paced"], tmp_path)
        rules = self.driver.rules(tmp_path, self.whole["paced"], "none were logged")
        assert dict(rules.schema) == RULES
        answers = dict(rules.select("check", "answer").iter_rows())
        assert answers["New-Order, shortest keying time"] == "broken"
        assert answers["throughput of a warehouse"] == "broken"
        assert answers["Deliveries that skipped a district"] == "kept"
        assert answers["New-Orders rolled back"] == "undecided"
        (tmp_path / "terminals-000001-000002.parquet").unlink()
        with pytest.raises(ParseError, match="no records"):
            self.driver.rules(tmp_path, self.whole["paced"], "none were logged")

    def test_what_stands_in_no_record_reaches_the_rules(self, tmp_path):
        self.leave("paced", self.whole["paced"], tmp_path)
        ramp_up = output.ramp_up([self.recorded("paced").decode()])
        begin_us = output.measured_part([self.recorded("paced").decode()]).begin_us
        assert ramp_up.begin_us < ramp_up.end_us == begin_us
        assert output.ramp_up([self.recorded("killed").decode()]) is None
        checkpoints = pl.DataFrame(
            {"begin_us": [ramp_up.begin_us, begin_us + 1], "end_us": [begin_us, begin_us + 2]}
        )
        (tmp_path / "cardinalities.json").write_text('{"warehouse": 2, "item": 99999}')
        rules = self.driver.rules(tmp_path, self.whole["paced"], checkpoints)
        answers = dict(rules.select("check", "answer").iter_rows())
        values = dict(rules.select("check", "value").iter_rows())
        assert values["mix and pacing in ramp-up, rules broken"] is not None
        assert answers["warehouse, rows before the run"] == "kept"
        assert answers["item, rows before the run"] == "broken"
        assert answers["stock, rows before the run"] == "undecided"
        assert values["checkpoints in the interval"] == 1
        assert answers["time between checkpoints"] == "kept"

    def test_rows_of_tables_that_are_none_are_told(self):
        with pytest.raises(ParseError, match="rows of the tables"):
            output.cardinalities(b'{"stock": "many"}')

    def test_times_are_those_of_every_transaction_that_ended_well(self, tmp_path):
        self.leave("paced", self.whole["paced"], tmp_path)
        times = self.driver.times(tmp_path, self.whole["paced"])
        assert dict(times.schema) == TIMES
        ended = self.driver.measured(tmp_path, self.whole["paced"]).operations["transactions"].sum()
        counts = dict(times.group_by("what").agg(pl.col("count").sum()).iter_rows())
        assert counts["keying"] == counts["think"] == counts["late"] == ended
        assert counts["menu"] <= ended
        keyed = times.filter(operation="new_order", what="keying")["time_us"]
        assert keyed.min() == 180_000  # a hundredth of 18 s
        assert times.filter(what="deferred")["operation"].unique().to_list() == ["delivery"]
        (tmp_path / "deliveries.jsonl").unlink()
        without = self.driver.times(tmp_path, self.whole["paced"])
        assert without.equals(times.filter(pl.col("what") != "deferred"))
        (tmp_path / "terminals-000001-000002.parquet").unlink()
        with pytest.raises(ParseError, match="no records"):
            self.driver.times(tmp_path, self.whole["paced"])

    def test_repeats_of_deferred_deliveries_count(self, tmp_path):
        self.leave("paced", self.whole["paced"], tmp_path)
        before = self.retries(tmp_path)
        path = tmp_path / "deliveries.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(f"{json.dumps(line | {'retries': 1})}\n" for line in lines))
        after = self.retries(tmp_path)
        inside = output.measured_part([self.recorded("paced").decode()]).has("queued_us")
        queued = len(output.deliveries(path.read_bytes()).filter(inside))
        assert after.pop("delivery") - before.pop("delivery") == queued > 0
        assert after == before

    def test_deliveries_that_were_acknowledged_and_not_done_are_errors(self, tmp_path):
        workload = self.whole["paced"]
        self.leave("paced", workload, tmp_path)
        before = self.driver.measured(tmp_path, workload)
        path = tmp_path / "deliveries.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(f"{json.dumps(line | {'error': 'a bug'})}\n" for line in lines))
        after = self.driver.measured(tmp_path, workload)
        inside = output.measured_part([self.recorded("paced").decode()]).has("queued_us")
        queued = len(output.deliveries(path.read_bytes()).filter(inside))
        counts = after.operations.filter(operation="delivery").select("transactions", "errors")
        done = before.operations.filter(operation="delivery")["transactions"].item()
        assert counts.row(0) == (done - min(queued, done), min(queued, done))
        assert after.totals.errors == counts["errors"].item() > 0
        assert after.totals.transactions == before.totals.transactions - after.totals.errors
        others = pl.col("operation") != "delivery"
        assert after.operations.filter(others).equals(before.operations.filter(others))

    def test_more_deliveries_not_done_than_the_workload_tolerates_are_a_failure(self):
        server, said = Process("was", [], serves=True), f"2026-11-30 11:00:00,000 {NOT_DONE}"
        workload = self.workload()  # tolerates a tenth
        few, many = (
            subprocess.CompletedProcess([], 0, b"", f"{said}{count} of 40 transactions\n".encode())
            for count in (4, 5)
        )
        assert self.driver.failure(server, few, workload) is None
        assert self.driver.failure(server, many, workload) == (
            "the application server did not do 5 deliveries that it had acknowledged, of 40"
            " transactions: more than the 10.0% that the workload tolerates; the reasons are in"
            " deliveries.jsonl"
        )

    def test_records_that_lack_a_column_of_later_ones_have_nulls_there(self, tmp_path):
        self.leave("paced", self.whole["paced"], tmp_path)
        (older,) = tmp_path.glob("*.parquet")
        assert "menu_late_us" not in pl.read_parquet_schema(older)
        found = output.records([older]).collect()
        assert dict(found.schema) == RECORDS
        assert found["menu_late_us"].null_count() == len(found)

    def retries(self, folder: Path) -> dict[str, int]:
        operations = self.driver.measured(folder, self.whole["paced"]).operations
        return dict(operations.select("operation", "retries").iter_rows())

    def test_records_of_another_shape_are_no_records(self, tmp_path):
        path = tmp_path / "terminals-000001-000002.parquet"
        pl.DataFrame({"type": ["payment"]}).write_parquet(path)
        with pytest.raises(ParseError, match="has the columns type"):
            output.records([path])

    def test_results_of_deliveries_that_are_none_are_told(self):
        with pytest.raises(ParseError, match="results of deliveries"):
            output.deliveries(b'{"w_id": 1}')


def test_every_driver_keeps_the_contract():
    tested = {one.name for one in DriverContract.__subclasses__()}
    assert tested == set(kinds.driver_names())
    assert [one.name for one in drivers.drivers()] == sorted(tested)


def test_an_unknown_driver_is_answered_with_the_choices():
    choices = ", ".join(kinds.driver_names())
    with pytest.raises(UnknownName, match=rf"unknown driver 'nosuch'.*: {choices}"):
        drivers.driver("nosuch")


def test_a_run_of_pgbench_is_stored_by_operation(checkout, batches, close_run, tmp_path):
    trial = batches()[0].trials[0]
    workload = TestPgbench.whole["scripts"]
    point = {"workload": workload, "workload_name": "mix", "dataset": PgbenchTables(scale=2)}
    TestPgbench().leave("scripts", workload, tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    close_run(
        trial=trial.model_copy(update={"point": trial.point.model_copy(update=point)}),
        **{name: content for name, content in CAPTURES.items() if name != "sysbench.out"},
        **files,
    )
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        (run,) = store.runs().to_dicts()
        assert (run["status"], run["transactions"], run["queries"]) == ("ok", 929, None)
        operations = store.table("operation", run["run_id"]).sort("operation")
        counts = operations.select("operation", "transactions", "errors", "retries").rows()
        assert counts == [("select-only", 834, 0, None), ("tpcb-like", 95, 0, None)]
        for table in ("interval", "latency_bucket"):
            rows = store.table(table, run["run_id"])
            assert set(rows["operation"]) == {"select-only", "tpcb-like"}
        assert rows["count"].sum() == 929
        assert len(store.table("attribution", run["run_id"])) > 1

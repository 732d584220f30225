"""Families of work and the flame graph, on stacks as recorded of each engine."""

from io import StringIO
from pathlib import Path

import altair as alt
import benchlab
import polars as pl
import pytest
from benchlab.observers import perf
from benchlab.repo import Repo
from benchlab.report import flame, sections
from benchlab.store import results
from conftest import ROOT

SCRIPT = (Path(__file__).parent / "data" / "perf" / "script.txt").read_text()

_BEGIN = "__libc_start_call_main;main;PostmasterMain;[postgres];PostgresMain;[postgres]"
_CALL = "entry_SYSCALL_64_after_hwframe;do_syscall_64"

_EXECUTED = (
    "do_command;dispatch_command;mysql_execute_command;Query_expression::ExecuteIteratorQuery"
)
_LOOKUP = "RefIterator<false>::DoRead;ha_innobase::index_read;row_search_mvcc"

_TIDB = "runtime.goexit.abi0;github.com/pingcap/tidb/server.(*clientConn)"
_RUN = "github.com/pingcap/tidb/executor"
_COMPILED = f"{_RUN}.CompileExecutePreparedStmt"
_CORE = "github.com/pingcap/tidb/planner"
_WRITE = f"net.(*conn).Write;internal/poll.(*FD).Write;syscall.Syscall.abi0;{_CALL};ksys_write"

#: First letters of a thread's name → engine; OceanBase has many of them.
_ENGINES = {
    "postgres": "postgres",
    **dict.fromkeys(("connecti", "ib_log_f"), "mysql"),
    "mariadbd": "mariadb",
    **dict.fromkeys(
        ("tidb-ser", "pd-serve", "unified-", "grpc-ser", "raftstor", "resource"), "tidb"
    ),
}

# recorded stacks, shortened in the middle; comm, stack → family, what decided it
RECORDED = [
    ("postgres", f"{_BEGIN};pg_parse_query;raw_parser;base_yyparse", flame.PARSE_PLAN),
    (
        "postgres",
        f"{_BEGIN};pg_plan_queries;standard_planner;subquery_planner;hash_search_with_hash_value",
        flame.PARSE_PLAN,
    ),
    ("postgres", f"{_BEGIN};PortalRun;[postgres];standard_ExecutorRun;palloc", flame.EXECUTOR),
    (
        "postgres",
        f"{_BEGIN};PortalRun;ExecScan;index_getnext_tid;btgettuple;_bt_first;_bt_compare",
        flame.BUFFER,
    ),
    (
        "postgres",
        f"{_BEGIN};PortalRun;ReadBufferExtended;[postgres];mdread;__libc_pread;{_CALL};__x64_sys_pread64;filemap_read",
        flame.BUFFER,
    ),
    (
        "postgres",
        f"{_BEGIN};CommitTransactionCommand;XLogFlush;fdatasync;{_CALL};__x64_sys_fdatasync",
        flame.LOG,
    ),
    ("postgres", f"{_BEGIN};CommitTransactionCommand;ProcReleaseLocks;LockReleaseAll", flame.LOCK),
    ("postgres", f"{_BEGIN};[postgres];__send;{_CALL};__x64_sys_sendto;tcp_sendmsg", flame.NETWORK),
    (
        "postgres",
        "main;PostmasterMain;AuxiliaryProcessMain;CheckpointerMain;CreateCheckPoint;mdwrite",
        flame.BACKGROUND,
    ),
    ("connection", f"{_EXECUTED};FilterIterator::DoRead;{_LOOKUP};rec_get_offsets", flame.BUFFER),
    ("connection", f"{_EXECUTED};{_LOOKUP};Buf_fetch_normal::get;ut_delay", flame.LOCK),
    (
        "connection",
        f"{_EXECUTED};{_LOOKUP};os_file_read_func;{_CALL};__x64_sys_pread64",
        flame.BUFFER,
    ),
    (
        "connection",
        f"{_EXECUTED};net_write_packet;{_CALL};__x64_sys_sendto;tcp_sendmsg",
        flame.NETWORK,
    ),
    ("connection", f"{_EXECUTED};NestedLoopIterator::DoRead;[mysqld]", flame.EXECUTOR),
    ("connection", "do_command;dispatch_command;THD::sql_parser;[mysqld]", flame.PARSE_PLAN),
    ("ib_log_files_g", "[libc.so.6];[mysqld]", flame.BACKGROUND),
    # what no function of MariaDB's is called
    ("mariadbd", "start_thread;[mariadbd];Relay_log_info::init;filesort;[mariadbd]", flame.SQL),
    ("mariadbd", f"start_thread;[mariadbd];filesort;{_CALL};__x64_sys_sendto", flame.NETWORK),
    ("T1_ReqWorker", "start_thread;[seekdb];[seekdb];__memmove_avx512_unaligned_erms", flame.SQL),
    ("T1_ReqWorker", f"start_thread;[seekdb];syscall;{_CALL};__x64_sys_futex;do_futex", flame.LOCK),
    ("T1_ReqWorker", f"[seekdb];syscall;{_CALL};__x64_sys_io_submit;iomap_dio_rw", flame.BUFFER),
    ("sql-nio-0", f"__send;{_CALL};__x64_sys_sendto;tcp_sendmsg", flame.NETWORK),
    ("T1_LogIOCB0", f"start_thread;[seekdb];syscall;{_CALL};__x64_sys_futex", flame.LOG),
    ("T1_DiskCB1", "start_thread;[seekdb];asm_exc_page_fault;exc_page_fault", flame.BUFFER),
    ("T1_MINI_MERGE", "start_thread;[seekdb]", flame.BACKGROUND),
    ("tidb-server", f"{_TIDB}.handleStmtExecute;{_COMPILED};{_CORE}.Optimize", flame.PARSE_PLAN),
    ("tidb-server", f"{_TIDB}.handleStmtExecute;{_RUN}.(*ExecStmt).SummaryStmt", flame.EXECUTOR),
    # newer sources are in a folder of their own
    ("tidb-server", f"{_TIDB}.x;github.com/pingcap/tidb/pkg/planner.Optimize", flame.PARSE_PLAN),
    (
        "tidb-server",
        f"{_RUN}.(*PointGetExecutor).get;github.com/tikv/client-go/v2/txnkv/txnsnapshot.(*KVSnapshot).get;"
        "runtime.mallocgc",
        flame.STORAGE_CLIENT,
    ),
    (
        "tidb-server",
        f"google.golang.org/grpc/internal/transport.(*loopyWriter).run;{_WRITE};tcp_sendmsg",
        flame.NETWORK,
    ),
    (
        "tidb-server",
        f"{_RUN}.(*ExecStmt).PointGet;github.com/tikv/client-go/v2/internal/unionstore.(*MemDB).Staging;"
        "sync.(*RWMutex).Lock",
        flame.LOCK,
    ),
    (
        "tidb-server",
        "runtime.goexit.abi0;runtime.gcBgMarkWorker;runtime.systemstack.abi0;runtime.gcDrain;"
        "runtime.scanobject",
        flame.GARBAGE,
    ),
    ("pd-server", f"runtime.goexit.abi0;{_WRITE};tcp_sendmsg", flame.TIMESTAMPS),
    ("unified-read-po", "[unknown];[unknown];__memmove_avx512_unaligned_erms", flame.BUFFER),
    ("grpc-server-0", f"[unknown];epoll_wait;{_CALL}", flame.NETWORK),
    ("raftstore-1-0", "[unknown];[unknown];alloc::vec::Vec<T,A>::is_empty", flame.LOG),
    ("resource-meteri", "__sched_yield", flame.BACKGROUND),
]


def frame(rows: list[tuple[str, str, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["comm", "stack", "samples"], orient="row")


@pytest.mark.parametrize(("comm", "stack", "family"), RECORDED)
def test_a_recorded_stack_is_of_its_family(comm, stack, family):
    engine = _ENGINES.get(comm[:8], "oceanbase")
    found = flame.of_engine(frame([(comm, stack, 3)]), engine)
    assert found.select("family", "samples").row(0) == (family, 3)
    assert found["function"][0]


def test_names_that_are_not_to_be_believed_are_not_shown():
    call = f"{_CALL};__x64_sys_sendto;tcp_sendmsg"
    stack = f"start_thread;[mariadbd];Relay_log_info::init;filesort;{call}"
    (found,) = flame.of_engine(frame([("mariadbd", stack, 1)]), "mariadb")["stack"]
    assert found == f"[mariadbd];{call}"


def test_only_the_engines_own_threads_count():
    stacks = perf.stacks(perf.fold(StringIO(SCRIPT)))
    assert flame.of_engine(stacks, "postgres")["samples"].sum() == 19  # of the recorded 48
    assert flame.of_engine(stacks, "oceanbase").is_empty()
    assert flame.of_engine(stacks, "nosuchengine").is_empty()


def test_top_functions_are_those_that_decided_most():
    stacks = frame(
        [
            ("postgres", f"{_BEGIN};raw_parser;base_yyparse", 8),
            ("postgres", f"{_BEGIN};raw_parser", 5),
            ("postgres", f"{_BEGIN};standard_planner", 1),
            ("postgres", f"{_BEGIN};parse_analyze", 4),
            ("postgres", f"{_BEGIN};XLogInsert", 2),
        ]
    )
    assert flame.top_functions(stacks, "postgres").rows() == [
        (flame.PARSE_PLAN, "base_yyparse", 0.4),
        (flame.PARSE_PLAN, "raw_parser", 0.25),
        (flame.PARSE_PLAN, "parse_analyze", 0.2),
        (flame.LOG, "XLogInsert", 0.1),
    ]


def test_boxes_lie_inside_the_one_above():
    stacks = perf.stacks(perf.fold(StringIO(SCRIPT)))
    chart = flame.flame(stacks, "postgres")
    boxes = chart.data
    assert boxes.filter(depth=1)["share"].sum() == pytest.approx(1)
    for box in boxes.iter_rows(named=True):
        assert 0 <= box["begin"] < box["end"] <= 1 + 1e-9
        above = boxes.filter(
            (pl.col("depth") == box["depth"] - 1)
            & (pl.col("begin") <= box["begin"] + 1e-9)
            & (pl.col("end") >= box["end"] - 1e-9)
        )
        assert box["depth"] == 1 or above.height == 1
    assert isinstance(chart, alt.LayerChart)
    assert not boxes["name"].str.contains("__x64_sys").any()


def test_nothing_sampled_is_an_empty_chart():
    nothing = perf.stacks("")
    assert flame.top_functions(nothing, "postgres").is_empty()
    assert flame.flame(nothing, "postgres").data.is_empty()


def test_an_engine_with_a_role_has_the_flame_graph_of_its_role():
    """PostgreSQL 15 stands beside the 13.4 under a name of its own."""
    repo = Repo(ROOT)
    with benchlab.open("reference") as lab:
        rerun = results.open_rerun(repo, lab, "spec_tree")
        assert rerun.study.role("postgres15") == "postgres"
        made, _ = sections.common(sections.Source(repo, rerun, None))
    shown = [one["engine"] for one in made.context["profiled"]]
    assert len(shown) == len(set(shown)) == 4
    assert not made.tables["functions-postgres15"].is_empty()
    assert not made.figures["flame-postgres15"].data.is_empty()

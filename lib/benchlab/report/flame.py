"""Where the engine's CPU time goes: sampled stacks by family of work, as a table and as a flame graph.

The innermost frame of a stack that matches a rule decides the family. The rules were written from
recorded stacks (perf 6.1) of PostgreSQL 15, MySQL 9.7, MariaDB 10.11, TiDB 6.0 with TiKV and PD, and
seekdb 1.4. seekdb ships without symbols, so only thread names and system calls distinguish the work of
its SQL threads. MariaDB's package names only exported functions, and perf shows the nearest of these
for every address. They are not the functions that ran, so all of them are shown as the program.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache

import altair as alt
import polars as pl

from benchlab.report import points
from benchlab.store.results import Rerun
from benchlab.study.resources import ENGINE_CPU

PARSE_PLAN = "parse, plan"
EXECUTOR = "executor"
SQL = "SQL, without symbols"
BUFFER = "buffer, page"
LOG = "log"
LOCK = "lock, latch"
STORAGE_CLIENT = "client of the storage"
TIMESTAMPS = "timestamps, placement"
GARBAGE = "garbage collection"
NETWORK = "network, system call"
BACKGROUND = "compaction, background"
OTHER = "other"

#: Families in the order of legends and tables.
FAMILIES = (
    PARSE_PLAN,
    EXECUTOR,
    SQL,
    STORAGE_CLIENT,
    TIMESTAMPS,
    BUFFER,
    LOG,
    LOCK,
    NETWORK,
    GARBAGE,
    BACKGROUND,
    OTHER,
)

#: Family → colour: dark to light and back, so that neighbours differ in print; none is an engine's.
_COLORS = dict(
    zip(
        FAMILIES,
        (
            *("#8c510a", "#d8b365", "#bf812d", "#f6e8c3", "#35978f", "#80cdc1", "#b2182b"),
            *("#542788", "#4393c3", "#b8a9d1", "#4d4d4d", "#d9d9d9"),
        ),
        strict=True,
    )
)

#: Shares of the CPU time: a box below the first is not drawn, one below the second has no name.
_DRAWN, _NAMED = 0.004, 0.06


@dataclass(frozen=True)
class Rules:
    """How an engine's stacks are classified; patterns match from the start of a name."""

    threads: str
    """Names of its processes or threads."""
    by_thread: tuple[tuple[str, str], ...]
    """(family, threads): threads whose work always belongs to that family."""
    by_frame: tuple[tuple[str, str], ...]
    """(family, functions); the more specific ones first."""
    otherwise: tuple[tuple[str, str], ...] = ()
    """(family, functions), for stacks that match none of ``by_frame``."""
    stripped: str | None = None
    """Name for all frames outside the kernel, if their recorded names are unreliable."""


#: System calls, for stacks without a known function of the engine.
_SYSTEM_CALLS = (
    (LOCK, r"(__x64_sys_futex|__GI___lll_lock|pthread_(mutex|cond|rwlock))"),
    (BUFFER, r"(__x64_sys_(io_submit|io_getevents|pread64|preadv)|iomap_dio_rw)"),
    (LOG, r"__x64_sys_(fdatasync|fsync|pwrite64|pwritev)"),
    (NETWORK, r"(__x64_sys_|__send|__libc_recv|epoll_wait|entry_SYSCALL_64)"),
)

#: Role of an engine → its rules; PostgreSQL 15 and 13.4 have the same role and the same rules.
RULES = {
    "postgres": Rules(
        threads=r"postgres",
        by_thread=(),
        by_frame=(
            (BACKGROUND, r"(CheckpointerMain|BackgroundWriterMain|WalWriterMain|AutoVac|do_exit)"),
            (LOG, r"(XLog|XLOG|GetXLog|issue_xlog)"),
            (
                LOCK,
                r"(LWLock|Lock(Acquire|Release|Relation|Tuple)|Proc(Sleep|ReleaseLocks|Lock)"
                r"|XactLock|s_lock|ConditionVariable|GetSnapshotData)",
            ),
            (
                BUFFER,
                r"(ReadBuffer|BufTable|Buffer|MarkBuffer|ReleaseBuffer|Strategy|smgr|md(read|write)"
                r"|File(Read|Write)|_bt_|bt(insert|gettuple|beginscan|rescan)|index_(fetch|getnext)"
                r"|heap(am)?_|Relation(Get|Put)(Buffer|Heap)|PageAdd|table_(tuple|index)|visibility)",
            ),
            (
                PARSE_PLAN,
                r"(raw_parser|base_yy|core_yy|pg_(parse|analyze|rewrite|plan)_|parse_analyze"
                r"|transform|QueryRewrite|standard_planner|subquery_planner|query_planner"
                r"|create_(plan|index_path|seqscan)|cost_|set_plan_ref|RevalidateCachedQuery)",
            ),
            (
                EXECUTOR,
                r"(Exec[A-Z]|tts_|slot_|printtup|tuplestore_|tuplehash_|standard_Executor|Portal(Run|Start|Drop|Cleanup)|ProcessQuery"
                r"|(Start|Commit)Transaction|CommitTransactionCommand|EndCommand)",
            ),
            (NETWORK, r"(pq_|secure_(read|write)|__send|__libc_recv|epoll_wait)"),
        ),
        otherwise=_SYSTEM_CALLS,
    ),
    "mysql": Rules(
        threads=r"(connection|ib_|mysqld)",
        by_thread=((BACKGROUND, r"ib_"),),
        by_frame=(
            (
                LOG,
                r"(log_(write|flush|buffer)|Log_|trx_(flush|write)|MYSQL_BIN_LOG|ordered_commit)",
            ),
            (LOCK, r"(ut_delay|lock_|rw_lock|mutex_|MDL_|sync_array|PolicyMutex|TTAS|lock::)"),
            (
                BUFFER,
                r"(row_(search|sel)|btr_|page_|rec_|cmp_d|buf_|buf::|Buf_|fil_|Fil_|os_file|mtr_"
                r"|ha_inno|handler::|hardware::crc32|temptable::|Partition_helper)",
            ),
            (
                NETWORK,
                r"(net_(write|read|send)|my_net|vio_|Protocol_classic|THD::send_result|__x64_sys_(send|recv))",
            ),
            (
                PARSE_PLAN,
                r"(my_sql_parser|THD::sql_parser|JOIN::(optimize|make)|Optimize_|Query_(block|expression)::"
                r"(prepare|optimize)|Sql_cmd_dml::prepare|open_tables|lock_tables|test_quick"
                r"|prune_partitions|get_(full_)?part|find_.*part)",
            ),
            (
                EXECUTOR,
                r"(Query_expression::[Ee]xecute|\w+(<\w+>)?::Do(Read|Init)|Item_|Field|Json_"
                r"|store_key|do_command|dispatch_|mysql_execute|cleanup_items|THD::)",
            ),
        ),
        otherwise=(*_SYSTEM_CALLS, (SQL, r"\[mysqld\]")),
    ),
    "mariadb": Rules(
        threads=r"mariadbd",
        by_thread=(),
        by_frame=(*_SYSTEM_CALLS, (SQL, r"\[mariadbd\]")),
        stripped="[mariadbd]",
    ),
    "tidb": Rules(
        threads=(
            r"(tidb-server|pd-server|tikv-server|unified-read|store-read|grpc-server|sched-|raftstore|apply-"
            r"|raft-|rocksdb|jemalloc_bg|timer|steady-timer|resource-meteri|pd-worker|transport-stats"
            r"|stats-monitor|background|gc-worker|gc-manager|split-check|cleanup-worker|region-collector"
            r"|debugger|deadlock|check_leader|waiter_manager|refresh-config|cdc|advance-ts)"
        ),
        by_thread=(
            (TIMESTAMPS, r"pd-server"),
            (BUFFER, r"(unified-read|store-read|sched-)"),
            (LOG, r"(raftstore|apply-|raft-)"),
            (NETWORK, r"grpc-server"),
            (BACKGROUND, r"(?!tidb-server)"),
        ),
        by_frame=(
            (
                GARBAGE,
                r"runtime\.(gc[A-Z]|scanobject|greyobject|findObject|markroot|(bg)?sweep|wbBufFlush)",
            ),
            (LOCK, r"(sync\.|runtime\.(lock2|unlock2|sema|futex))"),
            # the embedded store
            (BUFFER, r"github\.com/pingcap/(badger|tidb/(pkg/)?store/mockstore)"),
            (
                STORAGE_CLIENT,
                r"(github\.com/(tikv/client-go|tikv/pd|pingcap/kvproto"
                r"|pingcap/tidb/(pkg/)?(store|distsql))"
                r"|google\.golang\.org/grpc|golang\.org/x/net/http2)",
            ),
            (
                NETWORK,
                r"(internal/poll|net\.|syscall\.|bufio\.|github\.com/pingcap/tidb/(pkg/)?server\."
                r"(dump|\(\*(packetIO|bufferedReadConn|clientConn\)\.(flush|write|read))))",
            ),
            (
                PARSE_PLAN,
                r"github\.com/pingcap/tidb/(pkg/)?((parser|planner|statistics|infoschema|bindinfo)[/.]"
                r"|executor\.(Compile|\(\*executorBuilder|ResetContextOfStmt|\(\*ExecuteExec\)\.Build))",
            ),
            (EXECUTOR, r"github\.com/pingcap/"),
        ),
        otherwise=_SYSTEM_CALLS,
    ),
    "oceanbase": Rules(
        threads=r"(T1_|sql-nio|observer|seekdb|jemalloc_bg)",
        by_thread=(
            (NETWORK, r"sql-nio"),
            (LOG, r"T1_(LogIO|LogLoop|IO_SYNC|ApplySrv|OB_PLOG|ReplaySrv)"),
            (BUFFER, r"T1_(DiskCB|IOWorker|IO_GETEVENT)"),
            (BACKGROUND, r"(?!T1_ReqWorker)"),
        ),
        by_frame=(*_SYSTEM_CALLS, (SQL, r"(\[seekdb\]|start_thread)")),
    ),
}


def where_cpu_binds(rerun: Rerun, engine: str) -> pl.DataFrame:
    """Return the stacks of those runs that represent their points and that the engine's CPU bound.

    Columns: ``comm``, ``stack``, ``samples``.
    """
    bound = points.bound_by(rerun, rerun.metrics.filter(engine=engine)).filter(binding=ENGINE_CPU)
    return (
        rerun.of_runs("SELECT * FROM perf_stack SEMI JOIN chosen USING (run_id)", bound)
        .group_by("comm", "stack")
        .agg(pl.col("samples").sum())
        .sort("comm", "stack")
    )


def of_engine(stacks: pl.DataFrame, role: str) -> pl.DataFrame:
    """Return the stacks of an engine's own threads, with the family and the function that decided it.

    Args:
        stacks: rows of ``perf_stack``: ``comm``, ``stack``, ``samples``.
        role: of the engine, see :meth:`~benchlab.study.Study.role`; no stacks if it has no rules.

    Returns:
        ``comm``, ``stack``, ``samples``, ``family``, ``function``.
    """
    rules = RULES.get(role)
    own = stacks.filter(pl.col("comm").str.contains(f"^{rules.threads}") if rules else False)
    if rules and rules.stripped:
        own = own.with_columns(
            pl.col("stack").map_elements(
                lambda stack: _stripped(stack, rules.stripped), return_dtype=pl.String
            )
        )
    classified = [
        _classified(rules, comm, stack) for comm, stack in own.select("comm", "stack").iter_rows()
    ]
    return own.select("comm", "stack", "samples").with_columns(
        pl.Series("family", [family for family, _ in classified], dtype=pl.String),
        pl.Series("function", [function for _, function in classified], dtype=pl.String),
    )


def top_functions(stacks: pl.DataFrame, role: str) -> pl.DataFrame:
    """Return the three functions that decided most of each family: ``family``, ``function``, ``share``.

    A function's share of the engine's CPU time includes the functions it calls that match no rule.
    """
    return (
        of_engine(stacks, role)
        .group_by("family", "function")
        .agg(pl.col("samples").sum())
        .with_columns((pl.col("samples") / pl.col("samples").sum()).alias("share"))
        .sort(
            pl.col("family").cast(pl.Enum(FAMILIES)),
            "samples",
            "function",
            descending=[False, True, False],
        )
        .group_by("family", maintain_order=True)
        .head(3)
        .select("family", "function", "share")
    )


def flame(stacks: pl.DataFrame, role: str) -> alt.LayerChart:
    """Draw the engine's stacks from the outermost frame down; a box is as wide as its share.

    A box has the colour of the family of most of its samples. All frames of the kernel are one box.

    Args:
        stacks: rows of ``perf_stack`` of one or several runs.
        role: of the engine, see :meth:`~benchlab.study.Study.role`.
    """
    boxes = _boxes(of_engine(stacks, role))
    base = alt.Chart(boxes, width=680, height=alt.Step(15)).encode(
        y=alt.Y("depth:O", axis=None, scale=alt.Scale(padding=0.06)),
    )
    present = [family for family in FAMILIES if family in set(boxes["family"])]
    drawn = base.mark_rect(stroke="white", strokeWidth=0.5).encode(
        x=alt.X(
            "begin:Q",
            title="share of the engine's CPU time",
            axis=alt.Axis(format="%"),
            scale=alt.Scale(domain=[0, 1]),
        ),
        x2="end:Q",
        color=alt.Color(
            "family:N",
            title=None,
            scale=alt.Scale(domain=present, range=[_COLORS[family] for family in present]),
            legend=alt.Legend(symbolType="square", columns=4),
        ),
        tooltip=["name:N", "family:N", alt.Tooltip("share:Q", format=".1%")],
    )
    named = (
        base.transform_filter(alt.datum.share >= _NAMED)
        .transform_calculate(middle=(alt.datum.begin + alt.datum.end) / 2)
        .mark_text(fontSize=9, baseline="middle")
        .encode(
            x="middle:Q",
            text="short:N",
            color=alt.condition(
                alt.FieldOneOfPredicate("family", [SQL, EXECUTOR, BUFFER, OTHER]),
                alt.value("#222222"),
                alt.value("white"),
            ),
        )
    )
    return alt.layer(drawn, named).resolve_scale(color="independent")


def _stripped(stack: str, name: str) -> str:
    """Replace all frames before the kernel's by one name."""
    frames = stack.split(";")
    entered = next((n for n, frame in enumerate(frames) if _ENTRY.match(frame)), len(frames))
    return ";".join([name, *frames[entered:]])


@cache  # the chart, its table and the check for stacks all classify the same stacks
def _classified(rules: Rules, comm: str, stack: str) -> tuple[str, str]:
    for family, threads in rules.by_thread:
        if re.match(threads, comm):
            return family, f"thread {comm.rstrip('0123456789')}"
    frames = stack.split(";")
    # all work of a background process is background work, whatever it calls
    background = [rule for rule in rules.by_frame if rule[0] == BACKGROUND]
    for known, order in (
        (background, frames),
        (rules.by_frame, frames[::-1]),
        (rules.otherwise, frames[::-1]),
    ):
        for frame in order:
            for family, functions in known:
                if re.match(functions, frame):
                    return family, frame
    return OTHER, frames[-1] or comm


def _boxes(stacks: pl.DataFrame) -> pl.DataFrame:
    """Return one row per frame that is wide enough, with the columns of ``_BOX``."""
    total = stacks["samples"].sum()
    weights: dict[tuple[str, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for comm, stack, samples, family in stacks.select("comm", "stack", "samples", "family").rows():
        path = _shortened(comm, stack)
        for depth in range(1, len(path) + 1):
            weights[path[:depth]][family] += samples
    rows, ends = [], {(): 0.0}
    # outermost first, siblings in the order of their names, so that equal stacks have equal places
    for path in sorted(weights):
        share = sum(weights[path].values()) / total
        begin = ends[path[:-1]]
        ends[path[:-1]] = begin + share
        ends[path] = begin
        if share >= _DRAWN:
            room = int(share * 680 / 5.2)
            rows.append(
                {
                    "name": path[-1],
                    "short": path[-1] if len(path[-1]) <= room else path[-1][: room - 1] + "…",
                    "depth": len(path),
                    "begin": begin,
                    "end": begin + share,
                    "share": share,
                    "family": max(weights[path], key=weights[path].__getitem__),
                }
            )
    return pl.DataFrame(rows, schema=_BOX)


_BOX = {
    **dict.fromkeys(("name", "short"), pl.String),
    "depth": pl.Int64,
    **dict.fromkeys(("begin", "end", "share"), pl.Float64),
    "family": pl.String,
}

#: Frames at the start of every stack.
_OUTERMOST = ("main", "__libc_start_call_main", "PostmasterMain", "start_thread", "_start")
_ENTRY = re.compile(r"(entry_SYSCALL_64|asm_)")


def _shortened(comm: str, stack: str) -> tuple[str, ...]:
    """Return the frames that get a box: no outermost ones, no repeats, the kernel's as one."""
    path = [comm.rstrip("0123456789")]
    frames = stack.split(";") if stack else []
    for number, frame in enumerate(frames):
        if _ENTRY.match(frame):
            calls = [name for name in frames[number:] if name.startswith("__x64_sys_")]
            path.append(f"kernel: {calls[0].removeprefix('__x64_sys_') if calls else frame}")
            break
        if frame not in _OUTERMOST and frame != path[-1]:
            path.append(frame)
    return tuple(path)

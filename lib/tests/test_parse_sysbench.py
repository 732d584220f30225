"""sysbench's output. The recordings are of sysbench 1.0.20 (Debian 12) against PostgreSQL 15."""

from pathlib import Path

import polars as pl
import pytest
from benchlab.drivers.sysbench import output as sysbench_output
from benchlab.errors import ParseError
from hypothesis import given
from hypothesis import strategies as st

DATA = Path(__file__).parent / "data" / "sysbench"
RECORDINGS = sorted(DATA.glob("*.txt"))
COMPLETE = [
    *("oltp_write_only", "oltp_insert", "oltp_point_select", "rate", "ignored_errors", "warmed_up"),
]
BROKEN = ["server_killed", "client_killed", "connection_lost_mysql", "refused", "sql_error"]


def recorded(name: str) -> str:
    return (DATA / f"{name}.txt").read_text()


def test_intervals_of_a_write_workload():
    frame = sysbench_output.intervals(recorded("oltp_write_only"))
    assert frame.columns == [
        *("second", "threads", "tps", "qps", "read_qps", "write_qps", "other_qps"),
        *("latency_us", "percentile", "errors_per_s", "reconnects_per_s"),
    ]
    assert frame["second"].to_list() == [1, 2, 3, 4, 5]
    assert frame.row(0) == (
        *(1, 4, 2337.60, 14122.31, 0.0, 9350.41, 4771.90),
        *(8580.0, 99, 20.93, 0.0),
    )
    assert frame.row(4)[2:] == (639.12, 3851.75, 0.0, 2543.49, 1308.25, 10460.0, 99, 4.0, 0.0)


def test_an_interval_without_an_event_has_no_latency():
    frame = sysbench_output.intervals(recorded("ignored_errors"))
    assert frame["tps"].to_list() == [4.99, 0.0, 4.0, 1.0, 0.0]
    assert frame["latency_us"].to_list() == [4330.0, None, 2009230.0, 995510.0, None]
    assert frame["errors_per_s"].to_list() == [0.0, 1.0, 2.0, 2.0, 1.0]


def test_the_queue_lines_of_a_fixed_rate_are_no_intervals():
    frame = sysbench_output.intervals(recorded("rate"))
    assert frame["second"].to_list() == [1, 2, 3, 4, 5]
    assert frame["tps"].to_list()[:4] == [215.82, 226.00, 199.06, 174.97]


def test_summary():
    assert sysbench_output.summary(recorded("oltp_write_only")) == {
        "queries_read": 0,
        "queries_write": 33236,
        "queries_other": 16982,
        "queries_total": 50218,
        "transactions": 8310,
        "transactions_per_s": 1569.58,
        "queries": 50218,
        "queries_per_s": 9485.12,
        "ignored_errors": 90,
        "ignored_errors_per_s": 17.0,
        "reconnects": 0,
        "reconnects_per_s": 0.0,
        "total_time_s": 5.2941,
        "events": 8310,
        "latency_min_ms": 0.33,
        "latency_avg_ms": 2.54,
        "latency_max_ms": 1008.85,
        "percentile": 99,
        "latency_percentile_ms": 6.91,
        "latency_sum_ms": 21134.10,
        "thread_events_avg": 2077.5,
        "thread_events_stddev": 72.48,
        "thread_time_avg_s": 5.2835,
        "thread_time_stddev_s": 0.0,
    }


def test_summary_without_percentile():
    text = recorded("rate").replace(
        "        99th percentile:                        0.49",
        "         percentile stats:               disabled",
    )
    summary = sysbench_output.summary(text)
    assert summary["percentile"] is None
    assert summary["latency_percentile_ms"] is None
    assert summary["latency_sum_ms"] == 186.62


def test_histogram():
    frame = sysbench_output.histogram(recorded("ignored_errors"))
    assert frame.rows() == [
        *((755.0, 1), (2966.0, 1), (3187.0, 1), (3956.0, 1), (4028.0, 1), (4329.0, 1)),
        *((995508.0, 1), (2009233.0, 4), (2985887.0, 2), (5033352.0, 1)),
    ]


def test_histogram_joins_buckets_that_print_as_the_same_value():
    frame = sysbench_output.histogram(recorded("oltp_point_select"))
    assert frame.row(1) == (23.0, 989 + 1303 + 20720)
    assert frame["latency_us"].is_unique().all()


@pytest.mark.parametrize("name", COMPLETE)
def test_histogram_agrees_with_the_summary(name):
    histogram, summary = (
        sysbench_output.histogram(recorded(name)),
        sysbench_output.summary(recorded(name)),
    )
    assert histogram["count"].sum() == summary["events"]
    # the extremes lie in the outermost buckets; printed to 0.01 ms, and to 0.001 ms
    half = sysbench_output.BUCKET_RATIO**0.5
    for bucket, extreme in (
        (histogram["latency_us"][0], summary["latency_min_ms"] * 1000),
        (histogram["latency_us"][-1], summary["latency_max_ms"] * 1000),
    ):
        assert bucket / half - 5.5 <= extreme <= bucket * half + 5.5
    # the percentile is the value of the bucket that the sorted events reach it in
    reached = histogram.filter(
        pl.col("count").cum_sum() >= int(summary["events"] * summary["percentile"] / 100 + 0.5)
    )
    assert reached["latency_us"][0] == pytest.approx(
        summary["latency_percentile_ms"] * 1000, abs=5.5
    )


@pytest.mark.parametrize("name", BROKEN)
def test_a_run_that_did_not_end_has_neither_totals_nor_histogram(name):
    with pytest.raises(ParseError, match="SQL statistics"):
        sysbench_output.summary(recorded(name))
    with pytest.raises(ParseError, match="Latency histogram"):
        sysbench_output.histogram(recorded(name))


@pytest.mark.parametrize(
    ("name", "seconds"),
    [("server_killed", 3), ("client_killed", 3), ("connection_lost_mysql", 2), ("refused", 0)],
)
def test_a_run_that_did_not_end_keeps_its_intervals(name, seconds):
    assert sysbench_output.intervals(recorded(name)).height == seconds


def test_what_the_warm_up_of_connections_counted_is_subtracted():
    """80 of them ran a query for 3 s each before they began; MariaDB 10.11."""
    totals = sysbench_output.summary(recorded("warmed_up"))
    assert totals["queries_read"] == totals["queries"] == totals["transactions"] == 2581
    assert totals["queries_per_s"] == pytest.approx(totals["transactions_per_s"], rel=0.001)
    assert sysbench_output.histogram(recorded("warmed_up"))["count"].sum() == 2581
    first, second = sysbench_output.intervals(recorded("warmed_up")).head(2).to_dicts()
    assert (first["tps"], first["qps"], first["errors_per_s"]) == (511.08, None, None)
    assert (second["tps"], second["qps"], second["errors_per_s"]) == (513.1, 513.1, 0)


def test_checkpoints_reset_the_totals():
    with pytest.raises(ParseError, match=r"line 138: 2 times 'SQL statistics:', not once"):
        sysbench_output.summary(recorded("checkpoints"))


def test_errors():
    refused = sysbench_output.errors(recorded("refused"))
    assert len(refused) == 5
    assert refused[0] == (
        "FATAL: Connection to database failed: connection to server at"
        ' "127.0.0.1", port 55998 failed: Connection refused Is the server running on that host and'
        " accepting TCP/IP connections?"
    )
    assert refused[-1] == "FATAL: Thread initialization failed!"
    lost = sysbench_output.errors(recorded("connection_lost_mysql"))
    assert len(lost) == 4
    assert lost[0].endswith("for query 'DELETE FROM sbtest2 WHERE id=?'")
    absent = sysbench_output.errors(recorded("sql_error"))
    assert len(absent) == 4
    assert absent[0] == (
        'FATAL: PQprepare() failed: ERROR:  relation "sbtest3" does not exist'
        " LINE 1: UPDATE sbtest3 SET k=k+1 WHERE id=$1 (last message repeated 1 times)"
    )


@pytest.mark.parametrize("name", [*COMPLETE, "server_killed", "client_killed"])
def test_a_run_can_print_no_error(name):
    assert sysbench_output.errors(recorded(name)) == []


def test_a_run_that_printed_nothing_has_no_intervals_and_no_results():
    assert sysbench_output.intervals("").is_empty()
    for parse in (sysbench_output.summary, sysbench_output.histogram):
        with pytest.raises(ParseError, match="sysbench: line 1: the text is empty"):
            parse("")


@pytest.mark.parametrize("text", ["hello\n", "pgbench (15.1)\nprogress: 1.0 s\n"])
def test_text_of_another_program_is_refused(text):
    for parse in (sysbench_output.intervals, sysbench_output.summary, sysbench_output.histogram):
        with pytest.raises(ParseError, match="sysbench: line 1"):
            parse(text)


def test_a_changed_interval_line_is_refused():
    text = recorded("rate").replace("qps: 226.00", "qps: many")
    with pytest.raises(ParseError, match=r"sysbench: line 16: no interval: '\[ 2s \]"):
        sysbench_output.intervals(text)


def test_histogram_out_of_order_is_refused():
    text = recorded("ignored_errors").replace("       2.966 |", "       0.001 |")
    with pytest.raises(ParseError, match=r"line 21: bucket 0\.001 ms after a larger one"):
        sysbench_output.histogram(text)


hundredths = st.integers(0, 10**9).map(lambda n: n / 100)
interval_rows = st.tuples(
    *(st.integers(1, 10**5), st.integers(1, 10**4), hundredths, hundredths, hundredths),
    *(hundredths, hundredths, st.none() | st.integers(1, 10**7).map(lambda n: n * 10.0)),
    *(st.integers(0, 100), hundredths, hundredths),
)


def printed(row: tuple) -> str:
    second, threads, tps, qps, read, write, other, latency_us, percentile, errors, reconnects = row
    return (
        f"[ {second}s ] thds: {threads} tps: {tps:4.2f} qps: {qps:4.2f}"
        f" (r/w/o: {read:4.2f}/{write:4.2f}/{other:4.2f})"
        f" lat (ms,{percentile}%): {(latency_us or 0) / 1000:4.2f}"
        f" err/s: {errors:4.2f} reconn/s: {reconnects:4.2f}\n"
    )


@given(st.lists(interval_rows, max_size=5))
def test_intervals_are_read_as_printed(rows):
    text = "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n" + "".join(map(printed, rows))
    assert sysbench_output.intervals(text).rows() == rows


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
@given(data=st.data())
def test_a_cut_text_gives_fewer_rows_or_an_error(path, data):
    content = path.read_bytes()
    cut = content[: data.draw(st.integers(0, len(content)))].decode(errors="replace")
    whole = sysbench_output.intervals(content.decode())
    found = sysbench_output.intervals(cut)
    assert found.equals(whole.head(found.height))
    sysbench_output.errors(cut)
    for parse in (sysbench_output.summary, sysbench_output.histogram):
        try:
            found = parse(cut)
        except ParseError:
            continue
        if parse is sysbench_output.summary and path.stem != "checkpoints":
            assert found == sysbench_output.summary(content.decode())
        elif parse is sysbench_output.histogram:
            assert found.equals(sysbench_output.histogram(content.decode()))

"""pgbench's output and log. The recordings are of pgbench 15.18 (Debian 12) against PostgreSQL 15."""

import re
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from benchlab.drivers.pgbench import output
from benchlab.errors import ParseError
from conftest import DATA
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

RECORDINGS = sorted((DATA / "pgbench").glob("*.txt"))
COMPLETE = ["one_script", "scripts", "files", "failures", "deadlocks", "transactions"]
BROKEN = ["server_killed", "client_killed", "refused", "password", "sql_error"]

#: Log → whether it has lags, whether it has retries.
LOGS = {
    "one_script": (False, False),
    "scripts": (True, False),
    "files": (False, True),
    "failures": (True, False),
    "deadlocks": (True, True),
    "transactions": (False, False),
    "server_killed": (False, False),
    "client_killed": (False, False),
}
SCRIPTS = ("first", "second")


def recorded(name: str) -> str:
    return (DATA / "pgbench" / f"{name}.txt").read_text()


def logged(content: bytes, name: str, folder: Path) -> pl.DataFrame:
    """Rows of a log as they come back from the file in which they are kept."""
    path, kept = folder / "log", folder / "kept.parquet"
    path.write_bytes(content)
    output.write_transactions(output.transactions([path], SCRIPTS, *LOGS[name]), kept)
    return pl.read_parquet(kept)


def test_progress():
    assert output.progress(recorded("files")).rows() == [
        (1, 830.0, 4453.0, 33),
        (2, 920.0, 4286.0, 25),
        (3, 960.0, 4078.0, 36),
    ]


def test_a_second_without_a_transaction_has_no_latency():
    line = "progress: 1795342770.229 s, 0.0 tps, lat 0.000 ms stddev 0.000, 0 failed\n"
    assert output.progress(f"pgbench (15.18)\n{line}").rows() == [(1, 0.0, None, 0)]


@pytest.mark.parametrize("deviation", ["NaN", "-nan"])
def test_a_second_with_one_transaction_may_have_no_deviation(deviation):
    """It is the root of a difference, which rounding may make negative."""
    text = re.sub(r"stddev \d+\.\d+", f"stddev {deviation}", recorded("files"))
    assert output.progress(text).equals(output.progress(recorded("files")))


def test_results():
    assert output.results(recorded("deadlocks")) == {
        "transactions": 449,
        "failed": 8,
        "connecting_ms": 38.821,
        "tps": 151.647332,
        "duration_s": 3,
        "retries": 28,
    }
    by_number = output.results(recorded("transactions"))
    assert (by_number["transactions"], "duration_s" in by_number) == (1000, False)


@pytest.mark.parametrize("name", BROKEN)
def test_a_run_that_did_not_end_has_no_results(name):
    with pytest.raises(ParseError, match=r"pgbench: line \d+: (the run was aborted|the results)"):
        output.results(recorded(name))


@pytest.mark.parametrize(
    ("name", "seconds"), [("server_killed", 2), ("client_killed", 2), ("refused", 0)]
)
def test_a_run_that_did_not_end_keeps_its_progress(name, seconds):
    assert output.progress(recorded(name)).height == seconds


def test_errors():
    (first, second, aborted) = output.errors(recorded("sql_error"))
    assert first == (
        'client 0 script 0 aborted in command 0 query 0: ERROR:  relation "nowhere" does not exist'
        " LINE 1: SELECT absent FROM nowhere;"
    )
    assert second.startswith("client 1 ")
    assert aborted == "Run was aborted; the above results are incomplete."
    assert output.errors(recorded("refused")) == [
        'connection to server at "127.0.0.1", port 45992 failed: Connection refused'
        " Is the server running on that host and accepting TCP/IP connections?",
        "could not create connection for setup",
    ]


@pytest.mark.parametrize("name", [*COMPLETE, "client_killed"])
def test_a_run_can_print_no_error(name):
    assert output.errors(recorded(name)) == []


def test_a_run_that_printed_nothing_has_no_progress_and_no_results():
    assert output.progress("").is_empty()
    with pytest.raises(ParseError, match="pgbench: line 1: the text is empty"):
        output.results("")


@pytest.mark.parametrize("text", ["hello\n", "sysbench 1.0.20\n"])
def test_text_of_another_program_is_refused(text):
    for parse in (output.progress, output.results):
        with pytest.raises(ParseError, match="pgbench: line 1"):
            parse(text)


def test_a_changed_progress_line_is_refused():
    text = recorded("one_script").replace("629.0 tps", "many tps")
    with pytest.raises(ParseError, match=r"pgbench: line 4: no progress: 'progress: 1795342771"):
        output.progress(text)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
@given(data=st.data())
def test_a_cut_text_gives_fewer_rows_or_an_error(path, data):
    content = path.read_bytes()
    cut = content[: data.draw(st.integers(0, len(content)))].decode(errors="replace")
    whole = output.progress(content.decode())
    found = output.progress(cut)
    assert found.equals(whole.head(found.height))
    output.errors(cut)
    with suppress(ParseError):
        of_run = output.results(cut)
        assert path.stem not in COMPLETE or of_run == output.results(content.decode())


# The log of every transaction


def test_the_log_of_a_rate_with_tries(tmp_path):
    frame = logged((DATA / "pgbench" / "deadlocks.log").read_bytes(), "deadlocks", tmp_path)
    assert dict(frame.schema) == output.TRANSACTIONS
    assert frame.row(0) == (0, 1, "first", 1795342970644098, 9632, "ok", 82, 0)
    assert frame["outcome"].value_counts().sort("outcome").rows() == [("deadlock", 8), ("ok", 449)]
    assert frame["retries"].sum() == 28
    assert frame.filter(outcome="deadlock")["latency_us"].null_count() == 8


@pytest.mark.parametrize("name", COMPLETE)
def test_the_log_agrees_with_the_results(name, tmp_path):
    frame = logged((DATA / "pgbench" / f"{name}.log").read_bytes(), name, tmp_path)
    results = output.results(recorded(name))
    assert (frame["outcome"] == "ok").sum() == results["transactions"]
    assert (frame["outcome"] != "ok").sum() == results["failed"]
    assert frame["retries"].sum() == results.get("retries", 0)
    (average,) = (
        float(line.split()[3])
        for line in recorded(name).splitlines()
        if line.startswith("latency average = ")
    )
    assert frame["latency_us"].mean() == pytest.approx(average * 1000, abs=0.5)
    # a client's transactions follow each other
    lags = frame["lag_us"].fill_null(0)
    frame = frame.with_columns(began=pl.col("ended_us") - pl.col("latency_us") + lags)
    for _, of_client in frame.filter(outcome="ok").group_by("client"):
        in_order = of_client.sort("number")
        assert in_order["number"].is_unique().all()
        overlap = in_order["ended_us"].shift(1) - in_order["began"]
        assert (overlap.drop_nulls() <= 1).all()


def test_files_of_several_threads_are_one_log(tmp_path):
    content = (DATA / "pgbench" / "one_script.log").read_bytes()
    middle = content.index(b"\n", len(content) // 2) + 1
    paths = [tmp_path / "0", tmp_path / "1", tmp_path / "2"]
    for path, part in zip(paths, (content[:middle], content[middle:], b""), strict=True):
        path.write_bytes(part)
    apart = output.transactions(paths, SCRIPTS, rated=False, retried=False).collect()
    assert apart.equals(logged(content, "one_script", tmp_path))


@pytest.mark.parametrize(
    "line", [b"0 1 hello 0 1795342970 644098\n", b"0 1 12 7 1795342970 644098\n", b"hello\n"]
)
def test_a_line_that_is_no_transaction_is_refused(line, tmp_path):
    with pytest.raises(ParseError, match="pgbench: the log of transactions: "):
        logged(line, "one_script", tmp_path)
    assert not (tmp_path / "kept.parquet").exists()


@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_cut_log_gives_its_whole_lines(name, data, tmp_path):
    content = (DATA / "pgbench" / f"{name}.log").read_bytes()
    cut = content[: data.draw(st.integers(0, len(content)))]
    whole = logged(content, name, tmp_path)
    assert logged(cut, name, tmp_path).equals(whole.head(cut.count(b"\n")))

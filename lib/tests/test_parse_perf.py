"""perf's stacks: recorded with perf 6.1 on a virtual machine while sysbench wrote to PostgreSQL."""

from collections import Counter
from io import StringIO
from pathlib import Path

import polars as pl
import pytest
from benchlab.errors import ParseError
from benchlab.observers import perf
from hypothesis import given
from hypothesis import strategies as st

SCRIPT = (Path(__file__).parent / "data" / "perf" / "script.txt").read_text()


def fold(script: str, **measured: float) -> str:
    return perf.fold(StringIO(script), **measured)


def test_every_sample_is_counted():
    frame = perf.stacks(fold(SCRIPT))
    assert frame.schema == {"comm": pl.String, "stack": pl.String, "samples": pl.Int64}
    counts = frame.group_by("comm").agg(pl.col("samples").sum())
    assert dict(counts.rows()) == {"postgres": 19, "swapper": 21, "sysbench": 7, "two words 7": 1}


def test_the_first_samples():
    folded = fold("\n".join(SCRIPT.split("\n")[:23]) + "\n\n")
    assert folded.split("\n") == [
        "postgres;__libc_start_call_main;main;PostmasterMain;[postgres];PostgresMain;[postgres];"
        "[postgres];__send 1",
        "swapper;common_startup_64;x86_64_start_kernel;__pfx_clear_bss;start_kernel;rest_init;"
        "cpu_startup_entry;do_idle;cpuidle_enter;cpuidle_enter_state;default_enter_idle;"
        "default_idle;pv_native_safe_halt 1",
        "",
    ]


HEAD = "x y  1/1  [000]  1.5: cpu-clock: \n"


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ("ff std::pair<int, int> (*f)(int) (/a b/c.so)", "std::pair<int, int> (*f)(int)"),
        ("ff [unknown] (/memfd:x (deleted))", "[memfd:x (deleted)]"),
        ("ff [unknown] ([vdso])", "[vdso]"),
        ("ff [unknown] ([unknown])", "[unknown]"),
        ("ff f (inlined)", "f"),
        ("ff a;b (/c)", "a:b"),
    ],
)
def test_frames(frame, name):
    assert fold(f"{HEAD}\t{frame}\n\n") == f"x y;{name} 1\n"


def test_a_sample_without_frames_counts_for_its_command():
    folded = fold(f"{HEAD}\n{HEAD}\n")
    assert folded == "x y 2\n"
    assert perf.stacks(folded).rows() == [("x y", "", 2)]


def test_only_samples_of_the_measured_part_count():
    times = [
        float(line.split("]")[1].split(":")[0])
        for line in SCRIPT.split("\n")
        if "cpu-clock" in line
    ]
    begin, end = times[3], times[-4]
    folded = fold(SCRIPT, begin=begin, end=end)
    wanted = sum(begin <= t <= end for t in times)
    assert 0 < wanted < len(times)
    assert perf.stacks(folded)["samples"].sum() == wanted


def test_nothing_recorded():
    assert fold("") == ""
    assert perf.stacks("").is_empty()


def test_other_text_is_refused():
    with pytest.raises(ParseError, match="perf script: line 1: no sample: 'hello'"):
        fold("hello\n")
    with pytest.raises(ParseError, match="perf script: line 2: no frame"):
        fold(HEAD + "hello\n\n")
    with pytest.raises(ParseError, match="perf script: line 2: cut in the middle of the line"):
        fold(HEAD + "\tff f (/c)")
    with pytest.raises(ParseError, match="perf script: line 2: cut in the middle of a sample"):
        fold(HEAD + "\tff f (/c)\n")
    with pytest.raises(ParseError, match="folded stacks: line 1: no stack"):
        perf.stacks("hello\n")


names = st.text(
    st.characters(blacklist_categories=["Cs", "Cc", "Z"], blacklist_characters=";"),
    min_size=1,
)


@given(
    st.dictionaries(
        st.tuples(names, st.lists(names, max_size=4).map(";".join)),
        st.integers(1, 10**6),
        max_size=5,
    )
)
def test_stacks_are_read_as_folded(stacks):
    text = "".join(
        f"{comm};{stack} {count}\n" if stack else f"{comm} {count}\n"
        for (comm, stack), count in stacks.items()
    )
    found = {(comm, stack): count for comm, stack, count in perf.stacks(text).rows()}
    assert found == stacks


def counted(folded: str) -> Counter:
    rows = perf.stacks(folded).rows()
    return Counter({(comm, stack): samples for comm, stack, samples in rows})


@given(st.integers(0, len(SCRIPT)))
def test_a_cut_script_gives_its_whole_samples_or_an_error(end):
    try:
        found = counted(fold(SCRIPT[:end]))
    except ParseError:
        return
    assert found <= counted(fold(SCRIPT))
    assert found.total() == SCRIPT[:end].count("\n\n")


@given(st.data())
def test_cut_folded_stacks_give_their_whole_lines_or_an_error(data):
    folded = fold(SCRIPT)
    end = data.draw(st.integers(1, len(folded)))
    whole = perf.stacks(folded)
    try:
        found = perf.stacks(folded[:end])
    except ParseError:
        assert folded[end - 1] != "\n"
        return
    assert found.equals(whole.head(found.height))

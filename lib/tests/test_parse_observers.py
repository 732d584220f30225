"""The observers' captures, recorded while sysbench wrote to PostgreSQL 15 on two CPUs.

procps 4.0.2. ``killed`` files are of programs ended by SIGKILL. ``perf`` keeps the lines of the
benchmark's own processes and a few of the kernel's; ``two words 7`` is a process of that name.
``sample`` holds the counters of the root groups, in the agent's form.
"""

import json
from pathlib import Path

import polars as pl
import pytest
from benchlab.errors import ParseError
from benchlab.observers import OBSERVERS, sample, vmstat
from hypothesis import given
from hypothesis import strategies as st

DATA = Path(__file__).parent / "data"
CAPTURES = {
    "vmstat/killed.txt": vmstat,
    "sample/whole.jsonl": sample,
}


def recorded(name: str) -> str:
    return (DATA / name).read_text()


def value(frame: pl.DataFrame, t: float, subject: str, metric: str) -> float:
    return frame.filter(t=t, subject=subject, metric=metric)["value"].item()


@pytest.mark.parametrize(("name", "module"), CAPTURES.items())
def test_rows_fit_the_store(name, module):
    frame = module.samples(recorded(name))
    assert frame.schema == {
        "t": pl.Float64,
        "observer": pl.String,
        "subject": pl.String,
        "metric": pl.String,
        "value": pl.Float64,
    }
    assert frame["observer"].unique().to_list() == [name.split("/")[0]]
    assert frame.null_count().sum_horizontal().item() == 0
    assert frame.select("t", "subject", "metric").is_unique().all()


@pytest.mark.parametrize("module", OBSERVERS.values())
def test_commands_give_unambiguous_timestamps(module):
    assert module.ENVIRONMENT["TZ"] == "UTC"
    assert module.ENVIRONMENT["LC_ALL"] == "C"
    assert all(isinstance(argument, str) for argument in module.COMMAND)


@pytest.mark.parametrize(("name", "module"), CAPTURES.items())
@given(data=st.data())
def test_a_cut_capture_gives_its_whole_samples(name, module, data):
    content = (DATA / name).read_bytes()
    cut = content[: data.draw(st.integers(0, len(content)))].decode(errors="replace")
    whole = module.samples(content.decode())
    found = module.samples(cut)
    assert found.equals(whole.head(found.height))


@pytest.mark.parametrize("module", dict.fromkeys(CAPTURES.values()))
@given(text=st.text())
def test_any_other_text_is_refused(module, text):
    with pytest.raises(ParseError):
        module.samples(text + "\n?\n")


# 2026-11-21T01:08:51Z
T = 1795223331.0


def test_vmstat_leaves_out_the_means_since_boot():
    frame = vmstat.samples(recorded("vmstat/killed.txt"))
    assert frame["t"].unique().sort().to_list() == [T, T + 1, T + 2, T + 3]
    assert frame.height == 4 * 18
    assert value(frame, T, "all", "runnable_processes") == 17
    assert value(frame, T, "all", "memory_free_bytes") == 22139428 * 1024
    assert value(frame, T, "all", "write_bytes_per_s") == 50852 * 1024
    assert value(frame, T + 2, "all", "context_switches_per_s") == 55278
    assert value(frame, T + 3, "all", "idle_percent") == 34


def test_vmstat_in_another_time_zone_is_refused():
    with pytest.raises(ParseError, match="vmstat: line 2: no head of vmstat -t in UTC"):
        vmstat.samples(recorded("vmstat/killed.txt").replace("UTC", "CET"))


def test_vmstat_with_a_missing_field_is_refused():
    with pytest.raises(ParseError, match="vmstat: line 5: 19 fields, not 20"):
        vmstat.samples(recorded("vmstat/killed.txt").replace(" 17380 ", " "))


def test_sample():
    frame = sample.samples(recorded("sample/whole.jsonl"))
    t = frame["t"].unique().sort()
    assert t[0] == 1795223897.8921354
    assert t.len() == 5
    # the first line has no line before it: sizes only
    assert frame.filter(t=t[0])["metric"].unique().to_list() == ["memory_bytes"]
    seconds = 1795223898.8935964 - 1795223897.8921354
    assert value(frame, t[1], "engine", "cpu_us_per_s") == 1200532 / seconds
    assert value(frame, t[1], "disk", "writes_per_s") == 1193 / seconds
    assert value(frame, t[1], "disk", "write_bytes_per_s") == 6631424 / seconds
    assert value(frame, t[1], "psi io", "some_us_per_s") == 179967 / seconds
    assert value(frame, t[4], "engine", "memory_bytes") == 2274050048


def sample_lines(*lines: dict) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_sample_has_no_rate_over_a_counter_that_went_back():
    text = sample_lines(
        *({"t": 1, "cpu": {"engine": 100}}, {"t": 2, "cpu": {"engine": 40}}),
        {"t": 4, "cpu": {"engine": 100}},
    )
    assert sample.samples(text).rows() == [(4.0, "sample", "engine", "cpu_us_per_s", 30.0)]


def test_sample_without_disk_pressure_or_limit():
    nothing = {"disk": None, "psi": None, "memory": {"limit_bytes": None}}
    text = sample_lines({"header": {"device": None}}, {"t": 1, **nothing}, {"t": 2, **nothing})
    assert sample.samples(text).is_empty()


def test_sample_has_the_cpu_time_of_each_service():
    ticks = ({"t": t, "services": {"tikv": 10 + 5 * t, "tidb": 9}} for t in (1, 2))
    assert sample.samples(sample_lines(*ticks)).select("subject", "metric", "value").rows() == [
        ("engine tikv", "cpu_us_per_s", 5.0),
        ("engine tidb", "cpu_us_per_s", 0.0),
    ]


def test_sample_names_an_unknown_counter():
    with pytest.raises(ParseError, match="line 1: unknown counters: cpu bogus; known: cpu engine"):
        sample.samples(sample_lines({"t": 1, "cpu": {"bogus": 1}}))


def test_sample_with_a_clock_that_went_back_is_refused():
    with pytest.raises(ParseError, match=r"line 2: t = 1\.0 is not after 2\.0"):
        sample.samples(sample_lines({"t": 2}, {"t": 1}))


@given(
    start=st.integers(0, 2**60),
    steps=st.lists(st.integers(0, 2**40), min_size=1, max_size=10),
)
def test_sample_rates_add_up_to_the_counter(start, steps):
    counter, lines = start, [{"t": 0, "disk": {"write_bytes": start}}]
    for second, step in enumerate(steps, start=1):
        counter += step
        lines.append({"t": second, "disk": {"write_bytes": counter}})
    total = sample.samples(sample_lines(*lines))["value"].sum()
    # counters above 2**53 lose their last bits as floats
    assert total == pytest.approx(sum(steps), abs=256 * len(steps))

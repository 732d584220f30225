"""Attribution by evidence, on runs made so that it is known what bound them."""

from collections import Counter

import polars as pl
import pytest
from benchlab import attribution
from benchlab.attribution import binding
from benchlab.report.theme import RESOURCE_COLORS
from benchlab.study.resources import NONE, RESOURCES, UNKNOWN
from hypothesis import given
from hypothesis import strategies as st

BEGIN, SECONDS = 1000.0, 10

LIMITS = {
    "limit_cores": 2.0,
    "limit_write_bytes_per_s": 35_000_000,
    "limit_read_bytes_per_s": 35_000_000,
    "limit_write_iops": 2400,
    "limit_read_iops": 2400,
}

# resource → where the agent counts it, and its limit in the sample's unit
SAMPLED = {
    "disk write bandwidth": ("disk", "write_bytes_per_s", 35e6),
    "disk write IOPS": ("disk", "writes_per_s", 2400),
    "disk read bandwidth": ("disk", "read_bytes_per_s", 35e6),
    "disk read IOPS": ("disk", "reads_per_s", 2400),
    "CPU of the engine": ("engine", "cpu_us_per_s", 2e6),
    "CPU of the client": ("client", "cpu_us_per_s", 2e6),
    "memory": ("psi memory", "some_us_per_s", 1e6),
}
DISK = [name for name in SAMPLED if name.startswith("disk")]
IDLE = dict.fromkeys(SAMPLED, 0.1)

#: Eight clients that all wait for an answer of 8 ms.
LOAD = {"concurrency": 8, "tps": 1000.0, "latency_mean_us": 8000.0}


#: One machine alone; a load on a node of its own; and what has further nodes.
ALONE = {"one": ("db.primary", "load")}
APART = {"db1": ("db.primary",), "load1": ("load",)}
MANY = APART | {"db2": ("db.standby",), "load2": ("load",)}


def attribute(
    tables: dict[str, pl.DataFrame],
    nodes: dict[str, tuple[str, ...]] = ALONE,
    is_served: bool = False,
) -> pl.DataFrame:
    """Attribute a run on these nodes; samples that name none are the client's or the engine's first."""
    roles = [{"node": node, "role": role} for node, had in nodes.items() for role in had]
    tables = {"node": pl.DataFrame(roles)} | tables
    for name in {"os_sample", "host"} & tables.keys():
        first, last = next(iter(nodes)), list(nodes)[min(1, len(nodes) - 1)]
        of_client = pl.col("subject" if name == "os_sample" else "fact") == "client"
        if "node" not in tables[name].columns:
            node = pl.when(of_client).then(pl.lit(last)).otherwise(pl.lit(first)).alias("node")
            tables[name] = tables[name].with_columns(node)
    return attribution.attribute(tables, is_served)


def run(**columns) -> pl.DataFrame:
    times = {"measure_begin": BEGIN, "measure_end": BEGIN + SECONDS}
    return pl.DataFrame([times | LIMITS | LOAD | columns])


def sample(subject: str, metric: str, values: list[float], begin: float = BEGIN) -> pl.DataFrame:
    """One value a second."""
    rows = [(begin + 1 + n, "sample", subject, metric, value) for n, value in enumerate(values)]
    return pl.DataFrame(rows, schema=["t", "observer", "subject", "metric", "value"], orient="row")


def samples(used: dict[str, float | list[float]], begin: float = BEGIN) -> pl.DataFrame:
    """A row a second for each resource; ``used`` is its share of the limit, or one per second."""
    frames = []
    for name, share in used.items():
        subject, metric, limit = SAMPLED[name]
        shares = [share] * SECONDS if isinstance(share, float) else share
        frames.append(sample(subject, metric, [limit * one for one in shares], begin))
    return pl.concat(frames)


def waits(**sessions: int) -> pl.DataFrame:
    """Two samples a second: wait class → sessions."""
    return pl.DataFrame(
        [
            {"t": BEGIN + sample / 2, "wait_class": name, "wait": name, "sessions": number}
            for sample in range(1, 2 * SECONDS)
            for name, number in sessions.items()
        ]
    )


def bound(used: dict | None = None, sessions: dict | None = None, **of_run) -> dict:
    """The row of the resource that binds; empty if none does."""
    tables = {"run": run(**of_run), "os_sample": samples(IDLE | (used or {}))}
    if sessions:
        tables["engine_wait"] = waits(**sessions)
    rows = attribute(tables).filter("binds").rows(named=True)
    assert len(rows) <= 1
    return rows[0] if rows else {}


def attributed(used: dict, nodes: dict = ALONE, **of_run) -> dict[str, dict]:
    frame = attribute({"run": run(**of_run), "os_sample": samples(used)}, nodes)
    return {row["resource"]: row for row in frame.iter_rows(named=True)}


@pytest.mark.parametrize("resource", SAMPLED)
def test_what_is_used_up_binds(resource):
    tables = {"run": run(), "os_sample": samples(IDLE | {resource: 0.97})}
    frame = attribute(tables | {"engine_wait": waits(cpu=2, client=2, data=2, log=2)})
    assert binding(frame) == resource
    row = frame.row(by_predicate=pl.col("resource") == resource, named=True)
    assert row["utilisation"] == pytest.approx(0.97)
    assert (row["at_limit_share"], row["share"], row["confidence"]) == (1, 1, 1)
    assert "97 %" in row["evidence"]
    assert {*RESOURCES} - {*frame["resource"]} == {"application server"}
    assert frame["share"].sum() == pytest.approx(1)


def test_evidence_is_in_the_limits_own_unit():
    found = attributed(IDLE | {"disk write bandwidth": 0.96})
    said = found["disk write bandwidth"]["evidence"]
    assert said.startswith("disk writes averaged 33.6 MB/s of 35.0 MB/s (96 %), used up in 100 %")
    assert "next disk write IOPS at 10 %" in said or "next CPU of the engine at 20 %" in said
    found = {name: row["evidence"] for name, row in found.items()}
    assert "averaged 240 /s of 2,400 /s (10 %)" in found["disk read IOPS"]
    assert "averaged 0.20 cores of 2.00 cores (10 %)" in found["CPU of the engine"]
    assert "tasks were stalled for lack of memory in 10 % of the time" in found["memory"]


def test_bursts_that_leave_the_disk_idle_do_not_bind():
    burst = [1.0, 0.0] * (SECONDS // 2)
    found = attributed(IDLE | {"disk write bandwidth": burst})["disk write bandwidth"]
    assert not found["binds"]
    assert found["at_limit_share"] == 0.5


def test_what_binds_in_turn_is_reported_by_shares():
    used = {
        "disk write bandwidth": [1.0] * 6 + [0.1] * 4,
        "CPU of the engine": [0.1] * 6 + [0.95] * 4,
    }
    found = attributed(IDLE | used)
    assert found["disk write bandwidth"]["binds"]
    assert found["disk write bandwidth"]["share"] == pytest.approx(0.6, abs=0.11)
    assert found["CPU of the engine"]["share"] == pytest.approx(0.4, abs=0.11)
    assert "bound in turn: disk write bandwidth" in found["disk write bandwidth"]["evidence"]


def test_a_resource_that_hovers_at_the_threshold_binds_throughout():
    hovering = [0.93, 0.93, 0.88, 0.87, 0.89, 0.93, 0.88, 0.87, 0.88, 0.89]
    assert bound({"disk read IOPS": hovering})["share"] == 1


@pytest.mark.parametrize("larger", ["engine", "client"])
def test_on_one_host_engine_and_client_share_the_cpu(larger):
    smaller = {"engine": "client", "client": "engine"}[larger]
    used = IDLE | {f"CPU of the {larger}": 0.6, f"CPU of the {smaller}": 0.35}
    found = attributed(used)
    row = found[f"CPU of the {larger}"]
    assert row["binds"]
    assert row["utilisation"] == pytest.approx(0.6)
    assert row["pressure"] == pytest.approx(0.95)
    assert "95 % of it used up with all who share it" in row["evidence"]
    other = found[f"CPU of the {smaller}"]
    assert not other["binds"]
    assert other["pressure"] == pytest.approx(0.95)
    assert f"CPU of the {smaller}" not in row["evidence"]
    # each on a node of its own has cores to spare
    apart = attributed(used, APART)
    assert not apart["CPU of the engine"]["binds"]


def test_what_several_use_is_not_told_as_the_use_of_one():
    """0.4 and 0.3 of the CPU, which no one exhausts."""
    found = attributed(IDLE | {"CPU of the engine": 0.4, "CPU of the client": 0.3})
    said = "the most used resource, CPU of the engine, averaged 70 % with all who share it"
    assert said in found["concurrency"]["evidence"]


def test_engine_and_client_bind_together_if_each_is_the_larger_user_in_turn():
    used = IDLE | {
        "CPU of the engine": [0.51, 0.47] * (SECONDS // 2),
        "CPU of the client": [0.47, 0.50] * (SECONDS // 2),
    }
    row = attributed(used)["CPU of the engine"]
    assert row["binds"]
    assert row["pressure"] == pytest.approx(0.975)


def test_others_on_the_host_leave_less_of_the_cpu():
    """At 75 % of its limit the engine has all that there is: 0.4 of the host's 2 cores are others'."""
    used = IDLE | {"CPU of the engine": 0.65}
    idle = sample("all", "idle_percent", [0.0] * SECONDS).with_columns(observer=pl.lit("vmstat"))
    host = pl.DataFrame([{"fact": "cores", "value": "2"}])
    tables = {"run": run(), "host": host, "os_sample": pl.concat([samples(used), idle])}
    assert binding(attribute(tables)) == "CPU of the engine"
    assert binding(attribute(tables | {"os_sample": samples(used)})) == UNKNOWN


def test_a_quota_with_a_queue_binds_below_the_threshold():
    used = {"CPU of the engine": 0.75}  # and the client's 0.1
    quota = [
        sample("total", "cpu_periods_per_s", [50.0] * SECONDS),
        sample("total", "cpu_throttled_periods_per_s", [45.0] * SECONDS),
    ]
    os_sample = samples(IDLE | used)
    assert binding(attribute({"run": run(), "os_sample": os_sample})) == UNKNOWN
    frame = attribute({"run": run(), "os_sample": pl.concat([os_sample, *quota])})
    assert binding(frame) == "CPU of the engine"
    assert frame.filter("binds")["saturation"][0] == pytest.approx(0.9)


def test_a_client_held_back_by_a_quota_of_its_own_binds():
    quota = [
        sample("client", "cpu_periods_per_s", [50.0] * SECONDS),
        sample("client", "cpu_throttled_periods_per_s", [49.0] * SECONDS),
    ]
    os_sample = pl.concat([samples(IDLE), *quota])
    # it may even seem idle: what it does not send nobody waits for
    for occupied in (8000.0, 2000.0):
        tables = {"run": run(latency_mean_us=occupied), "os_sample": os_sample}
        tables["engine_wait"] = waits(client=7, cpu=1)
        assert binding(attribute(tables)) == "CPU of the client"


@pytest.mark.parametrize(
    ("sessions", "binds"),
    [
        ({"log": 6, "cpu": 2}, "commit latency"),
        ({"lock": 7, "log": 1}, "locks"),
        ({"latch": 3, "lock": 2, "cpu": 3}, "locks"),
        ({"limit": 5, "cpu": 3}, "the engine's own limit"),
        ({"cpu": 4, "client": 2, "log": 2}, "concurrency"),
        ({"data": 5, "cpu": 3}, "concurrency"),
    ],
)
def test_where_nothing_is_used_up_the_largest_part_of_the_response_time_binds(sessions, binds):
    row = bound(sessions=sessions)
    assert (row["resource"], row["share"], row["confidence"]) == (binds, 1, 1)
    if binds != "concurrency":
        assert "of the sessions waited for" in row["evidence"]
        assert row["utilisation"] >= 0.5
    else:
        assert "8.0 of 8 clients waited for an answer" in row["evidence"]


@pytest.mark.parametrize(
    ("sessions", "binds"),
    [
        ({"client": 5, "cpu": 3}, "application server"),
        ({"client": 3, "cpu": 5}, "concurrency"),
        ({"client": 3, "log": 5}, "commit latency"),
    ],
)
def test_an_application_server_whose_sessions_are_idle_though_clients_wait_binds(sessions, binds):
    """A hundred clients wait; it has eight sessions."""
    waiting = run(concurrency=100, tps=1000.0, latency_mean_us=97_000.0)
    tables = {"run": waiting, "os_sample": samples(IDLE), "engine_wait": waits(**sessions)}
    frame = attribute(tables, is_served=True)
    assert binding(frame) == binds
    (row,) = frame.filter(resource="application server").iter_rows(named=True)
    idle = sessions["client"] / sum(sessions.values())
    assert row["utilisation"] == pytest.approx(idle)
    # where they are the clients' own, a session that is idle is a client at work
    assert binding(attribute(tables)) == ("concurrency" if "cpu" in sessions else binds)


def test_a_disk_that_the_clients_do_not_wait_for_does_not_bind():
    """A checkpoint may fill it while they run from memory."""
    used = {"disk write bandwidth": 1.0, "CPU of the engine": 0.85}
    assert bound(used)["resource"] == "disk write bandwidth"
    assert bound(used, sessions={"cpu": 8})["resource"] == "CPU of the engine"
    assert bound(used, sessions={"cpu": 2, "log": 6})["resource"] == "disk write bandwidth"


def test_a_load_that_is_not_all_that_could_be_is_bound_by_nothing():
    """Of 8 clients 2 wait for an answer, in every sample; the others sent no request."""
    row = bound(latency_mean_us=2000.0, sessions={"client": 7, "cpu": 1})
    assert row["resource"] == NONE
    assert "2.0 of 8 clients waited for an answer" in row["evidence"]
    checkpoint = bound({"disk write bandwidth": 1.0}, latency_mean_us=2000.0)
    assert checkpoint["resource"] == NONE


@pytest.mark.parametrize(
    ("waiting_s", "binds"),
    [(0.0004, NONE), (0.002, "CPU of the engine"), (0.006, "CPU of the engine")],
)
def test_clients_that_pause_are_slowed_down_though_few_of_them_wait(waiting_s, binds):
    """Eight terminals do 1,000 transactions/s: each takes 8 ms, waits for some of it and pauses."""
    pauses = {"keying": 0.25, "think": 0.75}
    times = [
        {"what": what, "time_us": share * (8000 - 1e6 * waiting_s), "count": 5000}
        for what, share in pauses.items()
    ]
    tables = {
        "run": run(latency_mean_us=1e6 * waiting_s, transactions=5000),
        "os_sample": samples(IDLE | {"CPU of the engine": 0.95}),
        "time_bucket": pl.DataFrame([*times, {"what": "menu", "time_us": 9e9, "count": 5000}]),
    }
    assert binding(attribute(tables)) == binds


def test_without_samples_of_the_sessions_it_is_less_sure():
    found = attributed(IDLE, concurrency=1, latency_mean_us=1000.0)
    assert found["concurrency"]["binds"]
    assert found["concurrency"]["confidence"] == 0.5
    assert "what the sessions waited for was not captured" in found["concurrency"]["evidence"]
    # eight of them may wait for each other
    assert bound() == {}
    # a limit is a limit, though they may not have waited for it
    assert bound({"disk read IOPS": 1.0})["confidence"] == 0.8


@pytest.mark.parametrize("begin", [None, BEGIN - 100, BEGIN + 100])
def test_without_samples_of_the_measured_part_it_does_not_know(begin):
    tables = {"run": run(), "engine_wait": waits(lock=8)}
    if begin is not None:
        tables["os_sample"] = samples(dict.fromkeys(SAMPLED, 1.0), begin)
    frame = attribute(tables)
    assert binding(frame) == UNKNOWN
    assert frame["utilisation"].is_null().all()
    assert set(frame["confidence"]) == {0}
    assert set(frame["evidence"]) == {"no samples of the measured part"}


def test_a_capture_cut_in_the_middle_lowers_the_confidence_and_says_so():
    half = samples(IDLE | {"disk read IOPS": 1.0}).filter(pl.col("t") <= BEGIN + 6)
    tables = {"run": run(), "os_sample": half, "engine_wait": waits(data=8)}
    row = attribute(tables).filter("binds").row(0, named=True)
    assert row["resource"] == "disk read IOPS"
    assert row["confidence"] == pytest.approx(6 / 9)
    assert row["evidence"].endswith("; samples cover 67 % of the measured part")


def test_a_short_run_lowers_the_confidence_and_says_so():
    frame = attribute(
        {
            "run": run(measure_end=BEGIN + 2),
            "engine_wait": waits(data=8),
            "os_sample": samples(IDLE | {"disk read IOPS": 1.0}),
        }
    )
    assert frame["confidence"][0] == pytest.approx(2 / 5)
    assert "only 2.0 s were sampled" in frame["evidence"][0]


@pytest.mark.parametrize(("span_s", "doubted"), [(0.996, False), (0.98, True)])
def test_a_run_is_as_short_as_its_samples_are(span_s, doubted):
    used = samples(IDLE | {"disk read IOPS": 1.0})
    frame = attribute(
        {
            "run": run(measure_end=BEGIN + 5 * span_s),
            "engine_wait": waits(data=8),
            "os_sample": used.with_columns(BEGIN + (pl.col("t") - BEGIN) * span_s),
        }
    )
    assert ("were sampled" in frame["evidence"][0]) == doubted
    assert (frame["confidence"][0] < 1) == doubted


def test_a_sampler_that_missed_ticks_still_gives_the_mean():
    """Counters are cumulative: a row after a gap is the mean over it."""
    few = samples(IDLE | {"CPU of the engine": 0.9}).filter(
        pl.col("t").is_in([BEGIN + 1, BEGIN + 2, BEGIN + 9])
    )
    row = attribute({"run": run(), "os_sample": few}).filter("binds").row(0, named=True)
    assert row["resource"] == "CPU of the engine"
    assert row["confidence"] < 0.7
    assert "a sample spans up to 7.0 s" in row["evidence"]


def test_an_observer_that_failed_lowers_the_confidence_and_says_so():
    no_disk = samples({name: share for name, share in IDLE.items() if name not in DISK})
    tables = {"run": run(), "os_sample": no_disk, "engine_wait": waits(cpu=8)}
    row = attribute(tables).filter("binds").row(0, named=True)
    assert row["resource"] == "concurrency"
    assert row["confidence"] == 0.5
    assert "not captured: disk writes, disk write operations, disk reads" in row["evidence"]


def test_a_resource_without_a_limit_does_not_bind_whatever_it_does():
    used = IDLE | {"disk write bandwidth": 5.0}
    found = attributed(used, limit_write_bytes_per_s=None)["disk write bandwidth"]
    assert (found["binds"], found["utilisation"]) == (False, None)
    assert "175.0 MB/s, no limit" in found["evidence"]


def test_only_the_agents_own_samples_count():
    """Others see the device below the throttle, under names of their own."""
    device = samples({"disk write bandwidth": 1.0}).with_columns(observer=pl.lit("vmstat"))
    frame = attribute({"run": run(), "os_sample": pl.concat([samples(IDLE), device])})
    assert binding(frame) == UNKNOWN


def test_a_network_between_two_hosts_can_bind():
    network = pl.concat(
        [
            sample("network", "sent_bytes_per_s", [120e6] * SECONDS),
            sample("network", "received_bytes_per_s", [4e6] * SECONDS),
            sample("network", "speed_bytes_per_s", [125e6] * SECONDS),
        ]
    )
    os_sample = pl.concat([samples(IDLE), network])
    frame = attribute({"run": run(), "os_sample": os_sample}, APART)
    assert binding(frame) == "network"
    assert frame.filter("binds")["node"].to_list() == ["db1"]
    assert "averaged 120.0 MB/s of 125.0 MB/s (96 %)" in frame.filter("binds")["evidence"][0]
    assert binding(attribute({"run": run(), "os_sample": os_sample})) == UNKNOWN


@pytest.mark.parametrize(("used", "bound"), [(3.9, "CPU of the client"), (1.9, "unknown")])
def test_a_client_is_held_against_the_cores_of_its_own_node(used, bound):
    cores = pl.DataFrame(
        [
            {"node": "db1", "fact": "cores", "value": "2"},
            {"node": "load1", "fact": "cores", "value": "4"},
        ]
    )
    os_sample = pl.concat([samples(IDLE), sample("client", "cpu_us_per_s", [used * 1e6] * SECONDS)])
    os_sample = os_sample.unique(("t", "subject", "metric"), keep="last")
    frame = attribute({"run": run(), "host": cores, "os_sample": os_sample}, APART)
    assert binding(frame) == bound
    evidence = dict(frame.select("resource", "evidence").iter_rows())
    assert f"{used:.2f} cores of 4.00 cores" in evidence["CPU of the client"]
    assert "0.20 cores of 2.00 cores" in evidence["CPU of the engine"]
    assert "all who share" not in evidence["CPU of the engine"]


def on(node: str, used: dict[str, float]) -> pl.DataFrame:
    """Samples of a node, a little later than those of others: every node has ticks of its own."""
    of_node = samples(used).with_columns(pl.col("t") + 0.3, node=pl.lit(node))
    return of_node if node != "db1" else of_node.with_columns(pl.col("t") - 0.3)


ENGINE = {name: 0.1 for name in IDLE if name != "CPU of the client"}


@pytest.mark.parametrize(
    ("node", "resource", "sessions"),
    [
        ("db2", "disk write bandwidth", {"log": 7, "cpu": 1}),  # a standby must confirm
        ("db1", "disk write bandwidth", {"log": 7, "cpu": 1}),
        ("db2", "CPU of the engine", {"log": 7, "cpu": 1}),
        ("load2", "CPU of the client", {"client": 7, "cpu": 1}),
    ],
)
def test_the_node_whose_resource_is_used_up_is_named(node, resource, sessions):
    nodes = {
        "db1": ENGINE,
        "db2": ENGINE,
        "load1": {"CPU of the client": 0.1},
        "load2": {"CPU of the client": 0.1},
    }
    nodes[node] = nodes[node] | {resource: 0.97}
    cores = [{"node": name, "fact": "cores", "value": "2"} for name in nodes]
    tables = {
        "run": run(),
        "host": pl.DataFrame(cores),
        "os_sample": pl.concat([on(name, used) for name, used in nodes.items()]),
        "engine_wait": waits(**sessions),
    }
    frame = attribute(tables, MANY)
    row = frame.filter("binds").row(0, named=True)
    assert (row["resource"], row["node"], row["share"], row["confidence"]) == (resource, node, 1, 1)
    assert row["evidence"].startswith(f"{node}: ")
    rows = Counter(frame["resource"])
    assert (rows["disk write bandwidth"], rows["CPU of the client"], rows["network"]) == (2, 2, 4)
    assert rows["commit latency"] == 1


@pytest.mark.parametrize(
    ("machines", "engine", "client", "binds"),
    [
        ("lab", 0.3, 0.45, [("CPU of the client", "load1")]),
        ("lab", 0.6, 0.15, [("CPU of the engine", "db1")]),
        ("db1 db2 load1 load2", 0.6, 0.15, []),
    ],
    ids=["a lab's clients", "a lab's engine", "separate machines"],
)
def test_the_largest_user_of_a_machine_with_several_nodes_binds(machines, engine, client, binds):
    """Together they use up the two cores of the lab, and each much less than them."""
    nodes = {
        "db1": ENGINE | {"CPU of the engine": engine},
        "db2": ENGINE | {"CPU of the engine": 0.15},
        "load1": {"CPU of the client": client},
        "load2": {"CPU of the client": 0.1},
    }
    boots = dict(zip(nodes, machines.split(), strict=False))
    facts = [
        {"node": node, "fact": fact, "value": value}
        for node in nodes
        for fact, value in (("cores", "2"), ("boot_id", boots.get(node, "lab")))
    ]
    of_hosts = [
        sample(
            "host", "cpu_us_per_s", [2e6 if "lab" in machines else 1.3e6] * SECONDS
        ).with_columns(pl.col("t") + (0.0 if node == "db1" else 0.3), node=pl.lit(node))
        for node in nodes
    ]
    used = pl.concat([*(on(node, of_node) for node, of_node in nodes.items()), *of_hosts])
    tables = {"run": run(), "host": pl.DataFrame(facts), "os_sample": used}
    frame = attribute(tables, MANY).filter("binds")
    assert frame.select("resource", "node").rows() == binds


def test_what_binds_on_two_nodes_in_turn_binds_for_the_time_of_both():
    def busy(first: int, last: int) -> list[float]:
        return [1.0 if first <= second < last else 0.8 for second in range(SECONDS)]

    nodes = {
        "db1": ENGINE | {"CPU of the engine": busy(0, 4)},
        "load1": {"CPU of the client": busy(4, 7)},
        "load2": {"CPU of the client": busy(7, 10)},
    }
    cores = [{"node": name, "fact": "cores", "value": "2"} for name in nodes]
    samples_of_all = pl.concat([on(name, used) for name, used in nodes.items()])
    tables = {"run": run(), "host": pl.DataFrame(cores), "os_sample": samples_of_all}
    frame = attribute(tables, MANY)
    row = frame.filter("binds").row(0, named=True)
    assert row["resource"] == "CPU of the client"
    assert row["node"] in ("load1", "load2")
    shares = dict(frame.group_by("resource").agg(pl.col("share").sum()).iter_rows())
    assert row["share"] < shares["CPU of the engine"] < shares["CPU of the client"]


def test_a_standby_that_nobody_waits_for_does_not_bind():
    busy = on("db2", ENGINE | {"disk write bandwidth": 1.0})
    tables = {"run": run(), "os_sample": pl.concat([on("db1", ENGINE), busy])}
    frame = attribute(tables | {"engine_wait": waits(cpu=8)}, MANY)
    assert binding(frame) == "concurrency"


def test_an_application_server_on_a_node_of_its_own_binds_there():
    """The load's node has the terminals, which wait for it."""
    nodes = APART | {"app1": ("app",)}
    cores = [{"node": name, "fact": "cores", "value": "2"} for name in nodes]
    used = {"db1": ENGINE, "load1": {"CPU of the client": 0.1}, "app1": {"CPU of the client": 0.97}}
    tables = {
        "run": run(),
        "host": pl.DataFrame(cores),
        "os_sample": pl.concat([on(name, of_node) for name, of_node in used.items()]),
        "engine_wait": waits(client=8),
    }
    row = attribute(tables, nodes).filter("binds").row(0, named=True)
    assert (row["resource"], row["node"]) == ("CPU of the client", "app1")


def test_of_a_node_that_was_not_sampled_it_says_so():
    os_sample = pl.concat([on("db1", ENGINE), on("load1", {"CPU of the client": 0.1})])
    tables = {"run": run(), "os_sample": os_sample, "engine_wait": waits(cpu=8)}
    row = attribute(tables, MANY).filter("binds").row(0, named=True)
    assert row["confidence"] == 0.5
    assert "not captured: db2: disk writes, " in row["evidence"]
    assert row["evidence"].endswith("db2: the engine's CPU, load2: the client's CPU")


def test_of_a_server_that_somebody_else_runs_only_its_sessions_are_reported():
    nodes = {"load1": ("load",)}
    tables = {"run": run(), "os_sample": on("load1", {"CPU of the client": 0.1})}
    frame = attribute(tables | {"engine_wait": waits(log=8)}, nodes)
    row = frame.filter("binds").row(0, named=True)
    assert (row["resource"], row["node"], row["confidence"]) == ("commit latency", None, 0.5)
    assert "not captured: disk writes" in row["evidence"]
    said = dict(frame.select("resource", "evidence").iter_rows())
    assert said["CPU of the engine"].startswith("the engine's CPU: the server runs on none")


def test_a_killed_task_is_evidence():
    killed = sample("total", "oom_kills_per_s", [0.0] * 4 + [1.0] + [0.0] * 5)
    frame = attribute({"run": run(), "os_sample": pl.concat([samples(IDLE), killed])})
    said = dict(frame.select("resource", "evidence").iter_rows())["memory"]
    assert "the kernel killed 1 of them" in said


def test_every_resource_has_a_colour_of_its_own():
    assert tuple(RESOURCE_COLORS) == (*RESOURCES, UNKNOWN)
    assert len(set(RESOURCE_COLORS.values())) == len(RESOURCE_COLORS)


shares = st.floats(0, 1.2, allow_nan=False)


@given(
    st.fixed_dictionaries({name: st.lists(shares, min_size=10, max_size=10) for name in SAMPLED}),
    st.dictionaries(st.sampled_from(["cpu", "client", "lock", "log", "data"]), st.integers(0, 9)),
)
def test_whatever_was_sampled_shares_add_up_and_the_largest_binds(used, sessions):
    tables = {"run": run(), "os_sample": samples(used)}
    if sessions:
        tables["engine_wait"] = waits(**sessions)
    frame = attribute(tables)
    assert frame["share"].sum() <= 1 + 1e-9
    if binding(frame) != UNKNOWN:
        assert frame.filter("binds")["share"][0] == frame["share"].max()
    assert frame["confidence"].is_between(0, 1).all()
    assert all(frame["evidence"].str.len_chars() > 0)

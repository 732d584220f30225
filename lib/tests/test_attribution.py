"""Attribution, on runs made so that it is known what bound them."""

import polars as pl
import pytest
from benchlab.attribution.utilisation import RESOURCES, attribute, binding

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
IDLE = dict.fromkeys(SAMPLED, 0.1)


def run(single_host: bool = True, **limits) -> pl.DataFrame:
    times = {"measure_begin": BEGIN, "measure_end": BEGIN + SECONDS}
    return pl.DataFrame([{"single_host": single_host} | times | LIMITS | limits])


def samples(used: dict[str, float | list[float]], begin: float = BEGIN) -> pl.DataFrame:
    """A row a second for each resource; ``used`` is its share of the limit, or one per second."""
    return pl.DataFrame(
        [
            {
                "t": begin + second,
                "observer": "sample",
                "subject": SAMPLED[name][0],
                "metric": SAMPLED[name][1],
                "value": SAMPLED[name][2]
                * (share if isinstance(share, float) else share[second - 1]),
            }
            for name, share in used.items()
            for second in range(1, SECONDS + 1)
        ]
    )


def attributed(used: dict, **of_run) -> dict[str, dict]:
    frame = attribute({"run": run(**of_run), "os_sample": samples(used)})
    return {row["resource"]: row for row in frame.iter_rows(named=True)}


@pytest.mark.parametrize("resource", SAMPLED)
def test_what_is_at_its_limit_binds(resource):
    frame = attribute({"run": run(), "os_sample": samples(IDLE | {resource: 0.97})})
    assert binding(frame) == resource
    row = frame.row(by_predicate=pl.col("resource") == resource, named=True)
    assert row["utilisation"] == pytest.approx(0.97)
    assert row["at_limit_share"] == 1
    assert "97%" in row["evidence"]
    assert set(frame["resource"]) == set(RESOURCES) - {"none"}


def test_evidence_is_in_the_limits_own_unit():
    found = attributed(IDLE | {"disk write bandwidth": 0.96})
    assert found["disk write bandwidth"]["evidence"].startswith("33.6 MB/s of 35.0 MB/s (96%)")
    assert found["disk read IOPS"]["evidence"].startswith("240 /s of 2,400 /s (10%)")
    assert found["CPU of the engine"]["evidence"].startswith("0.20 cores of 2.00 cores (10%)")


def test_nothing_binds_below_the_threshold():
    frame = attribute({"run": run(), "os_sample": samples(IDLE | {"disk write IOPS": 0.89})})
    assert binding(frame) == "none"
    assert not frame["binds"].any()


def test_of_two_at_their_limits_the_higher_binds_alone():
    used = IDLE | {"disk write bandwidth": 0.93, "disk write IOPS": 0.98}
    frame = attribute({"run": run(), "os_sample": samples(used)})
    assert binding(frame) == "disk write IOPS"
    assert frame["binds"].sum() == 1


def test_bursts_that_leave_the_disk_idle_do_not_bind():
    burst = [1.0, 0.0] * (SECONDS // 2)
    found = attributed(IDLE | {"disk write bandwidth": burst})["disk write bandwidth"]
    assert not found["binds"]
    # the first second is not wholly within the measured part
    assert found["at_limit_share"] == pytest.approx(4 / 9)


@pytest.mark.parametrize("larger", ["engine", "client"])
def test_on_one_host_engine_and_client_share_the_cpu(larger):
    smaller = {"engine": "client", "client": "engine"}[larger]
    used = IDLE | {f"CPU of the {larger}": 0.6, f"CPU of the {smaller}": 0.35}
    found = attributed(used)
    assert found[f"CPU of the {larger}"]["binds"]
    assert not found[f"CPU of the {smaller}"]["binds"]
    assert found[f"CPU of the {larger}"]["utilisation"] == pytest.approx(0.6)
    assert "together 95%" in found[f"CPU of the {larger}"]["evidence"]
    # each on a host of its own has cores to spare
    assert not any(row["binds"] for row in attributed(used, single_host=False).values())


@pytest.mark.parametrize("begin", [None, BEGIN - 100, BEGIN + 100])
def test_without_samples_of_the_measured_part_it_says_so(begin):
    tables = {"run": run()}
    if begin is not None:
        tables["os_sample"] = samples(dict.fromkeys(SAMPLED, 1.0), begin)
    frame = attribute(tables)
    assert binding(frame) == "none"
    assert frame["utilisation"].is_null().all()
    assert set(frame["evidence"]) == {"no samples of the measured part"}


def test_a_resource_without_a_limit_does_not_bind_whatever_it_does():
    used = IDLE | {"disk write bandwidth": 5.0}
    found = attributed(used, limit_write_bytes_per_s=None)["disk write bandwidth"]
    assert (found["binds"], found["utilisation"]) == (False, None)
    assert found["evidence"] == "175.0 MB/s, no limit"


def test_only_the_agents_own_samples_count():
    """iostat sees the device below the throttle, under names of its own."""
    device = samples({"disk write bandwidth": 1.0}).with_columns(observer=pl.lit("iostat"))
    frame = attribute({"run": run(), "os_sample": pl.concat([samples(IDLE), device])})
    assert binding(frame) == "none"

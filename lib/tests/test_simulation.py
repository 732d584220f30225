"""What is simulated of intervals, verdicts and the gate; and that what is stored is of this code."""

import benchlab
import polars as pl
import pytest
from benchlab import study
from benchlab.claims import stability
from benchlab.gate import steady
from benchlab.repo import Repo
from benchlab.report import simulated
from benchlab.simulation import coverage, stopping, stored
from benchlab.stats import CONFIDENCE
from benchlab.store import results
from conftest import ROOT, STUDY

REPO = Repo(ROOT)
STUDIES = ("cached_tables", STUDY, "remote_wal", "spec_tree", "tpcc")

AGAIN = "make it anew: benchlab reference --kept"


@pytest.fixture(scope="module")
def found() -> stored.Simulated:
    return stored.read(REPO)


@pytest.fixture(scope="module")
def reference():
    with benchlab.open("reference") as store:
        yield store


def row(table: pl.DataFrame, **of: str | float) -> dict:
    (one,) = table.filter(**of).to_dicts()
    return one


def agrees(now: dict, then: dict) -> None:
    """Whether the same simulation comes to the same numbers."""
    then = {name: value for name, value in then.items() if name != "made"}
    assert now == {
        name: pytest.approx(value, abs=1e-4) if isinstance(value, float) else value
        for name, value in then.items()
    }, AGAIN


def test_every_study_of_the_reference_was_simulated(found, reference):
    studies = set(results.studies(reference))
    for table in (found.intervals, found.verdicts, found.agreement):
        assert set(table["study"]) == studies


@pytest.mark.parametrize("name", STUDIES)
def test_the_stored_intervals_are_of_the_references_spreads(name, found, reference):
    now = coverage.intervals(results.open_rerun(REPO, reference, name), 3, reruns=2)
    for one in now.drop("covered", "error", "reruns").to_dicts():
        keys = {key: one[key] for key in ("study", "statistic", "points", "trials")}
        then = row(found.intervals, **keys)
        agrees(one, {key: then[key] for key in one})


def test_the_stored_intervals_are_of_this_code(found, reference):
    rerun = results.open_rerun(REPO, reference, "spec_tree")
    for one in coverage.intervals(rerun, 3).to_dicts():
        keys = {key: one[key] for key in ("study", "statistic", "points", "trials")}
        agrees(one, row(found.intervals, **keys))


@pytest.mark.parametrize("name", STUDIES)
def test_the_stored_verdicts_are_of_this_code(name, found, reference):
    """A few reruns only: the number that is decided lies within what chance makes of it."""
    few = 4
    (now,) = coverage.verdicts(REPO, results.open_rerun(REPO, reference, name), few).to_dicts()
    then = row(found.verdicts, study=name)
    assert now["testable"] == then["testable"], AGAIN
    assert now["decided"] == pytest.approx(then["decided"], abs=2), AGAIN
    chance = 4 * then["error"] * (then["reruns"] / few) ** 0.5
    assert now["wrong"] == pytest.approx(then["wrong"], abs=chance), AGAIN


@pytest.mark.parametrize("name", STUDIES)
def test_the_stored_agreement_is_of_this_code(name, found, reference):
    """A few pairs only: the share lies within what chance makes of it."""
    few = 4
    (now,) = coverage.agreement(REPO, results.open_rerun(REPO, reference, name), few).to_dicts()
    then = row(found.agreement, study=name)
    for key in ("trials", "most_trials"):
        assert now[key] == then[key], AGAIN
    assert now["tested"] == pytest.approx(then["tested"], abs=2), AGAIN
    for share in ("agreeing", "same"):
        chance = 4 * then[f"{share}_error"] * (then["pairs"] / few) ** 0.5
        assert now[share] == pytest.approx(then[share], abs=max(chance, 0.05)), AGAIN


@pytest.mark.parametrize("case", ["level, begins counted", "slow drift, longest time"])
def test_the_stored_stopping_is_of_this_code(case, found):
    of = {"variation": 0.4, "dependence": 0.4}
    (now,) = stopping.stopping(case, *of.values()).to_dicts()
    agrees(now, row(found.stopping, case=case, **of))


def test_verdicts_are_wrong_as_seldom_as_they_say(found):
    for one in found.verdicts.to_dicts():
        # most points of these have a single trial, or did not pass the gate: hardly one is decided
        few = one["study"] == "cached_tables"
        assert (one["decided"] >= 1) != few
        assert one["wrong"] - 3 * one["error"] <= 1 - CONFIDENCE
    # and so are those of a paper about all studies
    (together,) = coverage.of_all_studies(found.verdicts).to_dicts()
    assert together["decided"] == pytest.approx(sum(found.verdicts["decided"]))
    assert together["wrong"] + 3 * together["error"] <= 1 - CONFIDENCE


def test_reruns_that_differ_by_chance_agree(found):
    assert found.agreement["agreeing"].min() >= stability.LEAST_AGREEING
    assert found.agreement["opposite"].max() <= 1 - CONFIDENCE


def test_runs_may_be_as_short_and_as_long_as_the_profile_has_them():
    standard = study.load(REPO, STUDY).profile("standard")
    assert (standard.measure_s, standard.longest_s) == (stopping.SHORTEST_S, stopping.LONGEST_S)


def test_a_rule_that_stops_on_luck_is_seen_to_be_biased(monkeypatch):
    def lucky(tps, *_):
        return None if tps.mean() > 1.05 * stopping.LEVEL_TPS else "not lucky yet"

    monkeypatch.setattr(steady, "unsteady", lucky)
    (one,) = stopping.stopping("level, parts counted", 0.2, 0.8, runs=60).to_dicts()
    assert 0 < one["passed"] < 1
    assert one["bias"] - 3 * one["bias_error"] > 0.03


def test_without_noise_only_what_drifts_fails(monkeypatch):
    monkeypatch.setattr(stopping, "DIP", 0.0)
    passed = {
        name: stopping.stopping(name, 1e-3, 0.0, runs=10)["passed"].item()
        for name in ("level, parts counted", "slow drift, longest time")
    }
    assert passed["level, parts counted"] > 0.8
    assert passed["slow drift, longest time"] == 0


def test_what_is_simulated_as_before_keeps_its_date(checkout, monkeypatch):
    of = pl.DataFrame({"study": ["s"], "covered": [0.9512345]})
    names = ("intervals", "verdicts", "agreement", "stopping")
    monkeypatch.setattr(stored, "_made", lambda *_: dict.fromkeys(names, of))
    assert stored.read(checkout) is None
    stored.simulate(checkout)
    path = checkout.simulated / "verdicts.csv"
    table = pl.read_csv(path).with_columns(made=pl.lit("2000-01-01"))
    table.write_csv(path)
    stored.simulate(checkout)
    assert set(stored.read(checkout).verdicts["made"]) == {"2000-01-01"}
    table.with_columns(covered=0.9).write_csv(path)
    stored.simulate(checkout)
    assert "2000-01-01" not in set(stored.read(checkout).verdicts["made"])


def test_what_was_simulated_of_other_studies_stays(checkout, monkeypatch):
    made = {"s": 0.1, "t": 0.2}

    def simulate(repo, studies) -> dict[str, pl.DataFrame]:
        rows = [(name, value) for name, value in made.items() if studies is None or name in studies]
        of = pl.DataFrame(rows, schema=["study", "covered"], orient="row")
        names = ["intervals", "verdicts", "agreement", *([] if studies else ["stopping"])]
        return dict.fromkeys(names, of)

    monkeypatch.setattr(stored, "_made", simulate)
    # nothing was simulated yet, so everything is
    stored.simulate(checkout, ["t"])
    made |= {"s": 0.3, "t": 0.4}
    found = stored.simulate(checkout, ["t"])
    assert found.verdicts.select("study", "covered").rows() == [("s", 0.1), ("t", 0.4)]
    assert found.stopping.select("study", "covered").rows() == [("s", 0.1), ("t", 0.2)]
    del made["s"]
    assert stored.simulate(checkout).verdicts["study"].to_list() == ["t"]


def test_the_appendix_shows_every_case(found):
    made = simulated.content(REPO)
    noises = len(stopping.VARIATIONS) * len(stopping.DEPENDENCES)
    rows = {name: len(table) for name, table in made.tables.items()}
    assert rows == {
        "simulated-coverage": len(found.intervals),
        "simulated-verdicts": len(STUDIES) + 1,  # all of them as one family
        "simulated-agreement": len(STUDIES),
        "simulated-level": noises,
        "simulated-drift": noises,
    }
    for table in made.tables.values():
        assert table.null_count().sum_horizontal().item() == 0
    assert [one["study"] for one in made.context["simulated"]["spreads"]] == list(STUDIES)

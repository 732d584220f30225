"""Checks whose answers are no numbers: in the store, out of the curves, and in claims."""

import pytest
from benchlab import study, target
from benchlab.engines.base import Endpoint
from benchlab.engines.tidb import TiDB
from benchlab.errors import BenchlabError, DatasetError, EngineError, ParseError
from benchlab.observers import outcomes as captured
from benchlab.observers.outcomes import Outcome
from benchlab.plan import Planner
from benchlab.raw import folders
from benchlab.report import outcomes, points
from benchlab.store import ingest, open_store
from benchlab.study.intervention import OutcomeChecks
from benchlab.workloads import tables_of
from conftest import CAPTURES, STUDY, edited_study, judged, rerun

REQUESTED = OutcomeChecks(checks=("cache_limits",), about_s=60)

FOUND = [
    Outcome("cache 200,000 rows", "done"),
    Outcome("cache 300,000 rows", "error 8242: tidb: 'table too large' is unsupported"),
    Outcome("condition 1", "all of 4 warehouses", passed=True),
    Outcome("condition 3", "undecided: it is gone"),
]
CAPTURE = "".join(map(captured.line, FOUND)).encode()


@pytest.fixture
def trials(at_sixteen):
    """A trial of write_only at 16 threads, with a load and with checks in its place."""
    return at_sixteen, at_sixteen.model_copy(update={"intervention": REQUESTED})


@pytest.fixture
def checked(checkout, close_run, trials):
    """A rerun with a run of each."""
    close_run(trial=trials[0])
    close_run(trial=trials[1], **{captured.NAME: CAPTURE})
    assert ingest.ingest_new(checkout).damaged == {}
    with open_store(checkout.store) as store:
        yield rerun(store, "quick")


def test_a_capture_is_read_as_it_was_written():
    frame = captured.rows(CAPTURE.decode())
    assert frame.rows() == [
        (number, one.check, one.passed, one.answer) for number, one in enumerate(FOUND, start=1)
    ]
    cut = CAPTURE.decode()[:-10]
    assert captured.rows(cut).height == len(FOUND) - 1
    with pytest.raises(ParseError, match="outcomes: line 1: no outcome: "):
        captured.rows('{"t": 1}\n')
    assert captured.rows("").is_empty()


def test_they_are_in_the_store_and_no_trial_of_a_curve(checkout, checked, trials):
    assert checked.counted["trial_key"].to_list() == [trials[0].key]
    assert checked.interventions.is_empty()
    assert checked.single_writes.is_empty()
    assert points.not_counted(checked).is_empty()
    table = outcomes.table(checked)
    assert table["check"].to_list() == [one.check for one in FOUND]
    assert table["passed"].to_list() == ["", "", "passed", ""]
    (run_id,) = checked.outcomes["run_id"].unique()
    record = folders.read(checkout.raw / run_id)
    assert outcomes.read(checkout.raw, record).rows() == table.drop("curve").rows()
    assert record.line().startswith(
        "postgres default oltp_write_only ×16 trial 1 with outcome checks: ok"
    )


def test_those_after_a_load_are_beside_its_results(checkout, close_run, trials):
    close_run(trial=trials[0], **CAPTURES, **{captured.NAME: CAPTURE})
    assert ingest.ingest_new(checkout).damaged == {}
    with open_store(checkout.store) as store:
        found = rerun(store, "quick")
        assert found.counted["transactions"].null_count() == 0
        assert found.outcomes["check"].to_list() == [one.check for one in FOUND]


def test_a_run_that_failed_says_so(checkout, close_run, trials):
    record = close_run("failed", "tidb: it is gone", trial=trials[1])
    with pytest.raises(BenchlabError, match="failed: tidb: it is gone"):
        outcomes.read(checkout.raw, record)


@pytest.mark.parametrize(
    ("answers", "verdict", "shown"),
    [
        (
            {"cache 200,000 rows": "done", "cache 300,000 rows": "error 8242"},
            "reproduced",
            "cache 200,000 rows: done; cache 300,000 rows: error 8242: tidb: ",
        ),
        ({"cache 300,000 rows": "done"}, "not reproduced", "cache 300,000 rows: error 8242"),
        ({"condition 3": "all"}, "inconclusive", "condition 3: undecided: it is gone"),
    ],
)
def test_a_claim_of_outcomes_has_no_chance_in_it(checkout, checked, answers, verdict, shown):
    one = judged(checkout, checked, decided_by(answers))
    assert one.verdict == verdict
    assert one.found.startswith(shown)
    assert one.confidence is None


def test_without_checks_such_a_claim_is_not_testable(checkout, measured):
    store = measured({("postgres", "default", "oltp_write_only"): {16: [100]}})
    one = judged(checkout, rerun(store), decided_by({"a": "b"}))
    assert one.verdict == "not testable here"
    assert one.reason.endswith("no run made checks")


def test_a_claim_about_a_check_that_no_run_made_is_not_testable(checkout, checked):
    one = judged(checkout, checked, decided_by({"condition 1": "all", "condition 2": "all"}))
    assert one.verdict == "not testable here"
    assert one.reason.endswith("no run made the check 'condition 2'")


def decided_by(answers: dict[str, str]) -> dict:
    of = {"engine": "postgres", "variant": "default", "workload": "oltp_write_only"}
    return {"test": "outcome", "of": of, "answers": answers}


def test_checks_are_planned_without_a_load(checkout):
    with edited_study(checkout) as spec:
        spec["outcomes"] = [
            {
                "engines": ["postgres"],
                "variants": ["default"],
                "workloads": ["oltp_point_select"],
                "outcomes": {"checks": ["cache_limits"], "about_s": 60},
            }
        ]
    loaded = study.load(checkout, STUDY)
    instance = target.instance_type(checkout, loaded.instance)
    planner = Planner(loaded, "quick", instance, dict.fromkeys(loaded.engines, "1.0"))
    (batch,) = planner.outcomes()
    assert batch.name == "postgres-default-oltp_point_select-trial1-outcome-checks1"
    assert planner.plan("local").batches[-1] == batch


# How large a table may be to be cached


class Server(TiDB):
    """One that caches tables up to some rows, and counts what is in the one that is tried."""

    def __init__(self, limit: int):
        super().__init__(Endpoint(host="", port=0, user=""))
        self.limit, self.rows, self.cached, self.lease = limit, 0, False, 3

    def query(self, sql: str, parameters: tuple = ()) -> list[dict]:
        words = sql.split()
        if "NOCACHE" in words:
            self.cached = False
        elif words[-1] == "CACHE":
            self._require(self.rows <= self.limit, "'table too large' is unsupported")
            self.cached = True
        elif "ADD" in words:
            self._require(not self.cached, "'Alter Table' is unsupported on cache tables.")
        elif words[0] in ("INSERT", "UPDATE"):
            too_large = self.cached and self.rows > self.limit
            self._require(not too_large, "'table too large' is unsupported")
            if words[0] == "INSERT":
                self.rows += min(int(words[-1]), 5000 if "sbtest1" in words else self.rows)
        elif words[0] == "DELETE":
            self.rows -= int(words[-1])
        elif "COUNT(*)" in words:
            return [{"rows_there": self.rows}]
        elif words[0] == "SET":
            self.lease = min(max(int(words[-1]), 1), 10)
        elif "@@GLOBAL" in sql:
            return [{"lease": self.lease}]
        return []

    @staticmethod
    def _require(holds: bool, message: str) -> None:
        if not holds:
            raise EngineError(f"tidb: {message}", 8242)


def test_the_limit_of_a_cached_table_is_found_by_halving(monkeypatch, batches):
    monkeypatch.setattr("benchlab.workloads.sysbench_oltp.cache_limits._RELOADED_S", 0)
    tables = tables_of(batches()[0].trials[0].point.dataset)
    server = Server(limit=262_144)
    found = {one.check: one.answer for one in tables.outcomes("cache_limits", server)}
    assert found.pop("most rows that can be cached") in {
        f"{rows:,}" for rows in range(259_500, 262_145)
    }
    too_large = "error 8242: tidb: 'table too large' is unsupported"
    assert found == {
        "cache 200,000 rows": "done",
        "cache 300,000 rows": too_large,
        "DDL on a cached table": "error 8242: tidb: 'Alter Table' is unsupported on cache tables.",
        "INSERT beyond the limit": too_large,
        "UPDATE beyond the limit": too_large,
        "DELETE beyond the limit": "done",
        "a lease of 0 s": "1 s",
        "a lease of 11 s": "10 s",
    }
    assert not server.cached


@pytest.mark.parametrize("limit", [100_000, 400_000])
def test_a_limit_beyond_the_sizes_that_are_tried_is_not_looked_for(monkeypatch, batches, limit):
    monkeypatch.setattr("benchlab.workloads.sysbench_oltp.cache_limits._RELOADED_S", 0)
    tables = tables_of(batches()[0].trials[0].point.dataset)
    found = {one.check for one in tables.outcomes("cache_limits", Server(limit=limit))}
    assert found == {
        "cache 200,000 rows",
        "cache 300,000 rows",
        "a lease of 0 s",
        "a lease of 11 s",
    }


def test_a_check_that_a_dataset_has_not_is_refused(batches):
    tables = tables_of(batches()[0].trials[0].point.dataset)
    with pytest.raises(DatasetError, match="no check 'isolation' is known for sysbench_oltp"):
        tables.outcomes("isolation", Server(limit=1))

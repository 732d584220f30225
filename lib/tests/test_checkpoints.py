"""Begin and end of an engine's checkpoints, from what it logged; or why it does not tell them."""

import pytest
from benchlab.agent.engine import LOG_BYTES
from benchlab.engines import ENGINES
from benchlab.engines.base import CHECKPOINTS
from benchlab.engines.postgres import Postgres
from benchlab.store import ingest, open_store
from conftest import CAPTURES, DATA

#: Of PostgreSQL 15 under the load of ten warehouses, with ``log_checkpoints``.
LOG = (DATA / "checkpoints" / "postgres.log").read_text()


def test_postgres_logs_begin_and_end_of_each():
    found = Postgres.checkpoints(LOG)
    assert dict(found.schema) == CHECKPOINTS
    assert found.height == LOG.count("checkpoint starting") == 7
    assert found.row(0) == (1795520591330000, 1795520618227000)
    assert (found["end_us"] > found["begin_us"]).all()
    assert found["begin_us"].is_sorted()


def test_one_that_goes_on_has_no_end():
    begun, _, _ = LOG.rpartition("\n2026-11-24 11:48:17")
    found = Postgres.checkpoints(begun)
    assert found["end_us"].is_null().to_list() == [False] * 6 + [True]


def test_a_log_without_any_is_told():
    head = "\n".join(LOG.splitlines()[:5])
    assert Postgres.checkpoints(head) == "no checkpoint is in the server's log"
    assert Postgres.checkpoints("benchlab: not readable: no such file\n").startswith(
        "no checkpoint"
    )


@pytest.mark.parametrize("engine", sorted(ENGINES.keys() - {"postgres"}))
def test_an_engine_that_does_not_tell_them_says_why(engine):
    (said,) = ENGINES[engine].checkpoints(LOG).splitlines()
    writer = {"mysql": "InnoDB", "mariadb": "InnoDB"}.get(engine, ENGINES[engine].name)
    assert said.lower().startswith(writer.lower())


def test_checkpoints_of_a_run_are_stored(checkout, close_run, at_sixteen):
    captured = {**CAPTURES, "engine.log": LOG.encode()}
    record = close_run(trial=at_sixteen, **captured)
    other = close_run(trial=at_sixteen, **CAPTURES)
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        found = store.table("checkpoint", record.run_id).sort("begin_s")
        assert found.select("begin_s", "end_s").row(0) == (1795520591.33, 1795520618.227)
        assert found.height == 7
        assert store.table("checkpoint", other.run_id).is_empty()


def test_of_a_log_whose_begin_is_cut_off_none_are_stored(checkout, close_run, at_sixteen):
    cut = f"{'x' * LOG_BYTES}\n{LOG}"[-LOG_BYTES:]
    assert not isinstance(Postgres.checkpoints(cut), str)
    record = close_run(trial=at_sixteen, **{**CAPTURES, "engine.log": cut.encode()})
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        assert store.table("checkpoint", record.run_id).is_empty()

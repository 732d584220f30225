"""The application server of TPC-C with a real PostgreSQL, which is killed and comes back."""

import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psycopg
import pytest
from benchlab.drivers.tpcc.was.pool import Address, PostgresDatabase
from benchlab.workloads.tpcc.transactions.contract import LowStock, Request
from conftest import Machine, wait_for
from throwaway_postgres import ThrowawayPostgres
from tpcc_application import Program, options, served

pytestmark = pytest.mark.machine


@pytest.fixture
def postgres(machine: Machine) -> Iterator[ThrowawayPostgres]:
    machine.up()
    # pytest's own folders are closed to other users
    with (
        tempfile.TemporaryDirectory(prefix="benchlab-test-", dir="/var/tmp") as folder,
        ThrowawayPostgres(Path(folder)) as server,
    ):
        yield server


def address_of(postgres: ThrowawayPostgres) -> Address:
    return Address("127.0.0.1", postgres.port, postgres.owner, "s3cret", "postgres")


@dataclass
class Counting:
    """Transactions on a real connection: what it says of itself."""

    sql: str = "SELECT pg_backend_pid()"

    async def run(self, connection: psycopg.AsyncConnection, request: Request) -> LowStock:
        cursor = await connection.execute(self.sql)
        (found,) = await cursor.fetchone()
        return LowStock(found)


def test_a_database_that_is_killed_and_comes_back(tmp_path, postgres):
    given = options(tmp_path, engine="postgres", pool=3)
    database = PostgresDatabase(address_of(postgres), 3, "serializable")
    with served(given, Counting(), database) as server:
        assert server.api("stock_level")[0] == 200
        postgres.kill()
        # what fails, fails with the reason
        said = wait_for(
            lambda: "is lost" in (said := server.api("stock_level")[1]).get("error", "") and said,
            "the loss to be noticed",
        )
        assert said["error"].startswith("the database is lost: connection ")
        assert server.metric("connections_lost_total") >= 1
        failed = server.outcome("stock_level", "error")
        assert {server.api("stock_level")[0] for _ in range(20)} == {500}
        assert server.outcome("stock_level", "error") == failed + 20
        assert server.api("delivery")[0] == 200
        (result,) = wait_for(server.delivered, "the delivery's line")
        assert result.error.startswith("the database is lost: ")
        postgres.start()
        wait_for(lambda: server.api("stock_level")[0] == 200, "the connections to be back")
        with ThreadPoolExecutor(8) as clients:
            answers = list(clients.map(lambda _: server.api("stock_level")[0], range(50)))
        # three of eight run, four wait, so one may be turned away; but none fails
        assert set(answers) <= {200, 503}
        ours = "FROM pg_stat_activity WHERE application_name = 'tpcc-was'"
        assert postgres.run(f"SELECT count(*) {ours}") == [(3,)]


def test_a_connection_that_is_lost_alone_is_replaced(tmp_path, postgres):
    given = options(tmp_path, engine="postgres", pool=1)
    database = PostgresDatabase(address_of(postgres), 1, "serializable")
    with served(given, Counting(), database) as server:
        _, first = server.api("stock_level")
        pid = first["answer"]["low_stock"]
        postgres.run(f"SELECT pg_terminate_backend({pid}, 60000)")
        status, said = server.api("stock_level")
        assert (status, said["error"]) == (
            500,
            "terminating connection due to administrator command",
        )
        status, said = server.api("stock_level")  # waits for the new connection
        assert (status, said.get("answer", {}).get("low_stock", pid) != pid) == (200, True), said
        assert server.metric("connections_lost_total") == 1


@pytest.mark.parametrize("isolation", ["read-committed", "repeatable-read", "serializable"])
def test_connections_have_the_isolation_level(tmp_path, postgres, isolation):
    database = PostgresDatabase(address_of(postgres), 2, isolation)
    counting = Counting("SELECT length(current_setting('transaction_isolation'))")
    with served(options(tmp_path, engine="postgres"), counting, database) as server:
        assert server.api("stock_level")[1]["answer"]["low_stock"] == len(isolation)


def test_the_program_serves_a_database_and_says_what_it_lacks(tmp_path, postgres):
    """Without tables, each transaction fails with what PostgreSQL says."""
    arguments = ("--engine", "postgres", "--form", "statements", "--pool", "2")
    address = msgspec.json.encode(address_of(postgres)) + b"\n"
    with Program(tmp_path / "deliveries.jsonl", *arguments, stdin=address) as one:
        server = one.ready()
        status, said = server.api("stock_level")
        assert (status, said["error"]) == (500, 'relation "district" does not exist')
        assert b"s3cret" not in Path(f"/proc/{one.process.pid}/cmdline").read_bytes()
        server.api("stock_level")
        one.process.send_signal(signal.SIGTERM)
        code, logged = one.end()
    assert code == 0
    assert logged.count('stock_level: relation "district" does not exist\n') == 1

"""TiDB: what its server reports of itself, as 7.1.1 on its embedded store did."""

import csv
import hashlib
import tarfile
from pathlib import Path

import pytest
from benchlab.engines.base import Endpoint
from benchlab.engines.tidb import TABLE_CACHE, TiDB
from benchlab.engines.waits import Wait
from benchlab.errors import EngineError
from conftest import DATA, fetched

RECORDED, OF_6_0 = DATA / "tidb_7.1.1", DATA / "tidb_6.0.0"
FETCH = "tidb/files/fetch.sh"


def rows(name: str, folder: Path = RECORDED) -> list[dict]:
    with (folder / f"{name}-unistore.tsv").open() as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


class Recorded(TiDB):
    """One that answers as the server did."""

    def __init__(
        self,
        store: str = "unistore",
        options: tuple[str | None, ...] = ("",),
        release: str = "7.1.1",
        cluster: bool = False,
        trace: str = "cached",
    ):
        super().__init__(Endpoint(host="", port=0, user=""))
        self.store, self.options, self.release, self.asked = store, options, release, []
        self.cluster, self.trace = cluster, trace

    def query(self, sql: str, parameters: tuple = ()) -> list[dict]:
        self.asked.append(sql)
        if sql.startswith("SHOW CONFIG WHERE"):
            return [{"Value": self.store}]
        if sql == "SHOW CONFIG":
            return rows("show_config")
        if sql == "SHOW GLOBAL VARIABLES":
            return [{"Variable_name": "tidb_table_cache_lease", "Value": "3"}]
        if "git_hash" in sql:
            return rows("cluster_info", OF_6_0) if self.cluster else []
        if sql.startswith("TRACE"):
            return rows(f"trace-{self.trace}", OF_6_0)
        if "tikv_region_status" in sql:
            raise EngineError("tidb: pd unavailable")
        if "data_length" in sql:
            return [{"name": "sbtest1", "size": 1 << 20}]
        if "VERSION()" in sql:
            return [{"version": f"5.7.25-TiDB-v{self.release}"}]
        if "create_options" in sql:
            tables = enumerate(self.options, start=1)
            return [{"name": f"sbtest{number}", "options": one} for number, one in tables]
        if sql.endswith("sbtest3 CACHE"):
            raise EngineError("tidb: 'table too large' is unsupported on cache tables.", 8242)
        return []


def test_its_version_names_the_embedded_store():
    assert Recorded().version() == "7.1.1-unistore"
    assert Recorded(store="tikv").version() == "7.1.1"


def test_a_server_on_the_embedded_store_does_not_stand_for_the_engine():
    assert "does not sync" in TiDB.shortcoming("7.1.1-unistore")
    assert TiDB.shortcoming("7.1.1") is None


def test_what_a_file_cannot_set_is_set_by_sql():
    engine = Recorded(options=("", None))
    engine.tune({"log.level": "error", "tidb_table_cache_lease": 5, TABLE_CACHE: True})
    assert [sql for sql in engine.asked if not sql.startswith(("SELECT", "SHOW"))] == [
        "SET GLOBAL tidb_table_cache_lease = 5",
        "ALTER TABLE sbtest1 CACHE",
        "ALTER TABLE sbtest2 CACHE",
    ]
    half = Recorded(options=("", "cached=on"))
    half.tune({TABLE_CACHE: False})
    assert [sql for sql in half.asked if sql.startswith("ALTER")] == ["ALTER TABLE sbtest2 NOCACHE"]


def test_a_table_too_large_to_be_cached_is_named():
    with pytest.raises(EngineError, match=r"^sbtest3: tidb: 'table too large'") as raised:
        Recorded(options=("", "", "")).tune({TABLE_CACHE: True})
    assert raised.value.code == 8242


def test_a_server_too_old_for_cached_tables_says_so():
    with pytest.raises(
        EngineError, match=r"tidb 5\.4\.3 has no cached tables: 6\.0 and later have"
    ):
        Recorded(store="tikv", release="5.4.3").tune({TABLE_CACHE: True})
    Recorded(store="tikv", release="5.4.3").tune({TABLE_CACHE: False})


@pytest.mark.parametrize(
    ("options", "effective"),
    [(("",), "off"), (("cached=on",), "on"), (("", "cached=on"), "off and on"), ((None,), "off")],
)
def test_whether_tables_are_cached_is_a_setting(options, effective):
    (found,) = Recorded(options=options).settings({TABLE_CACHE: True})
    assert (found.requested, found.effective) == ("true", effective)


def test_settings_come_from_configuration_and_variables():
    found = Recorded().settings({"log.level": "error", "tidb_table_cache_lease": 3, "no.such": 1})
    assert [(one.name, one.effective, one.source) for one in found] == [
        ("log.level", "error", "tidb"),
        ("tidb_table_cache_lease", "3", "variable"),
    ]


def test_settings_name_the_build_of_each_component_that_has_one():
    (found,) = Recorded(cluster=True).settings({})
    commit = "36a9810441ca0e496cbd22064af274b3be771081"
    assert (found.name, found.effective) == ("build of tidb 127.0.0.1:24999", f"6.0.0 {commit}")
    assert found.took_effect


@pytest.mark.parametrize(("trace", "went"), [("cached", 0.0), ("plain", 1.0)])
def test_a_traced_read_of_a_cached_table_tells_whether_it_went_to_the_storage(trace, went):
    counted = Recorded(options=("", "cached=on"), trace=trace).counters()
    assert counted == {"traced_to_storage.sbtest2": went}


def test_the_size_of_the_dataset_is_that_of_its_tables():
    sizes = Recorded().sizes()
    tables = [size for name, size in sizes.items() if name.startswith("table_bytes.")]
    assert sizes["dataset_bytes"] == sum(tables) > 0


def test_switches_are_written_as_in_toml():
    assert [TiDB.render(one) for one in (True, False, 3, "error")] == [
        "true",
        "false",
        "3",
        "error",
    ]


def test_the_embedded_store_is_not_asked_for_settings_of_tikv():
    tikv = {"storage.block-cache.capacity": 1, "coprocessor.region-split-size": 2}
    assert Recorded().settings(tikv) == []
    assert [one.effective for one in Recorded(store="tikv").settings(tikv)] == [None, None]


def test_cycles_are_merges_of_four_flushes_and_how_much_of_the_next_is_there():
    """Excerpt of the page that TiKV 6.0.0 printed after a run of oltp_write_only."""
    page = (DATA / "tidb_6.0.0" / "metrics-tikv-excerpt.txt").read_text()

    def cycles(*services: dict[str, str]) -> float | None:
        pages = {str(number): one for number, one in enumerate(services)}
        return Recorded().background_cycles(None, lambda: pages)

    assert cycles({"pd": "", "tikv": page, "tidb": ""}) == (14 + 2888736 / 4194304) / 4
    before = "\n".join(line for line in page.splitlines() if "flush" not in line)
    assert cycles({"tikv": before}) == 2888736 / 4194304 / 4
    assert cycles({"tikv": before}, {"tikv": page}) == cycles({"tikv": page})
    assert cycles({"tidb": ""}) is None


# A row of waits_query, and what it is; states as in information_schema.tidb_trx
WAITS = [
    (("Sleep", None, None), Wait.CLIENT),
    (("Sleep", "Idle", None), Wait.CLIENT),
    (("Query", None, "SELECT"), Wait.BUSY),
    (("Query", "Idle", "SELECT"), Wait.BUSY),
    (("Execute", None, "SELECT"), Wait.BUSY),
    (("Query", "LockWaiting", "UPDATE"), Wait.LOCK),
    (("Query", "Committing", "COMMIT"), Wait.LOG),
    (("Query", "Idle", "COMMIT"), Wait.LOCK),
]


@pytest.mark.parametrize(("row", "folded"), WAITS)
def test_a_session_waits_by_the_state_of_its_transaction(row, folded):
    found = TiDB.wait(dict(zip(("command", "trx", "verb"), row, strict=True)) | {"sessions": 3})
    assert found[0] == folded
    assert found[1]
    assert found[2] == 3


def test_recorded_sessions_of_which_one_waits_for_the_other():
    """Printed one after the other: the processes, and the transactions."""
    lines = (RECORDED / "sessions-unistore.tsv").read_text().splitlines()
    second = next(number for number, line in enumerate(lines) if line.startswith("id\tstate"))
    processes, transactions = (
        {row["id"]: row for row in csv.DictReader(part, delimiter="\t")}
        for part in (lines[:second], lines[second:])
    )
    states = {row["session_id"]: row["state"] for row in transactions.values()}
    found = {
        row["info"].split()[0]: TiDB.wait(
            {
                "command": row["command"],
                "trx": states.get(number),
                "verb": row["info"][:6].upper(),
                "sessions": 1,
            }
        )
        for number, row in processes.items()
        if number in states
    }
    assert found == {
        "update": (Wait.LOCK, "LockWaiting", 1),
        "select": (Wait.BUSY, "Query", 1),
    }


SERVERS = ("pd-server", "tikv-server", "tidb-server")


def vendors_tarball(folder: Path, servers: tuple[str, ...] = SERVERS) -> Path:
    """Pack stand-ins of the servers as TiUP does: a tarball that holds one for each component."""
    packed = folder / "tidb-community-server-v6.0.0-linux-amd64.tar.gz"
    with tarfile.open(packed, "w:gz") as whole:
        for server in servers:
            (folder / server).write_text(server)
            component = folder / f"{server.removesuffix('-server')}-v6.0.0-linux-amd64.tar.gz"
            with tarfile.open(component, "w:gz") as inner:
                inner.add(folder / server, server)
            whole.add(component, f"tidb-community-server-v6.0.0-linux-amd64/{component.name}")
    return packed


def test_the_servers_are_unpacked_from_the_vendors_tarball(tmp_path):
    tarball = vendors_tarball(tmp_path)
    sha256 = hashlib.sha256(tarball.read_bytes()).hexdigest()
    code, said = fetched(FETCH, tmp_path / "servers", tarball, sha256)
    assert code == 0, said
    assert sorted(one.name for one in (tmp_path / "servers").iterdir()) == sorted(SERVERS)
    assert all(one.stat().st_mode & 0o111 for one in (tmp_path / "servers").iterdir())


@pytest.mark.parametrize(
    ("servers", "sha256", "message"),
    [
        (SERVERS, "0" * 64, "has another checksum than SHA-256 0000"),
        (SERVERS[:2], "", "is no tarball that holds one for each of PD, TiKV and TiDB"),
    ],
)
def test_of_a_wrong_tarball_nothing_is_left(tmp_path, servers, sha256, message):
    code, said = fetched(FETCH, tmp_path / "servers", vendors_tarball(tmp_path, servers), sha256)
    assert code
    assert message in said
    assert not list(tmp_path.glob("servers*"))

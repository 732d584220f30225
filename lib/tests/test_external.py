"""Servers that somebody else runs: what a DSN must say, and a PostgreSQL known by its address."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchlab import target
from benchlab.engines import engine_class
from benchlab.errors import EngineError, TargetError
from benchlab.plan import AS_FOUND
from benchlab.raw import folders
from benchlab.store import open_store
from benchlab.target import EngineFound, Provisioned, external, inventory, provision
from conftest import Machine, environment, mini_study
from throwaway_postgres import ThrowawayPostgres

VARIABLE = "BENCHLAB_TEST_DSN"


def endpoint(monkeypatch, dsn: str | None, engine: str = "postgres"):
    """Read a DSN."""
    monkeypatch.delenv(VARIABLE, raising=False)
    if dsn is not None:
        monkeypatch.setenv(VARIABLE, dsn)
    return external.endpoint_of(VARIABLE, engine_class(engine))


def test_a_dsn_says_where_and_as_whom(monkeypatch):
    found = endpoint(monkeypatch, "postgresql://ada:p%40ss%2Fword@db.example:6432/bench")
    assert found.model_dump() == {
        "host": "db.example",
        "port": 6432,
        "user": "ada",
        "password": "p@ss/word",
        "database": "bench",
    }
    assert endpoint(monkeypatch, "postgres://a@h/b").port == 5432
    assert endpoint(monkeypatch, "mysql://a@h/b", "mariadb").port == 3306


@pytest.mark.parametrize(
    ("dsn", "message"),
    [
        (None, f"{VARIABLE} is not set: it is the server's DSN, such as postgresql://"),
        ("", f"{VARIABLE} is not set"),
        ("host=h password=s3cret", f"{VARIABLE} does not begin with one of postgresql://"),
        ("oracle://a:s3cret@h/b", f"{VARIABLE} does not begin with one of postgresql://"),
        ("mysql://a:s3cret@h/b", f"{VARIABLE} is a DSN of mysql; postgres speaks postgres"),
        ("postgresql://a:s3cret@h", f"{VARIABLE} must have a user, a host and a database"),
        ("postgresql://h/b", f"{VARIABLE} must have a user"),
        ("postgresql://a:s3cret@h/b?sslmode=require", f"{VARIABLE} must have .* no options"),
        ("postgresql://a:s3cret@h:port/b", f"{VARIABLE} is no DSN"),
    ],
)
def test_a_dsn_that_cannot_be_used_is_refused_without_being_shown(monkeypatch, dsn, message):
    with pytest.raises(TargetError, match=f"^{message}") as raised:
        endpoint(monkeypatch, dsn)
    assert "s3cret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_server_that_is_not_there_is_refused_with_its_reason(checkout, monkeypatch):
    monkeypatch.setenv(VARIABLE, "postgresql://ada:s3cret@127.0.0.1:1/bench")
    found = external.found(target.load(checkout, "external"), "cloud", "postgres", VARIABLE)
    assert found.refused.startswith("postgres: connection failed: ")
    assert "Connection refused" in found.refused
    assert "s3cret" not in found.model_dump_json()


def test_a_server_of_an_earlier_sweep_is_asked_again(checkout, monkeypatch):
    """What is left of a plan may be of other engines alone, and the plan has all of them."""
    monkeypatch.delenv(VARIABLE, raising=False)
    on = target.load(checkout, "external")
    earlier = EngineFound(
        engine="cloud", role="postgres", nodes=(), version="15.1", external=VARIABLE
    )
    Provisioned(deployment=on, hosts={}, engines={"cloud": earlier}).save(checkout)
    found = provision._known(checkout, on)
    assert found["cloud"].external == VARIABLE
    assert found["cloud"].refused.startswith(f"{VARIABLE} is not set: ")


def test_a_load_inside_an_engines_envelope_is_refused(checkout):
    found = external.found(target.load(checkout, "local"), "cloud", "postgres", VARIABLE)
    assert found.refused.startswith("the load would run inside the envelope of localhost")


def test_a_dsn_may_stand_in_the_vault(checkout, monkeypatch, tmp_path):
    password = tmp_path / "password"
    password.write_text("open sesame\n")
    encrypt = ("ansible-vault", "encrypt_string", "--vault-password-file", password)
    vaulted = subprocess.run(
        [*encrypt, "--name", VARIABLE, "postgresql://ada:s3cret@h/b"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "s3cret" not in vaulted
    nested = "\n".join(f"  {line}" for line in vaulted.splitlines())
    (checkout.inventories / "external/group_vars/load.yml").write_text(f"benchlab_dsn:\n{nested}\n")
    on = target.load(checkout, "external")
    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE", raising=False)
    with pytest.raises(TargetError, match=r"^inventory external: benchlab_dsn cannot be decrypted"):
        external.provide(checkout, on, [VARIABLE])
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(password))
    assert inventory.dsns(checkout, "external") == {VARIABLE: "postgresql://ada:s3cret@h/b"}
    monkeypatch.setenv(VARIABLE, "postgresql://other@h/b")
    external.provide(checkout, on, [VARIABLE])
    assert os.environ[VARIABLE] == "postgresql://other@h/b"  # what is set stays
    monkeypatch.delenv(VARIABLE)
    external.provide(checkout, on, [VARIABLE, "ANOTHER"])
    assert os.environ[VARIABLE] == "postgresql://ada:s3cret@h/b"
    monkeypatch.delenv(VARIABLE)


# A real server, known by its address


STUDY = "somebody_elses"


def somebody_elses() -> dict:
    """The small study with a server that somebody else runs; one variant asks for another setting."""
    spec = mini_study() | {"study": STUDY}
    variants = {"as_is": {}, "larger": {"shared_buffers": "77MB"}}
    engine = {"label": "cloud", "role": "postgres", "external": VARIABLE}
    spec["engines"] = {"cloud": engine | {"variants": variants, "load_variant": "as_is"}}
    spec["matrix"][0] |= {"engines": ["cloud"], "variants": list(variants)}
    spec["profiles"]["smoke"].pop("overrides")
    return spec


class Cloud(ThrowawayPostgres):
    """A PostgreSQL that nobody here provisioned, with a database and a user without further rights."""

    def __init__(self, machine: Machine, folder: Path):
        own, others = (
            "host all owner 127.0.0.1/32 trust",
            "host all all 127.0.0.1/32 scram-sha-256",
        )
        super().__init__(folder, access=f"{own}\n{others}\n")
        self.machine = machine
        self.run("CREATE ROLE ada LOGIN PASSWORD 's3cret-of-ada'")
        self.run("CREATE DATABASE bench OWNER ada")
        self.run("CREATE DATABASE closed")  # whose schema belongs to somebody else

    def dsn(self, password: str = "s3cret-of-ada", database: str = "bench") -> str:
        return f"postgresql://ada:{password}@127.0.0.1:{self.port}/{database}"

    def session(self) -> external.External:
        """An engine that is known by its address only."""
        on = target.load(self.machine.repo, "external")
        found = external.found(on, "cloud", "postgres", VARIABLE)
        assert found.refused is None, found.refused
        return external.open_session(
            target.Provisioned(deployment=on, hosts={}, engines={"cloud": found}), "cloud"
        )


@pytest.fixture(scope="module")
def cloud(machine) -> Iterator[Cloud]:
    machine.up()
    machine.write_study(STUDY, somebody_elses())
    with (
        tempfile.TemporaryDirectory(prefix="benchlab-test-", dir="/var/tmp") as folder,
        Cloud(machine, Path(folder)) as cloud,
    ):
        yield cloud


@pytest.mark.machine
def test_what_is_refused_by_the_server_is_reported_in_one_line(cloud, monkeypatch):
    on = target.load(cloud.machine.repo, "external")
    for dsn, reason in (
        (cloud.dsn(password="wrong"), 'password authentication failed for user "ada"'),
        (cloud.dsn(database="none"), 'database "none" does not exist'),
    ):
        monkeypatch.setenv(VARIABLE, dsn)
        refused = external.found(on, "cloud", "postgres", VARIABLE).refused
        assert reason in refused
        assert "\n" not in refused


@pytest.mark.machine
def test_a_database_with_other_tables_is_left_alone(cloud, monkeypatch):
    monkeypatch.setenv(VARIABLE, cloud.dsn())
    session = cloud.session()
    session.engine.query("CREATE TABLE precious (a INT)")
    with pytest.raises(EngineError, match=r"holds other tables \(precious\): name an empty one"):
        session.cold("as_is", restore="empty-0123")
    assert session.engine.tables() == {"precious"}
    session.engine.query("DROP TABLE precious")
    session.cold("as_is", restore="empty-0123")
    object.__setattr__(session.found, "version", "9.6")
    with pytest.raises(EngineError, match=r"the server has version \S+ now, planned was 9\.6"):
        session.cold("as_is")


@pytest.mark.machine
def test_a_sweep_loads_once_reads_back_and_says_what_it_cannot_see(cloud, monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, cloud.dsn())
    data = tmp_path / "data"
    run = ("run", STUDY, "--profile", "smoke", "--target", "external")
    code, said = cloud.machine.benchlab(data, *run)
    # of a variant that nobody can set there the runs fail, and no others
    assert code == 3, said
    assert "shared_buffers did not take effect" in said
    records = [folders.read(folder) for folder in folders.finished(data / "raw")]
    (one,) = (record for record in records if record.status == "ok")
    assert one.nodes == {"localhost": ("load",)}
    assert one.trial.point.start == AS_FOUND
    assert "cold" not in one.phases
    with open_store(data / "store") as store:
        assert set(store.table("os_sample", one.run_id)["subject"]) >= {"client", "host"}
        assert "engine" not in set(store.table("os_sample", one.run_id)["subject"])
        found = store.table("attribution", one.run_id)
        assert found["confidence"].max() <= 0.5
        evidence = dict(found.select("resource", "evidence").iter_rows())
        assert evidence["CPU of the engine"].startswith(
            "the engine's CPU: the server runs on none of the nodes"
        )
        assert found.filter(resource="commit latency")["utilisation"][0] is not None
    # the server ran on, and its dataset is there for the next sweep
    assert cloud.process.poll() is None
    assert len(cloud.session().snapshots()) == 1
    for path in data.rglob("*"):
        assert not (path.is_file() and b"s3cret-of-ada" in path.read_bytes()), path


@pytest.mark.machine
def test_rights_that_lack_fail_the_load_with_the_servers_words(cloud, monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, cloud.dsn(database="closed"))
    run = ("run", STUDY, "--profile", "smoke", "--target", "external", "--variant", "as_is")
    code, said = cloud.machine.benchlab(tmp_path / "data", *run)
    assert code == 3
    assert "permission denied for schema public" in said

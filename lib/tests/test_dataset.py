"""When a dataset is loaded, and when an interrupted load is gone on with: no host is reached."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchlab.errors import EngineError
from benchlab.run import dataset


class Session:
    """An engine whose data directory is a folder of the test's."""

    def __init__(self, folder: Path, external: str | None = None):
        self.found = SimpleNamespace(external=external)
        self.data_dir = folder / "data"
        self.primary, self.engine = self, None
        self.kept: set[str] = set()
        self.began_with: list[str | None] = []
        self.ends_by_itself = True

    def snapshots(self) -> set[str]:
        return self.kept

    def cold(self, variant: str, restore: str | None = None) -> None:
        self.began_with.append(restore)
        if restore:
            for path in self.data_dir.glob("*"):
                path.unlink()
            self.data_dir.mkdir(exist_ok=True)

    def run(self, *command: str) -> bytes:
        return subprocess.run(command, capture_output=True, check=True).stdout

    def write(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)

    def settle(self) -> None:
        pass

    def stop(self) -> bool:
        return self.ends_by_itself

    def snapshot(self, key: str) -> None:
        self.kept_files = [path.name for path in self.data_dir.iterdir()]
        self.kept.add(key)


class Tables:
    """Tables whose load is interrupted that many times."""

    def __init__(self, interrupted: int, goes_on: bool):
        self.left, self.goes_on = interrupted, goes_on

    def load(self, session: Session, jobs: int) -> None:
        if self.left:
            self.left -= 1
            raise EngineError("a process that loaded it was killed")

    def check(self, engine: None, kept: Path) -> None:
        pass


@pytest.mark.parametrize(
    ("interrupted", "goes_on", "external", "began_with"),
    [
        (0, True, None, ["empty-i"]),
        (1, True, None, ["empty-i", None]),
        (2, True, None, ["empty-i", None, "empty-i"]),  # the part itself may be what is wrong
        (1, False, None, ["empty-i", "empty-i"]),
        (
            1,
            True,
            "DSN",
            ["empty-i", "empty-i"],
        ),  # that it is not empty is then said by its restore
    ],
)
def test_an_interrupted_load_is_gone_on_with_once(
    monkeypatch, tmp_path, interrupted, goes_on, external, began_with
):
    tables, session = Tables(interrupted, goes_on), Session(tmp_path, external)
    monkeypatch.setattr(dataset, "tables_of", lambda _: tables)
    point = SimpleNamespace(
        engine="postgres", dataset_key="k", init_key="i", dataset=SimpleNamespace(rows=1)
    )

    def ensure() -> None:
        dataset.ensure(session, point, "tuned", tmp_path, lambda text: None)

    for _ in range(interrupted):
        with pytest.raises(EngineError):
            ensure()
    ensure()
    assert session.began_with == began_with
    assert session.kept == {"k"}
    assert session.kept_files == []
    ensure()
    assert session.began_with == began_with


def test_a_server_that_was_killed_leaves_no_dataset(monkeypatch, tmp_path):
    session = Session(tmp_path)
    session.ends_by_itself = False
    monkeypatch.setattr(dataset, "tables_of", lambda _: Tables(0, True))
    point = SimpleNamespace(
        engine="postgres", dataset_key="k", init_key="i", dataset=SimpleNamespace(rows=1)
    )
    with pytest.raises(EngineError, match=r"^postgres: killed, as it did not stop; "):
        dataset.ensure(session, point, "tuned", tmp_path, lambda text: None)
    assert session.kept == set()


def test_a_part_of_another_dataset_is_not_gone_on_with(monkeypatch, tmp_path):
    session = Session(tmp_path)
    monkeypatch.setattr(dataset, "tables_of", lambda _: Tables(1, True))
    for key in ("one", "another"):
        point = SimpleNamespace(
            engine="postgres", dataset_key=key, init_key="i", dataset=SimpleNamespace(rows=1)
        )
        with pytest.raises(EngineError):
            dataset.ensure(session, point, "tuned", tmp_path, lambda text: None)
    assert session.began_with == ["empty-i"] * 2

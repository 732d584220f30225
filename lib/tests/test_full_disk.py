"""A full disk under the results: one line that names the folder, and what was complete stays."""

import os
import subprocess
from collections.abc import Iterator

import pytest
from benchlab.errors import NotebookError, RawError, StoreError, TargetError
from benchlab.notebooks import execute_copy
from benchlab.raw import folders
from benchlab.store import ingest, open_store
from benchlab.target.host import Host

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]


@pytest.fixture
def fill(checkout) -> Iterator:
    """Put `data` on a file system of its own; return what fills it up."""
    data = checkout.raw.parent
    data.mkdir(exist_ok=True)
    before = {path.name: path.rename(checkout.root / path.name) for path in data.iterdir()}
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", data], check=True)
    for name, path in before.items():
        (data / name).symlink_to(path)

    def up() -> None:
        with pytest.raises(OSError, match="No space left"), (data / "full").open("wb") as file:
            while True:
                file.write(bytes(4096))

    yield up
    subprocess.run(["umount", data], check=True)


def test_a_run_folder_that_cannot_be_written_is_named(checkout, close_run, fill):
    fill()
    with pytest.raises(RawError, match=r"data/raw/.* cannot be written: No space left on device$"):
        close_run()


def test_a_store_that_cannot_be_written_keeps_what_it_has(checkout, close_run, batches, fill):
    first, second = batches(engines=["postgres"])[0].trials[:2]
    close_run(trial=first)
    ingest.ingest_new(checkout)
    close_run(trial=second)
    fill()
    with pytest.raises(
        StoreError, match=r"data/store cannot be written: .*No space left on device"
    ):
        ingest.ingest_new(checkout)
    with open_store(checkout.store) as opened:
        assert len(opened.runs()) == 1
    (checkout.raw.parent / "full").unlink()
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as opened:
        assert len(opened.runs()) == 2
    assert len(list(folders.finished(checkout.raw))) == 2


def test_an_export_that_cannot_be_written_leaves_nothing(checkout, close_run, fill):
    close_run()
    ingest.ingest_new(checkout)
    folder = checkout.raw.parent / "exported"
    fill()
    with open_store(checkout.store) as opened:
        with pytest.raises(StoreError, match=r"data/exported cannot be written: .*No space left"):
            opened.export(folder)
        assert not list(folder.parent.glob("*exported*"))
        (checkout.raw.parent / "full").unlink()
        opened.export(folder)


def test_an_executed_notebook_that_cannot_be_written_breaks_off(checkout, tmp_path, fill):
    template = tmp_path / "template.ipynb"
    template.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    fill()
    with pytest.raises(
        NotebookError, match=r"template\.ipynb broke off: .*No space left on device"
    ):
        execute_copy(template, checkout.raw.parent / "executed.ipynb", {}, tmp_path, None)


def test_a_loads_files_that_have_no_room_here_are_not_blamed_on_their_node(
    checkout, tmp_path, fill
):
    made = tmp_path / "made"
    made.mkdir()
    (made / "records").write_bytes(bytes(65536))
    to, node = checkout.raw.parent / "copies", Host(name="load1")
    to.mkdir()
    fill()
    with pytest.raises(TargetError, match=r"data/copies: tar: .*No space left on device$"):
        node.fetch(made, to)
    with pytest.raises(TargetError, match=r"^load1: .*/nosuch cannot be read$"):
        node.fetch(tmp_path / "nosuch", to)

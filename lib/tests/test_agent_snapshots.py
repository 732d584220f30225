"""Snapshots: a copy of the data must fit beside what the image may still grow by."""

import shutil
from types import SimpleNamespace

import pytest
from benchlab.agent.config import AgentError
from benchlab.agent.snapshots import Snapshots


def test_a_snapshot_that_would_fill_the_hosts_disk_is_refused(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "table").write_bytes(bytes(1 << 20))
    config = SimpleNamespace(engine="fake", data_dir=data, snapshot_root=tmp_path / "snapshots")
    free = shutil.disk_usage(tmp_path).free
    envelope = SimpleNamespace(image_growth=lambda: free)
    with pytest.raises(
        AgentError, match=f"takes 1048576 bytes, and the image may grow by {free}: "
    ):
        Snapshots(config, envelope).take("key")
    assert not list(config.snapshot_root.iterdir())

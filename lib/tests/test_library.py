"""The archive of benchlab's library for hosts that run a part of it."""

import tarfile

import benchlab
from benchlab.target import library
from conftest import ROOT


def test_the_archive_has_the_library_and_says_which_version_it_is(checkout):
    path = library.archive(checkout)
    with tarfile.open(path) as archive:
        names = archive.getnames()
        metadata = archive.extractfile(f"benchlab-{benchlab.__version__}.dist-info/METADATA").read()
    assert {"benchlab/drivers/tpcc/rte.py", "benchlab/drivers/tpcc/was/templates/menu.html"} <= {
        *names
    }
    assert not [name for name in names if "__pycache__" in name]
    assert f"Version: {benchlab.__version__}\n".encode() in metadata


def test_the_same_library_is_the_same_archive(checkout):
    path = library.archive(checkout)
    before = path.stat().st_mtime_ns
    assert library.archive(checkout) == path
    assert path.stat().st_mtime_ns == before
    path.unlink()
    assert library.archive(checkout) == path


def test_the_lists_of_packages_are_there():
    assert all((ROOT / name).is_file() for name in library.LOCKS)

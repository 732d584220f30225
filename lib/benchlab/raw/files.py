"""The files of a run's folder, each compared with its hash in the run's record."""

import hashlib
from functools import cache
from pathlib import Path

from benchlab.errors import ParseError

#: One row per transaction, if the driver records them; read in place, as it may have gigabytes.
TRANSACTIONS = "transactions.parquet"


def sha256(path: Path) -> str:
    """Return a file's hash in hexadecimal digits; the file is read in parts, as it may be large."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def verified(folder: Path, name: str, expected: str) -> Path:
    """Return the path of a run's file after checking that its content has the expected hash.

    Raises:
        ParseError: the file is missing, cannot be read, or was changed. The message is one line that
            names folder and file.
    """
    path = folder / name
    try:
        found = _sha256(path, path.stat().st_mtime_ns)
    except FileNotFoundError as error:
        raise ParseError(f"{folder.name}: {name} was removed after the run had ended") from error
    except OSError as error:
        raise ParseError(f"{folder.name}: {name}: {error.strerror}") from error
    if found != expected:
        raise ParseError(f"{folder.name}: {name} was changed after the run had ended")
    return path


@cache  # a session reads the same gigabytes many times
def _sha256(path: Path, mtime_ns: int) -> str:
    return sha256(path)

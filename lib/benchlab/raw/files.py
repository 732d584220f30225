"""The files of a run's folder, each held to the hash that the run's record was closed over."""

import hashlib
from functools import cache
from pathlib import Path

from benchlab.errors import ParseError

#: One row a transaction, where a driver records them; read in place, as it may be gigabytes.
TRANSACTIONS = "transactions.parquet"


def sha256(path: Path) -> str:
    """Return a file's hash in hexadecimal digits; it is read in parts, however large it is."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def verified(folder: Path, name: str, expected: str) -> Path:
    """Return the path of a run's file, if its content has the expected hash.

    Raises:
        ParseError: it is gone, cannot be read, or was changed. The message names folder and file in
            one line.
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


@cache  # a session asks for the same gigabytes again and again
def _sha256(path: Path, mtime_ns: int) -> str:
    return sha256(path)

"""benchlab's own library, as an archive for the hosts that run a part of it."""

import hashlib
import io
import tarfile
from pathlib import Path

from benchlab.repo import Repo

#: Lists of the packages that this part needs there, in the checkout: the installer's, and its own.
LOCKS = ("requirements-uv.lock", "requirements-tpcc.lock")

_PACKAGE = Path(__file__).parents[1]


def archive(repo: Repo) -> Path:
    """Return the archive (tar) of the library as it is now, named by its content."""
    content = _content()
    path = repo.targets / f"library-{hashlib.sha256(content).hexdigest()[:12]}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".tmp")
        draft.write_bytes(content)
        draft.replace(path)
    return path


def _content() -> bytes:
    """Return the archive; the same files give the same bytes."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as made:
        for path in sorted(_PACKAGE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                entry = tarfile.TarInfo(str(Path("benchlab") / path.relative_to(_PACKAGE)))
                entry.size, entry.mode = path.stat().st_size, 0o644
                with path.open("rb") as content:
                    made.addfile(entry, content)
    return written.getvalue()

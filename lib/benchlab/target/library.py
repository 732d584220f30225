"""benchlab's library as an archive, for hosts that run a part of it."""

import hashlib
import io
import tarfile
from pathlib import Path

from benchlab import __version__, atomic
from benchlab.repo import Repo

#: Lock files in the checkout: packages of the installer, and packages that the library's part needs.
LOCKS = ("requirements-uv.lock", "requirements-tpcc.lock")

_PACKAGE = Path(__file__).parents[1]


def archive(repo: Repo) -> Path:
    """Return the path of a tar archive of the present library; the name has a hash of the content."""
    content = _content()
    path = repo.targets / f"library-{hashlib.sha256(content).hexdigest()[:12]}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(path, content)
        for old in set(path.parent.glob("library-*.tar")) - {path}:
            old.unlink(missing_ok=True)
    return path


def _content() -> bytes:
    """Return the archive's bytes; the same files give the same bytes."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as made:

        def add(name: str, content: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            made.addfile(entry, io.BytesIO(content))

        for path in sorted(_PACKAGE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                add(f"{_PACKAGE.name}/{path.relative_to(_PACKAGE)}", path.read_bytes())
        # the library reads its version from the metadata of an installation
        metadata = f"Metadata-Version: 2.1\nName: benchlab\nVersion: {__version__}\n"
        add(f"benchlab-{__version__}.dist-info/METADATA", metadata.encode())
    return written.getvalue()

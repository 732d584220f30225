"""Files that their readers see either as they were or complete, never in part."""

import os
from pathlib import Path

#: Ending of a file that is still being written, or whose writer was killed.
DRAFT = ".tmp"


def write(path: Path, content: str | bytes) -> None:
    """Write a file beside its place, sync it, and rename it.

    Raises:
        OSError: it cannot be written; ``path`` stays as it was.
    """
    draft = path.with_name(path.name + DRAFT)
    with draft.open("wb") as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(path)

"""Run a load generator to its end, and read along what it prints."""

import os
import subprocess
import threading
from collections.abc import Callable

from benchlab.agent.system import keep_time

#: A program that was killed may have left a child behind that still holds its output.
_LAST_WORDS_S = 5


def run(
    argv: list[str], stdin: bytes, timeout_s: float, on_line: Callable[[bytes], None]
) -> subprocess.CompletedProcess[bytes]:
    """Run a program as :func:`subprocess.run` does, every line of its output seen as it comes.

    Args:
        argv: the program.
        stdin: what it reads.
        timeout_s: after that it is killed.
        on_line: called with each line, in a thread of its own.

    Raises:
        subprocess.TimeoutExpired: it was killed; with what it had printed.
    """
    lines: list[bytes] = []
    reading, writing = os.pipe()

    def read_along() -> None:
        keep_time()  # of this thread: under the load that it reads of, it could be a second late
        with os.fdopen(reading, "rb") as stream:
            for line in stream:
                lines.append(line)
                on_line(line)

    reader = threading.Thread(target=read_along, daemon=True)
    reader.start()

    def said() -> bytes:
        os.close(writing)
        reader.join(_LAST_WORDS_S)
        return b"".join(lines)

    try:
        done = subprocess.run(
            argv,
            input=stdin,
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        expired.output = said()
        raise
    except BaseException:
        said()
        raise
    done.stdout = said()
    return done

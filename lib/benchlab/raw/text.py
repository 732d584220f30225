"""Helpers for parsers of captures: their text, whole lines, and errors that name the line."""

from pathlib import Path
from typing import NoReturn

from benchlab.errors import ParseError


def read(path: Path) -> str:
    """Return the text of a capture; bytes that are no UTF-8 are replaced."""
    return path.read_bytes().decode(errors="replace")


def fail(program: str, line: int, problem: str) -> NoReturn:
    """Raise the error for line ``line``, counted from 1."""
    raise ParseError(f"{program}: line {line}: {problem}")


def whole_lines(
    program: str, text: str, truncated_ok: bool = False, empty_ok: bool = False
) -> list[str]:
    """Return the lines that end in a newline, without the newline.

    Only ``\\n`` ends a line: the name of a process may have any other character.

    Args:
        program: its name, for the message of an error.
        text: what it printed.
        truncated_ok: whether the text may be cut anywhere.
        empty_ok: whether it may have printed nothing.

    Raises:
        ParseError: the text is empty, or its last line has no newline, and it may not be so.
    """
    if empty_ok and not text:
        return []
    *lines, rest = text.split("\n")
    if not truncated_ok and not lines:
        fail(program, 1, "the text is empty" if not rest else "cut in the middle of the line")
    if not truncated_ok and rest:
        fail(program, len(lines) + 1, "cut in the middle of the line")
    return lines


def shown(line: str) -> str:
    """Return a line as error messages quote it."""
    return repr(line if len(line) <= 120 else line[:117] + "...")

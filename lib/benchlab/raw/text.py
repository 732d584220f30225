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


def complete_lines(text: str) -> list[str]:
    """Return the lines that end in a newline, without it, of a text that may be cut anywhere.

    Only ``\\n`` ends a line: the name of a process may have any other character.
    """
    return text.split("\n")[:-1]


def whole_lines(program: str, text: str) -> list[str]:
    """Return the same of a text that must be whole.

    Args:
        program: name of what printed it, for the message of an error.
        text: what it printed.

    Raises:
        ParseError: the text is empty, or its last line has no newline.
    """
    lines = complete_lines(text)
    if not text.endswith("\n"):
        said = "cut in the middle of the line" if text else "the text is empty"
        fail(program, len(lines) + 1, said)
    return lines


def shown(line: str) -> str:
    """Return a line as error messages quote it."""
    return repr(line if len(line) <= 120 else line[:117] + "...")

"""The errors that benchlab raises on purpose.

A message is one line: it names the thing, the set it belongs to, and the valid choices. The command
line prints it unchanged and exits with its code. Any other exception that escapes is a bug and keeps
its traceback.
"""

from collections.abc import Iterable


class BenchlabError(Exception):
    """Base of all errors that a user can act on."""

    exit_code = 1
    """Of the command line."""


class Incomplete(BenchlabError):
    """A sweep that ended without all of its runs: some failed, or a whole study was left out."""

    exit_code = 3  # 2 is that of wrong arguments


class UnknownName(BenchlabError):
    """A name that is not in the set in which it was looked up."""

    def __init__(self, kind: str, name: str, choices: Iterable[str]):
        super().__init__(f"unknown {kind} {name!r}; choose one of: {', '.join(sorted(choices))}")


class StudyError(BenchlabError):
    """A study file that cannot be used; the message names file and line."""


class ClaimError(BenchlabError):
    """A claim whose test cannot be carried out; the message names study, claim and cause."""


class TargetError(BenchlabError):
    """A target that cannot be used: no root, too little disk or memory, unreachable."""


class ProvisionError(BenchlabError):
    """A playbook that failed; the message names the host, the task and the task's error."""


class EngineError(BenchlabError):
    """An engine that did not start, stop, answer, or take a setting.

    ``code`` is the server's error code: MySQL's number or the SQL state of PostgreSQL; ``None`` if the
    server gave none.
    """

    def __init__(self, message: str, code: int | str | None = None):
        super().__init__(message)
        self.code = code


class DatasetError(BenchlabError):
    """A dataset that cannot be made, or on which an engine's answers are not the expected ones."""


class DatasetTooLarge(DatasetError):
    """A dataset too large for an engine's disk; the message says how much space it needs."""


class RunFailed(BenchlabError):
    """A run that does not count; the rest of the plan continues."""


class NotebookError(BenchlabError):
    """A notebook that stopped with an error; its executed copy shows where."""


class RawError(BenchlabError):
    """A raw folder that cannot be written, as on a full disk."""


class ParseError(BenchlabError):
    """Output of a program that cannot be parsed; the message names program and line."""


class StoreError(BenchlabError):
    """A store that cannot be opened, read or written."""


class NoRuns(StoreError):
    """A store that is in order but lacks the runs that are asked for."""

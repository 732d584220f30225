"""Everything that benchlab raises on purpose.

A message is one line: it names the thing, the set it belongs to, and the valid choices. The command
line prints it as it is and exits with 1; anything else that escapes is a bug and keeps its traceback.
"""

from collections.abc import Iterable


class BenchlabError(Exception):
    """Base of all errors that a user can act on."""


class UnknownName(BenchlabError):
    """A name that is not in the set it was looked up in."""

    def __init__(self, kind: str, name: str, choices: Iterable[str]):
        super().__init__(f"unknown {kind} {name!r}; choose one of: {', '.join(sorted(choices))}")


class StudyError(BenchlabError):
    """A study file that cannot be used; the message names file and line."""


class ClaimError(BenchlabError):
    """A claim whose test cannot be carried out; the message names study, claim and cause."""


class TargetError(BenchlabError):
    """A target that cannot be used: no root, too little disk or memory, unreachable."""


class ProvisionError(BenchlabError):
    """A playbook that failed; the message names the host, the task and its error."""


class EngineError(BenchlabError):
    """An engine that did not start, stop, answer, or take a setting.

    ``code`` is the server's own for it: MySQL's number or the SQL state of PostgreSQL, if it gave one.
    """

    def __init__(self, message: str, code: int | str | None = None):
        super().__init__(message)
        self.code = code


class DatasetError(BenchlabError):
    """A dataset that cannot be made, or that engines answer differently from."""


class DatasetTooLarge(DatasetError):
    """A dataset that an engine's disk has no space for; the message says how much it would take."""


class RunFailed(BenchlabError):
    """A run that cannot count; the rest of the plan goes on."""


class NotebookError(BenchlabError):
    """A notebook that broke off; its executed copy shows where."""


class ParseError(BenchlabError):
    """Text that is not what the program in question prints; the message names program and line."""


class StoreError(BenchlabError):
    """A store that cannot be opened, read or written."""

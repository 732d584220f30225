"""What the sessions of an engine wait for: the classes that the engines' own names are folded into."""

from enum import StrEnum


class Wait(StrEnum):
    """The classes that the engines' own names are folded into."""

    CPU = "cpu"
    """Waits for nothing: runs, or is ready to."""
    BUSY = "busy"
    """Works on a request; the engine does not report whether it runs or reads data."""
    CLIENT = "client"
    """Has nothing to do until the client asks for it."""
    LOCK = "lock"
    """For another transaction: rows, tables."""
    LATCH = "latch"
    """For a structure in memory, held for as long as it takes to change it."""
    DATA = "data"
    """For a page to be read or written."""
    LOG = "log"
    """For the log: commit, its synchronisation, room in it, a standby."""
    LIMIT = "limit"
    """For the engine itself: it slows its clients down, or has no worker for them."""

"""What the sessions of an engine wait for, in classes that are the same for all engines."""

from enum import StrEnum


class Wait(StrEnum):
    """Classes to which the engines' own names of waits are mapped."""

    CPU = "cpu"
    """Waits for nothing: runs, or is ready to."""
    BUSY = "busy"
    """Works on a request; the engine does not report whether it runs or reads data."""
    CLIENT = "client"
    """Waits for the next request of the client."""
    LOCK = "lock"
    """Waits for another transaction: for rows or tables."""
    LATCH = "latch"
    """Waits for a structure in memory, which is held only as long as it takes to change it."""
    DATA = "data"
    """Waits for a page to be read or written."""
    LOG = "log"
    """Waits for the log: a commit, its synchronisation, room in the log, or a standby."""
    LIMIT = "limit"
    """Waits for the engine itself: it slows its clients down, or has no worker for them."""

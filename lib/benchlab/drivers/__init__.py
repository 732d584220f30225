"""Drivers: the programs that make the load. Each is a folder with the same modules.

``options``  why a workload cannot set an option or run some scripts (standard library only: study files
             are read with it)
``driver``   its processes and how they end (:class:`~benchlab.drivers.base.Driver`, as ``DRIVER``)
``output``   the parser of what it prints

This module imports a driver when it is first needed.
"""

from typing import TYPE_CHECKING

from benchlab.study import kinds

if TYPE_CHECKING:
    from benchlab.drivers.base import Driver


def driver(name: str) -> "Driver":
    """Return a driver by its name.

    Raises:
        UnknownName: there is no such driver.
    """
    return kinds.part("drivers", name, "driver").DRIVER


def drivers() -> "list[Driver]":
    """Return all drivers, in the order of their names."""
    return [driver(name) for name in kinds.driver_names()]

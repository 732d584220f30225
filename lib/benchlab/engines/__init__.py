"""Engines by name."""

from benchlab.engines.base import (
    TABLE_BYTES,
    Endpoint,
    Engine,
    EngineSetting,
    without_effect,
)
from benchlab.engines.mariadb import MariaDB
from benchlab.engines.mysql import MySQL
from benchlab.engines.oceanbase import OceanBase
from benchlab.engines.postgres import Postgres
from benchlab.engines.tidb import TiDB
from benchlab.errors import UnknownName

ENGINES: dict[str, type[Engine]] = {
    cls.name: cls for cls in (Postgres, MySQL, MariaDB, OceanBase, TiDB)
}

__all__ = [
    "ENGINES",
    "TABLE_BYTES",
    "Endpoint",
    "Engine",
    "EngineSetting",
    "engine_class",
    "without_effect",
]


def engine_class(name: str) -> type[Engine]:
    """Return an engine's class by its name.

    Raises:
        UnknownName: there is none of that name.
    """
    if name not in ENGINES:
        raise UnknownName("engine", name, ENGINES)
    return ENGINES[name]

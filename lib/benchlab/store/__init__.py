"""The store: everything derived from the raw folders, in tables, and which of it counts."""

from benchlab.store.database import (
    RUN_TABLES,
    SCHEMA_VERSION,
    STUDY_TABLES,
    Store,
    open_any,
    open_store,
)

__all__ = ["RUN_TABLES", "SCHEMA_VERSION", "STUDY_TABLES", "Store", "open_any", "open_store"]

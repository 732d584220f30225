"""The store: tables of everything derived from the raw folders, and which runs count."""

from benchlab.store.database import Store, open_any, open_store
from benchlab.store.schema import RUN_TABLES, SCHEMA_VERSION, STUDY_TABLES

__all__ = ["RUN_TABLES", "SCHEMA_VERSION", "STUDY_TABLES", "Store", "open_any", "open_store"]

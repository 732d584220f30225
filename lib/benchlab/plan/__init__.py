"""Plans: the trials of a study's profile, and their order."""

from benchlab.plan.batch import Batch, label, largest_envelope
from benchlab.plan.envelope import connections_memory_bytes, fixed_memory_bytes
from benchlab.plan.plan import Plan
from benchlab.plan.planner import Planner, init_of, resolve_settings, selected, settings_of
from benchlab.plan.point import (
    AS_FOUND,
    Point,
    Trial,
    content_key,
    init_key,
    upgraded_start,
)

__all__ = [
    "AS_FOUND",
    "Batch",
    "Plan",
    "Planner",
    "Point",
    "Trial",
    "connections_memory_bytes",
    "content_key",
    "fixed_memory_bytes",
    "init_key",
    "init_of",
    "label",
    "largest_envelope",
    "resolve_settings",
    "selected",
    "settings_of",
    "upgraded_start",
]

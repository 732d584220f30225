"""Attribution by evidence: which resource bound a run, according to its captures."""

from benchlab.attribution.table import attribute, binding
from benchlab.attribution.timeline import TABLES

__all__ = ["TABLES", "attribute", "binding"]

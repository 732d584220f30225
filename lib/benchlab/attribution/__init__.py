"""Attribution by evidence: which resource bound a run, as its captures show it."""

from benchlab.attribution.resources import NONE, RESOURCES, UNKNOWN
from benchlab.attribution.table import attribute, binding

__all__ = ["NONE", "RESOURCES", "UNKNOWN", "attribute", "binding"]

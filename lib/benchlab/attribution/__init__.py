"""Attribution by evidence: which resource bound a run, according to its captures."""

from benchlab.attribution.table import attribute, binding
from benchlab.study.resources import NONE, RESOURCES, UNKNOWN

__all__ = ["NONE", "RESOURCES", "UNKNOWN", "attribute", "binding"]

"""Attribution by evidence: which resource bound a run, according to its captures."""

from benchlab.attribution.table import attribute, binding

__all__ = ["attribute", "binding"]

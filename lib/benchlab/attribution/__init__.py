"""Attribution: which resource bound a run, with the evidence."""

from benchlab.attribution.utilisation import attribute

__all__ = ["attribute"]

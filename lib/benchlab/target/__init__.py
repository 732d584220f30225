"""Targets: the hosts that a run uses, how they are reached, and what provisioning made of them."""

from benchlab.target.inventory import Target, instance_type, load, names
from benchlab.target.provisioned import EngineFound, Provisioned, provisioned

__all__ = [
    "EngineFound",
    "Provisioned",
    "Target",
    "instance_type",
    "load",
    "names",
    "provisioned",
]

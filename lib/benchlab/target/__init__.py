"""Targets: the nodes that a run uses, how they are reached, and what provisioning found on them."""

from benchlab.target.deployment import Deployment, Node
from benchlab.target.inventory import instance_type, load, names
from benchlab.target.provisioned import EngineFound, Provisioned, provisioned

__all__ = [
    "Deployment",
    "EngineFound",
    "Node",
    "Provisioned",
    "instance_type",
    "load",
    "names",
    "provisioned",
]

"""Studies: what an article measured and claims, as stated in the files in ``paper/studies``.

Importing this package loads neither DuckDB nor Polars, so commands that only read a study start at
once.
"""

from benchlab.study.blocks import (
    PROFILES,
    Block,
    InterventionPoint,
    OpenLoop,
    OutcomesBlock,
    SingleWritesBlock,
)
from benchlab.study.engine import EngineSpec, LogDisk
from benchlab.study.envelope import DEFAULT_ENVELOPE, EnvelopeRule, EnvelopeSpec, Instance
from benchlab.study.files import load, load_rerun, names, names_with, parse
from benchlab.study.kinds import Dataset, DatasetModel
from benchlab.study.model import Article, Study, Workload
from benchlab.study.profile import Profile
from benchlab.study.settings import OfMemory, Scaled, Settings
from benchlab.study.strict import Scalar

__all__ = [
    "DEFAULT_ENVELOPE",
    "PROFILES",
    "Article",
    "Block",
    "Dataset",
    "DatasetModel",
    "EngineSpec",
    "EnvelopeRule",
    "EnvelopeSpec",
    "Instance",
    "InterventionPoint",
    "LogDisk",
    "OfMemory",
    "OpenLoop",
    "OutcomesBlock",
    "Profile",
    "Scalar",
    "Scaled",
    "Settings",
    "SingleWritesBlock",
    "Study",
    "Workload",
    "load",
    "load_rerun",
    "names",
    "names_with",
    "parse",
]

"""Studies: what an article measured and claims, as stated in the files in ``paper/studies``.

Importing this package loads neither DuckDB nor Polars, so commands that only read a study start at
once.
"""

from benchlab.study.files import load, load_rerun, names, names_with, parse
from benchlab.study.kinds import Dataset, DatasetModel
from benchlab.study.model import (
    DEFAULT_ENVELOPE,
    PROFILES,
    Article,
    Block,
    EngineSpec,
    EnvelopeRule,
    EnvelopeSpec,
    Instance,
    InterventionPoint,
    LogDisk,
    OfMemory,
    OpenLoop,
    OutcomesBlock,
    Profile,
    Scaled,
    Settings,
    SingleWritesBlock,
    Study,
    Workload,
)
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

"""Studies: what an article measured and claims, as the files in ``paper/studies`` state it.

Importing this package loads neither DuckDB nor Polars, so that commands that only read a study start
at once.
"""

from benchlab.study.files import load, load_rerun, names, names_rerun, names_with, parse
from benchlab.study.model import (
    DEFAULT_ENVELOPE,
    PROFILES,
    Article,
    Block,
    Dataset,
    EngineSpec,
    EnvelopeRule,
    EnvelopeSpec,
    Instance,
    OfMemory,
    OpenLoop,
    Perturbed,
    Profile,
    Scalar,
    Settings,
    SpecTree,
    Study,
    SysbenchTables,
    Workload,
)

__all__ = [
    "DEFAULT_ENVELOPE",
    "PROFILES",
    "Article",
    "Block",
    "Dataset",
    "EngineSpec",
    "EnvelopeRule",
    "EnvelopeSpec",
    "Instance",
    "OfMemory",
    "OpenLoop",
    "Perturbed",
    "Profile",
    "Scalar",
    "Settings",
    "SpecTree",
    "Study",
    "SysbenchTables",
    "Workload",
    "load",
    "load_rerun",
    "names",
    "names_rerun",
    "names_with",
    "parse",
]

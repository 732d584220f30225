"""The paths of one checkout's folders."""

import os
from dataclasses import dataclass
from pathlib import Path

from benchlab.errors import BenchlabError

_MARKER = Path("paper") / "studies"


@dataclass(frozen=True)
class Repo:
    """The folders of one checkout."""

    root: Path

    @property
    def studies(self) -> Path:
        """One YAML file per study."""
        return self.root / "paper" / "studies"

    @property
    def inventories(self) -> Path:
        """One folder per target."""
        return self.ansible / "inventories"

    @property
    def ansible(self) -> Path:
        """Roles, playbooks and inventories."""
        return self.root / "ansible"

    @property
    def notebooks(self) -> Path:
        """Run templates, analysis notebooks, and the notebook to start exploring with."""
        return self.root / "notebooks"

    @property
    def data(self) -> Path:
        """Everything measured; ``BENCHLAB_DATA`` overrides the path (tests, a larger disk).

        A relative path is one in the checkout, as processes have different working directories.
        """
        return self.root / (os.environ.get("BENCHLAB_DATA") or "data")

    @property
    def raw(self) -> Path:
        """One folder per run, append-only."""
        return self.data / "raw"

    @property
    def plans(self) -> Path:
        """The plans, one file each."""
        return self.raw / "plans"

    @property
    def answers(self) -> Path:
        """Wrong answers of engines, each beside the expected one."""
        return self.raw / "answers"

    @property
    def targets(self) -> Path:
        """What provisioning found on each target, one JSON file each."""
        return self.data / "targets"

    @property
    def store(self) -> Path:
        """The store, a folder of Parquet files; rebuildable from ``raw``."""
        return self.data / "store"

    @property
    def reference(self) -> Path:
        """The reference result set that the analysis notebooks are compared with."""
        return self.root / "data" / "reference"

    @property
    def reruns(self) -> Path:
        """Verdicts of other reruns than those of the reference result set."""
        return self.root / "data" / "reruns.csv"

    @property
    def simulated(self) -> Path:
        """Results of simulations that use the reference's spreads."""
        return self.root / "data" / "simulated"

    @property
    def build(self) -> Path:
        """Output folder of the paper."""
        return self.root / "paper" / "build"


def find() -> Repo:
    """Return the checkout around the working directory, else the one that holds this package.

    Raises:
        BenchlabError: neither is a benchlab checkout.
    """
    here = Path.cwd().resolve()
    for folder in (here, *here.parents, *Path(__file__).resolve().parents):
        if (folder / _MARKER).is_dir():
            return Repo(folder)
    raise BenchlabError(f"no benchlab checkout at {here}: no {_MARKER}/ in it or above it")

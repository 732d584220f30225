"""The two methods that the labelled set tests, and the answer that each should give for a label."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl
from benchlab.attribution import binding as bound_by
from benchlab.attribution import blocks
from benchlab.attribution.elasticity import BINDING, Answer
from benchlab.observers.sessions import NAME as WAITS
from benchlab.raw.record import Record
from benchlab.repo import Repo
from benchlab.store import ingest
from benchlab.study.intervention import LimitBlocks
from benchlab.study.resources import DISK, ENGINE_CPU, LOWERED, RESOURCES, UNKNOWN

#: Expected answer of the intervention if none of its limits was made the bottleneck.
NO_LIMIT = "none that was lowered"

#: Capture with the output of sysbench in the measured part.
_LOAD = "sysbench.out"

#: Limits are lowered further than in a study, so that few short blocks show an effect despite bursts.
_BLOCKS = LimitBlocks(factor=0.5, block_s=3, blocks=4)

#: For cases in which the first blocks leave a limit unclear.
_MORE_BLOCKS = _BLOCKS.model_copy(update={"blocks": 8})


@dataclass(frozen=True)
class Method:
    """A way to decide what bound a run."""

    name: str
    intervention: LimitBlocks | None
    """Intervention in its runs; ``None`` if they are only observed."""
    captures: tuple[str, ...]
    """Captures of a run that it reads."""
    tell: Callable[[Repo, Record], tuple[str, str]]
    """Returns its answer for a run that counts, and the reason."""
    expected: Callable[[str], str]
    """Returns its expected answer for a label."""
    answers: tuple[str, ...]
    """All its answers, in the order of its confusion matrix."""
    again: "Method | None" = None
    """The same method with more blocks. If this one answers *unknown*, that one's answer counts."""

    @property
    def folder(self) -> str:
        """Name of the folder that keeps its runs."""
        return f"{self.name}-{self.intervention.blocks}" if self.intervention else self.name


def _by_evidence(repo: Repo, record: Record) -> tuple[str, str]:
    found: pl.DataFrame = ingest.rows(repo.raw / record.run_id)["attribution"]
    answer = bound_by(found)
    rows = found.filter(pl.col("resource") == answer)
    return answer, rows["evidence"][0] if len(rows) else found["evidence"][0]


def _by_intervention(repo: Repo, record: Record) -> tuple[str, str]:
    tables = ingest.rows(repo.raw / record.run_id)
    if "elasticity" not in tables:
        return UNKNOWN, "no block came to its end"
    found = tables["elasticity"]
    why = "; ".join(
        f"{row['resource']} {row['answer']}"
        + ("" if row["low"] is None else f", {row['low']:.2f} to {row['high']:.2f}")
        for row in found.iter_rows(named=True)
    )
    binding = found.filter(pl.col("answer").is_in(BINDING)).sort("elasticity", descending=True)
    if not binding.is_empty():
        return binding["resource"][0], why
    return (NO_LIMIT if (found["answer"] == Answer.DOES_NOT).all() else UNKNOWN), why


def _lowered(label: str) -> str:
    if label == ENGINE_CPU:
        return LOWERED["cpu"].name
    return label if label in {rate.name for rate in DISK} else NO_LIMIT


_EVIDENCE = Method(
    "evidence",
    None,
    ("host.json", "sample.jsonl", WAITS, _LOAD),
    _by_evidence,
    lambda label: label,
    (*RESOURCES, UNKNOWN),
)
_LONGER = Method(
    "intervention",
    _MORE_BLOCKS,
    (blocks.FILE, _LOAD),
    _by_intervention,
    _lowered,
    (*(resource.name for resource in LOWERED.values()), NO_LIMIT, UNKNOWN),
)
METHODS = (_EVIDENCE, replace(_LONGER, intervention=_BLOCKS, again=_LONGER))

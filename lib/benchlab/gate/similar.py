"""Similar: whether curves were measured under conditions similar to the article's.

Pages outside the buffer pool are read from the disk. So the ratio of dataset to buffer pool decides
what binds, and a curve with another ratio shows nothing about the article's. The same is true of a
server that is not the whole engine, and of a server that is not scaled like the engines compared with
it.
"""

from collections import defaultdict
from typing import TYPE_CHECKING

import polars as pl

from benchlab.engines import engine_class
from benchlab.gate import sizes
from benchlab.numbers import number

if TYPE_CHECKING:
    from benchlab.store.results import Rerun

#: Name of the check.
SIMILAR = "similar"

#: Factor up to which two ratios count as similar.
WITHIN = 1.5


def is_similar(article: float, here: float) -> bool:
    """Return whether two ratios of dataset to buffer pool are similar.

    They differ by a factor of :data:`WITHIN` at most, or both are below 1: all of the dataset fits.
    """
    low, high = sorted((article, here))
    return high <= low * WITHIN or high < 1


def dissimilar(rerun: "Rerun") -> dict[tuple[str, str], str]:
    """Return (engine, variant) of the curves that are not similar → the reasons.

    Curves with an unknown ratio count as similar.
    """
    found = defaultdict(list)
    curves = rerun.counted.select("engine", "variant", "engine_version").unique(maintain_order=True)
    scaled = rerun.study.profile(rerun.profile).envelope is not None
    engines = rerun.study.engines
    # an engine that the study had when it was run may be gone by now
    curves = curves.filter(pl.col("engine").is_in(list(engines)))
    external = {one for one in curves["engine"] if engines[one].external}
    for engine, variant, version in curves.iter_rows():
        if scaled and engine in external and set(curves["engine"]) - external:
            found[engine, variant].append(
                f"profile {rerun.profile} scales the others and not {rerun.study.label(engine)},"
                " which somebody else runs"
            )
        if reason := engine_class(rerun.study.role(engine)).shortcoming(version):
            found[engine, variant].append(f"{rerun.study.label(engine)} {version}: {reason}")
    for one in sizes.settings(rerun):
        if one.name == sizes.pool(rerun.study, one.engine):
            ratios = {
                name: sizes.ratio(size, one.sides)
                for name, size in sizes.datasets(rerun, one.engine).items()
            }
            if not any(None in sides or is_similar(*sides) for sides in ratios.values()):
                found[one.engine, one.variant] += [
                    f"{name} : buffer pool is {number(here)} here and {number(article)} in the article"
                    for name, (article, here) in ratios.items()
                ]
    return {curve: "; ".join(reasons) for curve, reasons in found.items()}

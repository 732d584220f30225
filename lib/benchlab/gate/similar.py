"""Similar: whether a dataset is to the buffer pool, and the server to its store, as in the article.

What the pool does not hold is read from the disk. So this ratio decides what binds, and a curve of
another one tells nothing of the article's. Nor does that of a server which is not the whole engine, or
which nobody scales as the engines beside it are.
"""

from typing import TYPE_CHECKING

from benchlab.engines import engine_class
from benchlab.gate import sizes
from benchlab.numbers import number

if TYPE_CHECKING:
    from benchlab.store.results import Rerun

#: Name of the check.
SIMILAR = "similar"

#: Factor up to which two ratios count as one.
WITHIN = 1.5


def is_similar(article: float, here: float) -> bool:
    """Return whether two ratios of dataset to buffer pool stand for the same.

    They differ by :data:`WITHIN` at most, or are below 1 both: all of the dataset fits.
    """
    low, high = sorted((article, here))
    return high <= low * WITHIN or high < 1


def dissimilar(rerun: "Rerun") -> dict[tuple[str, str], str]:
    """Return engine and variant of the curves that are not similar, with the reason.

    Where a ratio is unknown, the curves are not among them.
    """
    found = {}
    curves = rerun.counted.select("engine", "variant", "engine_version").unique(maintain_order=True)
    scaled = rerun.study.profile(rerun.profile).envelope is not None
    engines = rerun.study.engines
    external = {one for one in curves["engine"] if one in engines and engines[one].external}
    for engine, variant, version in curves.iter_rows():
        if scaled and engine in external and set(curves["engine"]) - external:
            found[engine, variant] = (
                f"profile {rerun.profile} scales the others and not {rerun.study.label(engine)},"
                " which somebody else runs"
            )
        if reason := engine_class(rerun.study.role(engine)).shortcoming(version):
            found[engine, variant] = f"{rerun.study.label(engine)} {version}: {reason}"
    for one in sizes.settings(rerun):
        if one.name == sizes.pool(rerun.study, one.engine):
            article, here = sizes.ratio(sizes.dataset(rerun, one.engine), one.sides)
            if None not in (article, here) and not is_similar(article, here):
                ratios = f"{number(here)} here and {number(article)} in the article"
                found[one.engine, one.variant] = f"dataset : buffer pool is {ratios}"
    return found

"""Counters that an engine's services print for Prometheus, at the start and end of a measured part.

The captures ``metrics-<service>-begin.txt`` and ``-end.txt`` are the pages as the services print them.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping

import polars as pl

from benchlab.errors import ParseError

SCHEMA = {"name": pl.String, "at_begin": pl.Float64, "at_end": pl.Float64}

#: Moments at which pages are kept.
MOMENTS = ("begin", "end")

#: Name, among the counters of a moment, of the time at which they were read, in Unix seconds.
COUNTED_AT = "counted_at_s"

_NAME = re.compile(rf"metrics-(?P<service>.+)-(?P<moment>{'|'.join(MOMENTS)})\.txt")

#: Ends of the names of samples that only say how others are distributed.
_DISTRIBUTION = ("_bucket", "_created")


def name(service: str, moment: str) -> str:
    """Return the name of the capture of a service's page."""
    return f"metrics-{service}-{moment}.txt"


def services(captures: Iterable[str]) -> Iterator[str]:
    """Yield the services that have pages of both moments.

    Args:
        captures: names of the captures of one node.
    """
    captures = set(captures)
    found = [match for one in captures if (match := _NAME.fullmatch(one))]
    for service in sorted({match["service"] for match in found}):
        if all(name(service, moment) in captures for moment in MOMENTS):
            yield service


def counters(service: str, begin: str, end: str) -> pl.DataFrame:
    """Return rows of ``engine_counter``: what changed between two pages of a service.

    A name is that of the service, a dot, and that of the sample with its labels. It follows
    OpenMetrics: the name of a counter ends in ``_total``. A sample that is on only one page is null at
    the other moment.

    Raises:
        ParseError: a page is not in Prometheus' text format.
    """
    before, after = (_samples(service, page) for page in (begin, end))
    names = sorted(before.keys() | after.keys())
    rows = [(f"{service}.{one}", before.get(one), after.get(one)) for one in names]
    changed = [row for row in rows if row[1] != row[2]]
    return pl.DataFrame(changed, schema=SCHEMA, orient="row")


def _samples(service: str, page: str) -> dict[str, float]:
    # imported here because it brings a web server along, and few runs need it
    from prometheus_client.parser import text_string_to_metric_families

    try:
        samples = [
            sample
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if not sample.name.endswith(_DISTRIBUTION) and "quantile" not in sample.labels
        ]
    except ValueError as error:
        raise ParseError(f"{service}: no page of counters: {error}") from error
    return {
        f"{one.name}{_labels(one.labels)}": one.value for one in samples if math.isfinite(one.value)
    }


def _labels(labels: Mapping[str, str]) -> str:
    listed = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    return f"{{{listed}}}" if listed else ""

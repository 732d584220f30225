"""Rows of ``os_sample``, as the parsers of the observers collect them."""

import json

import polars as pl

from benchlab.errors import ParseError

OS_SAMPLE_SCHEMA = {
    "t": pl.Float64,
    "observer": pl.String,
    "subject": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
}

KIB = 1024


class OsSamples:
    """Collects rows of ``os_sample`` from one observer."""

    def __init__(self, observer: str):
        self._observer = observer
        self._rows: list[tuple[float, str, str, float]] = []

    def add(self, t: float, subject: str, metric: str, value: float) -> None:
        """Add one row."""
        self._rows.append((t, subject, metric, value))

    def frame(self) -> pl.DataFrame:
        """Return the rows in the order in which they were added."""
        schema = {name: OS_SAMPLE_SCHEMA[name] for name in ("t", "subject", "metric", "value")}
        rows = pl.DataFrame(self._rows, schema=schema, orient="row")
        return rows.with_columns(pl.lit(self._observer).alias("observer")).select(*OS_SAMPLE_SCHEMA)


def of_one_value(text: str, observer: str, subject: str, metric: str) -> pl.DataFrame:
    """Return the row of a capture that is one JSON object with ``t`` (Unix seconds) and the metric.

    Raises:
        ParseError: the text is something else.
    """
    found = OsSamples(observer)
    try:
        content = json.loads(text)
        found.add(float(content["t"]), subject, metric, float(content[metric]))
    except (ValueError, TypeError, KeyError) as error:
        raise ParseError(f"{observer}: {error!r}") from error
    return found.frame()

"""Rows in the binary format of PostgreSQL's COPY (documentation of PostgreSQL 15, COPY, Binary Format).

No number is converted to text and back. Adjacent columns of a fixed length become one structured
array; texts of different lengths, and columns with nulls, are put between such arrays.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"

#: Base of the digits of a numeric.
_BASE = 10_000
_NEGATIVE = 0x4000

#: 1 January 2000 in Unix microseconds: timestamps count from there.
_EPOCH_US = 946_684_800_000_000

_LENGTH = np.dtype(">i4")
_NULL = -1
_NOTHING = pa.scalar(b"", pa.large_binary())

#: Rows of a structured array that are filled at once: so many fit into a CPU's cache.
_AT_ONCE = 2048

#: Columns of a structured array: type, and values or one value for all rows.
_Fields = list[tuple[np.dtype, np.ndarray | int]]


def encode(rows: pl.DataFrame) -> memoryview:
    """Return the rows as COPY reads them, between :data:`HEADER` and :data:`TRAILER`.

    Args:
        rows: at least one row. Int16, Int32, Int64, Decimal, Datetime("us") and String are for columns
            of smallint, integer, bigint, numeric, timestamp, and any kind of text (without nulls).
    """
    parts = list(_parts(rows))
    joined = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _NOTHING)
    _, offsets, content = joined.buffers()
    begin, end = np.frombuffer(offsets, np.int64)[[0, len(rows)]]
    return memoryview(content).cast("B")[begin:end]


def _parts(rows: pl.DataFrame) -> Iterator[pa.LargeBinaryArray]:
    """Yield the parts that rows are joined from; each has a value for every row."""
    fields: _Fields = [(np.dtype(">i2"), rows.width)]
    for series in rows.iter_columns():
        of_column, varying = _column(series)
        fields += of_column
        if varying is not None:
            yield _fixed(fields, len(rows))
            yield varying
            fields = []
    if fields:
        yield _fixed(fields, len(rows))


def _column(series: pl.Series) -> tuple[_Fields, pa.LargeBinaryArray | None]:
    """Return the fields of a column, the length first, and its values apart if their lengths differ."""
    if series.dtype == pl.String:
        return _texts(series)
    fields = _value(series)
    length = sum(type_.itemsize for type_, _ in fields)
    if not series.null_count():
        return [(_LENGTH, length), *fields], None
    is_null = series.is_null().to_numpy()
    values = _fixed(fields, len(series))
    return [(_LENGTH, np.where(is_null, _NULL, length))], pc.if_else(is_null, _NOTHING, values)


def _texts(series: pl.Series) -> tuple[_Fields, pa.LargeBinaryArray | None]:
    """See :func:`_column`; texts that all have the same length are fields, too."""
    texts = series.to_arrow().cast(pa.large_binary())
    _, offsets, content = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset :][: len(texts) + 1]
    lengths = np.diff(ends)
    length = int(lengths[0])
    if not length or (lengths != length).any():
        return [(_LENGTH, lengths)], texts
    type_ = np.dtype((np.void, length))
    return [(_LENGTH, length), (type_, np.frombuffer(content, type_, len(texts), ends[0]))], None


def _value(series: pl.Series) -> _Fields:
    """Return a column's values in the format of the server's types, without their length."""
    if isinstance(series.dtype, pl.Decimal):
        return _numeric(series)
    values = series.to_physical().fill_null(0).to_numpy()
    if isinstance(series.dtype, pl.Datetime):
        values = values - _EPOCH_US
    return [(values.dtype.newbyteorder(">"), values)]


def _numeric(series: pl.Series) -> _Fields:
    """Return decimal numbers as PostgreSQL's numeric, which drops the zeros at both ends."""
    scale, values = series.dtype.scale, series.to_arrow()
    halves = np.frombuffer(values.buffers()[1], np.int64)[2 * values.offset :]
    units = halves[: 2 * len(values) : 2]  # the lower halves; 18 digits need no more
    whole, places = np.divmod(np.abs(units), 10**scale)
    digits = [places * (_BASE // 10**scale)]
    while whole.any():
        whole, digit = np.divmod(whole, _BASE)
        digits.insert(0, digit)
    word = np.dtype(">u2")
    return [
        (word, len(digits)),
        (np.dtype(">i2"), len(digits) - 2),  # weight of the first digit
        (word, np.where(units < 0, _NEGATIVE, 0)),
        (word, scale),
        *((word, digit) for digit in digits),
    ]


def _fixed(fields: _Fields, n: int) -> pa.LargeBinaryArray:
    """Return a value for each row: its fields one after another."""
    made = np.empty(n, np.dtype([(str(number), type_) for number, (type_, _) in enumerate(fields)]))
    for begin in range(0, n, _AT_ONCE):
        block = made[begin : begin + _AT_ONCE]
        for number, (_, values) in enumerate(fields):
            one = np.ndim(values) == 0
            block[str(number)] = values if one else values[begin : begin + _AT_ONCE]
    ends = np.arange(0, (n + 1) * made.itemsize, made.itemsize)
    return _binary(ends, made)


def _binary(ends: np.ndarray, content: np.ndarray) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(content)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends) - 1, buffers)

"""The records of a process, in memory until its end: 60 bytes a row, in preallocated blocks."""

import struct
from pathlib import Path
from typing import TYPE_CHECKING

from benchlab.workloads.tpcc.dataset import TYPES

if TYPE_CHECKING:
    import polars as pl

#: Value for null; no column has negative numbers.
NONE = -1

#: Column of :data:`records.RECORDS` → its packed type. A text is its index among the possible texts.
_COLUMNS = {
    "terminal": "i4",
    "w_id": "i4",
    "type": "i1",
    "due_us": "i8",
    "sent_us": "i8",
    "answered_us": "i8",
    "menu_us": "i4",
    "menu_late_us": "i4",
    "keying_us": "i4",
    "think_us": "i4",
    "status": "i1",
    "retries": "i2",
    "lines": "i1",
    "remote_lines": "i1",
    "remote": "i1",
    "by_name": "i1",
    "o_id": "i4",
}
_CODES = {"i1": "b", "i2": "h", "i4": "i", "i8": "q"}
_ROW = struct.Struct("<" + "".join(_CODES[kind] for kind in _COLUMNS.values()))

_ROWS_OF_A_BLOCK = 1 << 16


class Log:
    """Rows in the order in which they are added."""

    def __init__(self) -> None:
        self._blocks = [bytearray(_ROW.size * _ROWS_OF_A_BLOCK)]
        self._offset = 0

    def __len__(self) -> int:
        return (len(self._blocks) - 1) * _ROWS_OF_A_BLOCK + self._offset // _ROW.size

    def add(self, *values: int) -> None:
        """Add a row: the columns of :data:`records.RECORDS`, :data:`NONE` for null."""
        if self._offset == len(self._blocks[-1]):
            self._blocks.append(bytearray(_ROW.size * _ROWS_OF_A_BLOCK))
            self._offset = 0
        _ROW.pack_into(self._blocks[-1], self._offset, *values)
        self._offset += _ROW.size

    def frame(self) -> "pl.DataFrame":
        """Return all rows, with the schema :data:`records.RECORDS`."""
        # these modules take 45 MB, which terminals do not need while they run
        import numpy as np
        import polars as pl

        from benchlab.drivers.tpcc.records import RECORDS, STATUSES

        kinds = np.dtype([(name, f"<{kind}") for name, kind in _COLUMNS.items()])
        rows = np.concatenate([np.frombuffer(block, kinds) for block in self._blocks])[: len(self)]
        numbers = pl.DataFrame({name: np.ascontiguousarray(rows[name]) for name in _COLUMNS})
        texts = {"type": TYPES, "status": STATUSES}
        return numbers.select(
            pl.col(name).replace_strict(dict(enumerate(texts[name])), return_dtype=kind)
            if name in texts
            else pl.when(pl.col(name) != NONE).then(pl.col(name)).cast(kind)
            for name, kind in RECORDS.items()
        )

    def write(self, path: Path) -> None:
        """Write all rows as Parquet; the file appears only when it is whole."""
        part = path.with_suffix(".part")
        self.frame().write_parquet(part)
        part.rename(path)

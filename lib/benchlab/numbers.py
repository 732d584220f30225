"""Numbers as people read them: thousands separated, three significant digits, a real minus."""

import math
import re
from collections.abc import Sequence

import polars as pl

MINUS = "\N{MINUS SIGN}"
NOTHING = "\N{EN DASH}"

#: A cell such as `1,663 (1,580 to 1,702)`, `±3 %` or `≥ 0.9`: no letters but `to` and the `e` of
#: an exponent.
NUMERAL = re.compile(r"[<>≤≥≈~=±+−-]?\s*\d(?:[\d\s.,:e+−–\-±×%\[\]()/…*†]|\bto\b)*")

#: Significant digits that ratios and correlations are shown with.
DIGITS = 3

#: A float below or above these is shown with an exponent, as its zeros are hard to count. No count of
#: bytes is that large.
_SMALLEST, _LARGEST = 1e-9, 1e16


def rounded(*names: str) -> list[pl.Expr]:
    """Return columns rounded to :data:`DIGITS`."""
    return [pl.col(name).round_sig_figs(DIGITS) for name in names]


def number(value: float | None, decimals: int | None = None) -> str:
    """Text of one number; without `decimals`, a float keeps three significant digits or more.

    Such a float is shown with an exponent if it is very small or large. The ends of an interval may
    be: that of two trials that differ is wide.
    """
    if value is None:
        return NOTHING
    if math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if decimals is None and isinstance(value, int):
        decimals = 0
    if decimals is None:
        if value and not _SMALLEST <= abs(value) < _LARGEST:
            return f"{value:.2e}".replace("-", MINUS)
        decimals = _decimals(value)
    text = f"{abs(value):,.{decimals}f}"
    return f"{MINUS}{text}" if value < 0 and text.strip("0.,") else text


def with_interval(value: float, low: float | None, high: float | None) -> str:
    """Text of a number and its interval, if it has one: `1.23 (1.10 to 1.38)`."""
    has_interval = low is not None and high is not None and low != high
    return number(value) + (f" ({number(low)} to {number(high)})" if has_interval else "")


def percent(value: float | None, decimals: int = 0) -> str:
    """Text of a fraction as a percentage: 0.93 → `93 %`."""
    return NOTHING if value is None else f"{number(value * 100, decimals)}\N{NO-BREAK SPACE}%"


def column_texts(column: pl.Series) -> list[str]:
    """Cells of one table column; all floats of a column share their number of decimals.

    The largest value determines the decimals. A value that they would show as 0 keeps three
    significant digits instead.
    """
    values = column.to_list()
    if column.dtype == pl.Boolean:
        return [NOTHING if value is None else "yes" if value else "no" for value in values]
    if not column.dtype.is_numeric():
        return [NOTHING if value is None else str(value) for value in values]
    if column.dtype.is_integer():
        return [number(value) for value in values]
    floats = [None if value is None else float(value) for value in values]
    finite = [abs(value) for value in floats if value is not None and math.isfinite(value)]
    decimals = _decimals(max(finite, default=0.0))
    return [_cell(value, decimals) for value in floats]


def is_numeric(column: pl.Series, texts: Sequence[str]) -> bool:
    """Whether a column is aligned right: numbers, or text that has only numerals."""
    if column.dtype.is_numeric():
        return True
    shown = [text for text in texts if text not in {NOTHING, "—", "-", "n/a", ""}]
    return bool(shown) and all(NUMERAL.fullmatch(text.strip()) for text in shown)


def _cell(value: float | None, decimals: int) -> str:
    if value is None or value == 0 or not math.isfinite(value):
        return number(value, decimals)
    vanishes = round(abs(value), decimals) == 0
    return number(value) if vanishes else number(value, decimals)


def _decimals(value: float) -> int:
    """Decimals that show three significant digits of `value`, and all digits of its integer part."""
    if value == 0 or not math.isfinite(value):
        return 0
    rounded = float(f"{abs(value):.3g}")  # 0.09999 is shown as 0.100
    return max(0, 2 - math.floor(math.log10(rounded)))

"""Arguments of TPC-C's programs."""

import argparse
from collections.abc import Callable


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers from ``least`` to ``most``; ``None``: no upper limit."""
    wanted = f"{least} or more" if most is None else f"{least} to {most}"

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"not a whole number of {wanted}: {text!r}")
        return value

    return number

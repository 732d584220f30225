"""Random texts by the hundred thousand: a buffer of random characters, cut into texts.

The texts of an array are stored one after another in a single buffer, so no text is a Python object.
"""

import string

import numpy as np
import pyarrow as pa

#: The characters of a random a-string, all equally likely (clause 4.3.2.2).
ALPHABET = string.ascii_lowercase + string.ascii_uppercase + string.digits


def _pairs(alphabet: str) -> np.ndarray:
    """Return all pairs of characters, two bytes each."""
    one = np.frombuffer(alphabet.encode(), np.uint8)
    pairs = np.stack(np.meshgrid(one, one, indexing="ij"), axis=-1)
    return pairs.reshape(-1, 2).copy().view(np.uint16).ravel()


_PAIRS = _pairs(ALPHABET)

#: Random number of 16 bits → a pair. Numbers from :data:`_EVEN` on are drawn again: they would make
#: some pairs more likely than others.
_EVEN = 2**16 // len(_PAIRS) * len(_PAIRS)
_LOOKUP = pa.array(np.tile(_PAIRS, _EVEN // len(_PAIRS)))

#: Numbers of four digits as text.
_FOUR_DIGITS = np.array([f"{number:04}".encode() for number in range(10_000)]).view(np.uint32)


def characters(random: np.random.Generator, count: int) -> np.ndarray:
    """Return random characters of :data:`ALPHABET`, a byte each."""
    drawn = random.integers(0, 2**16, -(-count // 2), dtype=np.uint16)
    again = np.flatnonzero(drawn >= _EVEN)
    while again.size:
        drawn[again] = random.integers(0, 2**16, again.size, dtype=np.uint16)
        again = again[drawn[again] >= _EVEN]
    # Arrow's gather takes a third of the time of numpy's, which widens the indices first
    return _LOOKUP.take(pa.array(drawn)).to_numpy().view(np.uint8)[:count]


def a_strings(
    random: np.random.Generator, count: int, least: int, most: int | None = None
) -> pa.StringArray:
    """Return random texts of ``least`` to ``most`` characters, or all of ``least`` (clause 4.3.2.2)."""
    ends = _ends(random, count, least, most)
    return _texts(ends, characters(random, int(ends[-1])))


def with_original(
    random: np.random.Generator, count: int, least: int, most: int, tenth: np.ndarray
) -> pa.StringArray:
    """Return random texts as :func:`a_strings` does, some with ORIGINAL in a random place.

    Args:
        random: generator.
        count: number of texts.
        least: characters of a text, at least.
        most: characters of a text, at most.
        tenth: indexes of the texts with ORIGINAL (clause 4.3.3.1: a random 10 % of I_DATA and S_DATA).
    """
    word = np.frombuffer(b"ORIGINAL", np.uint8)
    ends = _ends(random, count, least, most)
    content = characters(random, int(ends[-1])).copy()
    begins = ends[tenth]
    places = random.integers(begins, ends[tenth + 1] - len(word), endpoint=True)
    content[places[:, None] + np.arange(len(word))] = word
    return _texts(ends, content)


def n_strings(random: np.random.Generator, count: int, digits: int) -> np.ndarray:
    """Return random digits, a row of bytes for each text; ``digits`` is a multiple of 4."""
    numbers = random.integers(0, len(_FOUR_DIGITS), (count, digits // 4))
    return _FOUR_DIGITS[numbers].view(np.uint8).reshape(count, digits)


def of_rows(rows: np.ndarray) -> pa.StringArray:
    """Return a text for each row of bytes."""
    count, length = rows.shape
    return _texts(np.arange(0, (count + 1) * length, length), rows.ravel())


def _ends(
    random: np.random.Generator, count: int, least: int, most: int | None = None
) -> np.ndarray:
    """Return where each text begins, and where the last one ends."""
    if most is None:
        return np.arange(0, (count + 1) * least, least)
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(random.integers(least, most, count, dtype=np.int16, endpoint=True), out=ends[1:])
    return ends


def _texts(ends: np.ndarray, content: np.ndarray) -> pa.StringArray:
    offsets = pa.py_buffer(ends.astype(np.int32))
    return pa.StringArray.from_buffers(len(ends) - 1, offsets, pa.py_buffer(content))

"""The JSON of iostat and mpstat: ``{"sysstat": {"hosts": [{…, "statistics": [sample, …]}]}}``.

Both write each sample out at once and close the brackets only when SIGINT ends them (sysstat
12.6.1); after any other end the file stops behind, or in, a sample.
"""

import json
import re
from typing import Any

from benchlab.observers._text import fail, shown

_BEGIN = '{"sysstat": {'
_DATE = re.compile(r'"date": "(\d{4}-\d{2}-\d{2})"')
_STATISTICS = re.compile(r'"statistics": \[')
_SEPARATOR = re.compile(r"[\s,]*")


def read(program: str, text: str, truncated_ok: bool) -> tuple[str, list[dict[str, Any]]]:
    """Return the date of the first sample (YYYY-MM-DD) and the whole samples.

    Raises:
        ParseError: the text is not sysstat's JSON, or it is cut and ``truncated_ok`` is False.
    """
    try:
        host = json.loads(text)["sysstat"]["hosts"][0]
        date, found = host["date"], host["statistics"]
    except json.JSONDecodeError as error:
        if not truncated_ok:
            fail(program, error.lineno, f"no JSON, or cut in the middle: {error.msg}")
        date, found = _salvage(program, text)
    except (KeyError, IndexError, TypeError):
        fail(program, 1, f"no sysstat JSON: {shown(text[:80])}")
    if not isinstance(found, list):
        fail(program, 1, f"no list of samples: {shown(str(found))}")
    if found and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", str(date)):
        fail(program, 1, f"date {date!r} is not YYYY-MM-DD: S_TIME_FORMAT=ISO was not set")
    return date, found


def _salvage(program: str, text: str) -> tuple[str, list[dict[str, Any]]]:
    if not (text.startswith(_BEGIN) or _BEGIN.startswith(text)):
        fail(program, 1, f"no sysstat JSON: {shown(text[:80])}")
    date, statistics = _DATE.search(text), _STATISTICS.search(text)
    if statistics is None:
        return "", []
    if date is None:
        fail(program, 1, "no date as YYYY-MM-DD: S_TIME_FORMAT=ISO was not set")
    decoder, found = json.JSONDecoder(), []
    at = _SEPARATOR.match(text, statistics.end()).end()
    while text[at : at + 1] == "{":
        try:
            sample, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            if text.count('"timestamp"', at) > 1:
                fail(program, error.lineno, f"broken before the end: {error.msg}")
            return date[1], found
        found.append(sample)
        at = _SEPARATOR.match(text, at).end()
    if not re.fullmatch(r"[\s\]}]*", text[at:]):
        fail(program, text.count("\n", 0, at) + 1, f"no sample: {shown(text[at : at + 80])}")
    return date[1], found

"""JSON as text, with every whole number exact: a reader that rounded the ones beyond 64 bits would change amounts.

Called on processing threads per record, and by commands and pages that read or show values. orjson (3.13) is faster at
writing, and refuses whole numbers beyond 64 bits; it reads them as rounded floats, so msgspec reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import orjson

_encode = msgspec.json.Encoder().encode
#: orjson says this of whole numbers that it refuses.
_TOO_LARGE = "64-bit"

#: Reads anything. Raises ``ValueError`` for a text that is no JSON, and for numbers that are out of a float's range.
read_json = msgspec.json.Decoder().decode


def write_json(value: Any) -> bytes:
    """Returns the JSON of a value, without spaces. Raises ``TypeError`` or ``ValueError`` for a value that has none;
    NaN and the infinities, for which JSON has no form, become ``null``."""
    try:
        return orjson.dumps(value)
    except TypeError as error:
        if _TOO_LARGE not in str(error):
            raise
        return _encode(value)


def write_whatever(value: Any) -> bytes:
    """Returns the same, and some JSON of more kinds of values, for callers that compare them with what is read back:
    where that differs they can say in which field."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _encode(value)


def write_shown(value: Any, other: Callable[[Any], Any] | None = None) -> bytes:
    """Returns JSON that a person looks at and no program reads back, with keys of any type. ``other`` gives the form of
    what JSON does not know; without it that raises ``TypeError``."""
    try:
        return orjson.dumps(value, default=other, option=orjson.OPT_NON_STR_KEYS)
    except TypeError as error:
        if _TOO_LARGE not in str(error):
            raise
        return msgspec.json.encode(value, enc_hook=other)

"""Keys and values of any type as text that is not long, for people. Pure.

Called for a record that a user wants to see, on the thread that has it.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from reprlib import Repr
from typing import Any

#: Characters of a text.
LONGEST = 400

_UTF_8 = getincrementaldecoder("utf-8")
_REPR = Repr()
_REPR.maxlevel = 3  # 20 * 20 * 20 parts at most: the task waits for them
_REPR.maxdict = _REPR.maxlist = _REPR.maxtuple = _REPR.maxset = 20
_REPR.maxstring = 200
_REPR.maxother = 200


def shown_value(value: Any) -> str:
    """Returns a value as text: strings and bytes that are text as they are, other bytes as hexadecimal digits, other
    values as Python writes them. Values come from user code, so a value that cannot be shown is named by its type."""
    try:
        if isinstance(value, bytes):
            value = _shown_bytes(value[: LONGEST + 1])
        text = value[: LONGEST + 1] if isinstance(value, str) else _REPR.repr(value)
    except Exception as error:
        return f"({type(value).__name__}: {type(error).__name__})"
    return expressible(text if len(text) <= LONGEST else text[:LONGEST] + "…")


def expressible(text: str) -> str:
    """Returns a text that UTF-8 can express: half a surrogate pair, which JSON documents may have, as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _shown_bytes(value: bytes) -> str:
    try:
        return _UTF_8().decode(value)  # of a character that is cut off the beginning is no fault
    except UnicodeDecodeError:
        return f"0x {value.hex(' ')}"

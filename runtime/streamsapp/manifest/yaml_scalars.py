"""The values of YAML's plain scalars, as ``kubectl`` reads them: by sigs.k8s.io/yaml (1.6), which makes JSON of what
Go's YAML library understands. That is neither YAML 1.1 nor 1.2: ``y``, ``0o14``, ``010``, ``08`` and ``1e3`` are no
text, and ``1.0`` is a whole number, for JSON does not distinguish it from ``1``.

Called by the reader of manifests. The text is untrusted; numbers are bounded by 64 bits. Pure.
"""

from __future__ import annotations

import re
from decimal import Decimal
from math import isfinite
from struct import pack, unpack
from typing import Any

_CONSTANTS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"),
        True,
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"),
        False,
    ),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_WHOLE = re.compile(r"([-+]?)(?:0([bBoOxX])([0-9a-fA-F]+)|0([0-7]*)|([1-9][0-9]*))")
_BASES = {"b": 2, "o": 8, "x": 16}
_FRACTION = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BINARY = re.compile(r"0b([-+]?)([01]+)")
#: A number that begins with its point; underscores are between digits.
_POINT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_LONGEST = 1000
#: Powers of ten from which keys have an exponent.
_FLAT_KEYS_BELOW = 6
_INFINITE = pack(">f", float("inf"))
#: Go writes larger numbers with an exponent.
_FLAT_BELOW = 1e21


def plain_scalar(text: str) -> Any:
    """Returns the value of a scalar without quotes, text where it is nothing else. Raises ``ValueError`` for a number
    that JSON does not have."""
    value = _value(text)
    if not isinstance(value, float):
        return value
    if not isfinite(value):
        raise ValueError(f"JSON has no {value}")
    return int(Decimal(repr(value))) if value.is_integer() and abs(value) < _FLAT_BELOW else value


def plain_key(text: str) -> str | None:
    """Returns the key that a scalar without quotes is, numbers written anew; ``None`` for a scalar that is no key."""
    value = _value(text)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value < 1 << 63 else None
    return _single_precision(value) if isinstance(value, float) else value


def _value(text: str) -> str | bool | int | float | None:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if not text[0].isascii() or text[0] not in "+-.0123456789" or len(text) > _LONGEST:
        return text
    plain = text.replace("_", "")
    if text[0] != "." and (whole := _whole(plain)) is not None:
        return whole
    fits = _POINT.fullmatch(text) if text[0] == "." else _FRACTION.fullmatch(plain)
    return number if fits and isfinite(number := float(plain)) else text


def _whole(plain: str) -> int | None:
    """A whole number of 64 bits, the highest ones without a sign."""
    if (found := _WHOLE.fullmatch(plain)) is not None:
        sign, base, digits, octal, decimal = found.groups()
        try:
            size = (
                int(digits, _BASES[base.lower()]) if base else int(octal or "0", 8) if decimal is None else int(decimal)
            )
        except ValueError:
            return None
    elif (found := _BINARY.fullmatch(plain)) is not None:
        sign, size = found[1], int(found[2], 2)
    else:
        return None
    number = -size if sign == "-" else size
    return number if -(1 << 63) <= number < 1 << (63 if sign else 64) else None


def _single_precision(value: float) -> str:
    """The shortest digits of a number of 32 bits, as Go writes such keys."""
    if value != value:  # noqa: PLR0124 - NaN
        return ".nan"
    try:
        rounded = pack(">f", value)
    except OverflowError:
        rounded = _INFINITE
    exact = unpack(">f", rounded)[0]
    if not isfinite(exact):
        return ".inf" if value > 0 else "-.inf"
    digits = next(text for count in range(17) if pack(">f", float(text := f"{exact:.{count}e}")) == rounded)
    return format(Decimal(digits), "f") if -4 <= int(digits.partition("e")[2]) < _FLAT_KEYS_BELOW else digits

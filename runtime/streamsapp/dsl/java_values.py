"""Values as text, as Java prints them: ``true``, ``null``, ``1.0E7``, ``[a, b]``, ``{a=1}``.

``KStream.print`` calls it on processing threads, for records that a user wants to look at.
"""

from __future__ import annotations

from typing import Any

from streamsapp.serdes.windowed import Windowed

_DECIMAL_FROM, _DECIMAL_BEFORE = 1e-3, 1e7


def java_value(value: Any) -> str:
    """Returns the text of a value. One of a type that Java has no counterpart for is written as Python does."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, Windowed):
        return f"[{java_value(value.key)}@{value.start_ms}/{value.end_ms}]"
    if type(value) in (list, tuple):
        return f"[{', '.join(map(java_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{java_value(key)}={java_value(each)}' for key, each in value.items())}}}"
    return str(value)


def java_double(value: float) -> str:
    """Returns the text of ``Double.toString`` (JDK 19 and later): the shortest digits that stand for the number."""
    if value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    size = abs(value)
    if size == 0 or _DECIMAL_FROM <= size < _DECIMAL_BEFORE:
        return _decimal(value)
    digits, exponent = _shortest(value)
    return f"{digits}E{exponent}"


def _decimal(value: float) -> str:
    text = repr(value)
    return text if "e" not in text else f"{value:.20f}".rstrip("0")


def _shortest(value: float) -> tuple[str, int]:
    digits, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits, _, exponent = _scientific(value).partition("e")
    if "." not in digits:
        # Of numbers with one digit Java prints two, the nearest ones.
        two = f"{value:.1e}"
        digits = two.partition("e")[0] if float(two) == value else f"{digits}.0"
    return digits, int(exponent)


def _scientific(value: float) -> str:
    """The shortest digits of a number that Python writes without an exponent."""
    return next(text for digits in range(17) if float(text := f"{value:.{digits}e}") == value)

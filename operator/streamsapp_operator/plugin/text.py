"""Fits text to a terminal: it removes what could do harm there, measures width, and writes figures. Pure.

Called by the views on the main thread.
"""

from __future__ import annotations

import unicodedata

from streamsapp.units import duration_text, size_text

UNKNOWN = "?"


def clean(text: str) -> str:
    """Returns text without characters that steer terminals: messages of pods and resources come from others."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def width(text: str) -> int:
    """Returns the columns that a terminal takes for it: wide letters take two, accents that are put on others none."""
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def fill(text: str, columns: int, *, right: bool = False) -> str:
    """Returns the text padded to so many columns."""
    space = " " * (columns - width(text))
    return space + text if right else text + space


def wrap(text: str, columns: int) -> list[str]:
    """Returns lines of at most so many columns, broken between words; a longer word is broken anywhere."""
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if width(joined) <= columns:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for letter in word:
            if lines[-1] and width(lines[-1] + letter) > columns:
                lines.append("")
            lines[-1] += letter
    return lines


def count(number: int | None) -> str:
    """Returns a number of records as text; an unknown number is never shown as 0."""
    return UNKNOWN if number is None else f"{number:,}"


def seconds(amount: float | None) -> str:
    """Returns a duration in seconds as text: tenths matter below a minute, nothing but the two largest units above."""
    if amount is None:
        return UNKNOWN
    return f"{amount:.1f}s" if amount < 60 else age(amount)


def gap(amount: float | None) -> str:
    """Returns for how long tasks stood still as text: milliseconds matter below a second."""
    return seconds(amount) if amount is None or amount >= 0.9995 else f"{1000 * amount:.0f}ms"


def age(amount: float | None) -> str:
    """Returns an age in its two largest units."""
    return UNKNOWN if amount is None else duration_text(amount)


def size(amount: int | None) -> str:
    """Returns bytes as people read them."""
    return UNKNOWN if amount is None else size_text(amount)


def brief(text: str, most: int = 240) -> str:
    """Returns the beginning of a text: ``-o json`` has all of it."""
    return text if len(text) <= most else f"{text[:most].rstrip()} [...]"


def plural(number: int, one: str) -> str:
    """Returns a number with its noun: ``1 pod``, ``2 pods``."""
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"

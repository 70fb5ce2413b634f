"""Remedies for records that a node cannot read or write, in the words of its author: Python's, or the manifest's.

Asked on processing threads, for records that fail. The settings that errors name are turned into the manifest's fields
where errors are shown (``errors.told_as``). Pure.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from streamsapp.serdes.suggestion import suggested
from streamsapp.serdes.windowed import Windowed

#: The place of a node that a manifest declares.
_DECLARED = "spec."


class UnwrittenPart(NamedTuple):
    """The part of a record that its serde could not write."""

    #: ``key`` or ``value``.
    side: str
    given: Any
    #: Its name.
    serde: str


def reading(place: str) -> str:
    """Returns what to do about bytes that a source, added at ``place``, cannot read."""
    fields = "keySerde and valueSerde" if place.startswith(_DECLARED) else "Consumed"
    return (
        f"declare the serdes that the topic was written with ({fields}, or default_key_serde and default_value_serde), "
        "or "
    )


def writing(part: UnwrittenPart, place: str) -> str:
    """Returns what was wrong with a value of another type, and what to do about it."""
    found = f"got {type(part.given).__name__}, the serde of {part.side}s is {part.serde}"
    declared = place.startswith(_DECLARED)
    option = f"{part.side}Serde" if declared else f"Produced({part.side}_serde=...)"
    if isinstance(part.given, Windowed):
        if declared:
            return f"{found}; leave {option} out, or give records the key within: toStream: {{mapper: module:function}}"
        return (
            f"{found}; declare {suggested(part.given)} by {option}, or give records the key within: "
            "to_stream(lambda w, value: w.key)"
        )
    return f"{found}; declare one that fits by {option}, e.g. {_spelt(suggested(part.given), declared)}"


def _spelt(serde: str, declared: bool) -> str:
    """``Serdes.long()`` is ``long`` in a manifest; a serde that is made of functions is named by its place in code."""
    if not declared:
        return serde
    return serde.removeprefix("Serdes.").removesuffix("()") if serde.endswith("()") else "module:attribute"

"""Reads the end of history, as a manifest and ``streamsapp bootstrap --until`` give it. Pure.

``latest``, or the offset of each partition: ``{"lines": {"0": 1200, "1": -1}}``, -1 for a partition's end, -2 for its
beginning. YAML takes unquoted numbers for integers, so these are partitions, too.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

LATEST: Literal["latest"] = "latest"
END, BEGINNING = -1, -2

_PARTITION = re.compile(r"[0-9]{1,9}")


def until_fault(until: object) -> str | None:
    """Returns the fault in an end of history; only the broker knows which partitions there are."""
    if until == LATEST:
        return None
    if not isinstance(until, dict) or not all(_is_topic(*each) for each in until.items()):
        return """expected 'latest', or an offset for each partition, such as {lines: {"0": 1200, "1": -1}}"""
    offsets = [offset for of_topic in until.values() for offset in of_topic.values()]
    wrong = [offset for offset in offsets if not _is_offset(offset)]
    if not wrong:
        return None
    return f"expected offsets, {END} for the end of a partition or {BEGINNING} for its beginning, got {wrong[0]!r}"


def _is_topic(name: object, offsets: object) -> bool:
    return (
        isinstance(name, str) and isinstance(offsets, dict) and all(_PARTITION.fullmatch(str(each)) for each in offsets)
    )


def _is_offset(offset: object) -> bool:
    return isinstance(offset, int) and not isinstance(offset, bool) and BEGINNING <= offset < 1 << 63


Until: TypeAlias = Annotated[Literal["latest"] | dict[str, dict[str | int, int]], Meta(extra={"check": until_fault})]


def until_text(until: Literal["latest"] | dict[str, dict[str | int, int]]) -> str:
    """Returns the end of history as the command line writes it."""
    if isinstance(until, str):
        return until
    offsets = {topic: {str(partition): offset for partition, offset in each.items()} for topic, each in until.items()}
    return json.dumps(offsets, sort_keys=True)

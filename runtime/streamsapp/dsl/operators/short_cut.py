"""The short cut of a table's changes to a topic, where they go there as they are.

Made when an operator is bound; taken on a processing thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from streamsapp.processor.operator import Push, handed_on_to, sink_of
from streamsapp.serdes.api import AnySerde


class ShortCut(NamedTuple):
    """Says that records without headers may be written to a topic at once, in place of a push to the next node."""

    topic: str
    #: Takes a record as ``OutputRecord`` has it.
    emit: Callable[[Any], None]


def short_cut(forward: Push, writes_as: Callable[[AnySerde, AnySerde], bool]) -> ShortCut | None:
    """Returns the short cut to the sink that a table's changes are handed on to; ``None`` if there is anything else on
    the way, as a probe is, or unless ``writes_as`` accepts the sink's serdes, of keys and values."""
    handed_on = handed_on_to(forward)
    sink = None if handed_on is None else sink_of(handed_on)
    if sink is None or not writes_as(sink.key, sink.value):
        return None
    return ShortCut(sink.topic, sink.emit)

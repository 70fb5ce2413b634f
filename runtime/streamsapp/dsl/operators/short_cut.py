"""The short cut of a table's changes to a topic, where they go there as they are.

Made when an operator is bound, on the polling thread; taken on a processing thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from streamsapp.processor.operator import Push, handed_on_to, sink_of
from streamsapp.serdes.api import AnySerde


class ShortCut(NamedTuple):
    """Says that records without headers may be written to a topic at once in place of a call of a function."""

    #: The ``id`` of the function, for as long as no probe is in its place; 0 if nothing may be cut short. It is to be
    #: compared for each record. Only the first function on the way counts: probes are put in at all nodes together.
    instead_of: int
    topic: str
    #: Takes a record as ``OutputRecord`` has it.
    emit: Callable[[Any], None]


def _nowhere(record: Any) -> None:
    raise AssertionError("there is no short cut")


NO_SHORT_CUT = ShortCut(0, "", _nowhere)


def short_cut(forward: Push, writes_as: Callable[[AnySerde, AnySerde], bool]) -> ShortCut:
    """Returns the short cut to the sink that a table's changes are handed on to, if there is nothing else on the way,
    and if ``writes_as`` accepts its serdes, of keys and values."""
    handed_on = handed_on_to(forward)
    sink = None if handed_on is None else sink_of(handed_on())
    if sink is None or not writes_as(sink.key, sink.value):
        return NO_SHORT_CUT
    # Not the function itself: a probe would be put in its place here, too.
    return ShortCut(id(forward), sink.topic, sink.emit)

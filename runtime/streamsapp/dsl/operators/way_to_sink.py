"""The way of a table's changes downstream, which an operator may cut short where it leads to nothing but a topic.

Made when an operator is bound, on the polling thread; asked on a processing thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from streamsapp.processor.operator import PlainSink, Push, handed_on_to, sink_of
from streamsapp.serdes.api import AnySerde


class WayToSink:
    """Tells the sink to which changes go as they are, for whoever writes its records at once. A probe that somebody
    puts in has them go the whole way again."""

    def __init__(self, forward: Push) -> None:
        self.forward = forward
        self._handed_on_to = handed_on_to(forward) or (lambda: forward)
        last = self._handed_on_to()
        self._sink = None if last is forward else sink_of(last)
        # Not the functions themselves, for probes would be put here, too.
        self._known = id(forward), id(last)

    def leave(self) -> None:
        """Says that all changes are to go the whole way: the sink writes them in another form."""
        self._sink = None

    @property
    def sink(self) -> PlainSink | None:
        """Returns the sink, as long as nothing is in the way."""
        if self._sink is None or (id(self.forward), id(self._handed_on_to())) != self._known:
            return None
        return self._sink


class ShortCut(NamedTuple):
    """Says that records may be written to a topic at once in place of a call of a function."""

    #: The ``id`` of the function as it is while no probe is there; 0 if nothing may be cut short.
    instead_of: int
    topic: str
    emit: Callable[[Any], None]


def _nowhere(record: Any) -> None:
    raise AssertionError("there is no short cut")


NO_SHORT_CUT = ShortCut(0, "", _nowhere)


def short_cut(forward: Push, writes_as: Callable[[AnySerde, AnySerde], bool]) -> ShortCut:
    """Returns the short cut of a table's changes to a sink with serdes that write what ``writes_as`` accepts. It asks
    for the first function alone, for every record: probes are put in at all nodes together."""
    sink = WayToSink(forward).sink
    if sink is None or not writes_as(sink.key, sink.value):
        return NO_SHORT_CUT
    return ShortCut(id(forward), sink.topic, sink.emit)

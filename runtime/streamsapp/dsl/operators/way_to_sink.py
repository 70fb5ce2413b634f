"""The way of a table's changes downstream, which an operator may cut short where it leads to nothing but a topic.

Made when an operator is bound, on the polling thread; asked on a processing thread.
"""

from __future__ import annotations

from streamsapp.processor.operator import PlainSink, Push, handed_on_to, sink_of


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

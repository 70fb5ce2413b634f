"""Joins of two streams (Kafka Streams' ``KStreamKStreamJoin``): each side keeps its records in a window store and looks
for partners in the other's.

Bound on the polling thread when a task is created; pushed on a processing thread. A record costs one append to its own
store, and one scan of the other by key and range of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from streamsapp.dsl.operators.aggregate import NULL_KEY_OR_VALUE
from streamsapp.dsl.operators.late import late_node
from streamsapp.dsl.operators.stream_time import ObservedTime
from streamsapp.dsl.operators.unjoined import Outer, Unjoined
from streamsapp.dsl.windows import JoinWindows
from streamsapp.processor.operator import NodeContext, Operator, Push, Waits
from streamsapp.record import Headers
from streamsapp.serdes.api import AnySerde, or_configured
from streamsapp.state.kinds.join_window import JoinWindowStore

#: ``(key, value of this side, value of the other side)``
Joiner: TypeAlias = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Reach:
    """The distance of the other side's records, seen from this side: milliseconds before and after."""

    before_ms: int
    after_ms: int

    def range(self, timestamp: int) -> tuple[int, int]:
        """Returns the first and the last time that partners can have."""
        first, last = timestamp - self.before_ms, timestamp + self.after_ms
        return first if first > 0 else 0, last if last > 0 else 0  # noqa: FURB136 - calls cost


@dataclass(frozen=True)
class PriorReach(Reach):
    """The distance of records that are older, also at time 0, where none is."""

    after_ms: int = -1

    def range(self, timestamp: int) -> tuple[int, int]:
        return max(0, timestamp - self.before_ms), timestamp - 1


@dataclass
class KeepForJoin(Operator):
    """Hands a record on to its side's join, then keeps it for the other side's."""

    store: str
    #: The serde of the repartition topic right above, whose bytes the store has, too; ``None`` if there is none.
    topic_serde: AnySerde | None = None
    #: Says whether records that come too late to be kept go aside.
    sends_late: bool = False

    def start(self, context: NodeContext) -> None:
        context.store(self.store).keep_recent()

    def bind(self, context: NodeContext) -> Push:
        window: JoinWindowStore = context.store(self.store)
        key_bytes_of, to_stored, append = window.key_bytes, window.to_stored, window.append
        forward, on_error = context.forward, context.on_error
        as_read = self.topic_serde is not None and window.keeps(or_configured(self.topic_serde, context.default_serdes))

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            forward(key, value, timestamp, headers)
            if key is None:
                return
            try:
                key_bytes = key_bytes_of(key)
                if value is None:
                    stored = None
                else:
                    record = context.record if as_read else None
                    stored = to_stored(key, value) if record is None else record.value()
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            append(key_bytes, stored, timestamp, headers)

        return self._sending_late(context, window, push) if self.sends_late else push

    @staticmethod
    def _sending_late(context: NodeContext, window: JoinWindowStore, push: Push) -> Push:
        send = context.child(late_node(context.node_name))

        def push_and_send(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            push(key, value, timestamp, headers)
            if key is not None and value is not None and timestamp < window.expired_at(window.stream_time):
                send(key, value, timestamp, headers)

        return push_and_send


@dataclass
class InnerJoinSide(Operator):
    """Joins records of one side with those the other side has kept."""

    joiner: Joiner
    reach: Reach
    other: str

    def bind(self, context: NodeContext) -> Push:
        window: JoinWindowStore = context.store(self.other)
        key_bytes_of, partners, from_stored = window.key_bytes, window.partners, window.from_stored
        joiner, range_of = self.joiner, self.reach.range
        forward, on_error, dropped = context.forward, context.on_error, context.dropped

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None or value is None:
                dropped(NULL_KEY_OR_VALUE)
                return
            try:
                key_bytes = key_bytes_of(key)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            for other_at, _, stored in partners(key_bytes, *range_of(timestamp)):
                try:
                    joined = joiner(key, value, from_stored(stored))
                except Exception as error:
                    on_error(error, key, value, timestamp, headers)
                    return
                forward(key, joined, other_at if other_at > timestamp else timestamp, headers)  # noqa: FURB136

        return push


@dataclass
class OuterJoinSide(Operator):
    """Joins one side of a left or outer join. ``sends_unjoined`` says whether records of this side that find no partner
    are results; they are on one side at least."""

    joiner: Joiner
    reach: Reach
    other: str
    outer: Outer
    is_left: bool
    _unjoined: Unjoined = field(init=False)

    def start(self, context: NodeContext) -> None:
        reach, window = self.reach, context.store(self.other)
        self._unjoined = Unjoined(context, self.outer, self._joined, reach.after_ms, window.stream_time)

    def bind(self, context: NodeContext) -> Push:
        window: JoinWindowStore = context.store(self.other)
        key_bytes_of, partners, from_stored = window.key_bytes, window.partners, window.from_stored
        joiner, range_of, is_left = self.joiner, self.reach.range, self.is_left
        forward, on_error, dropped = context.forward, context.on_error, context.dropped
        unjoined = self._unjoined
        sends_unjoined, partners_wait = self.outer.sends(is_left), self.outer.sends(not is_left)
        progress, emit, wait, found = unjoined.progress, unjoined.emit, unjoined.wait, unjoined.found

        def alone(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                joined = joiner(key, value, None)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            forward(key, joined, timestamp, headers)

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if timestamp > progress.stream_time:
                progress.stream_time = timestamp
            if value is None or (key is None and not sends_unjoined):
                dropped(NULL_KEY_OR_VALUE)
                return
            if key is None:
                alone(key, value, timestamp, headers)
                return
            if timestamp == progress.stream_time:
                emit(forward, headers)
            first, last = range_of(timestamp)
            try:
                key_bytes = key_bytes_of(key)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            is_alone = True
            for other_at, _, stored in partners(key_bytes, first, last):
                is_alone = False
                if partners_wait:
                    found(other_at, not is_left, key_bytes, timestamp)
                try:
                    joined = joiner(key, value, from_stored(stored))
                except Exception as error:
                    on_error(error, key, value, timestamp, headers)
                    return
                forward(key, joined, max(timestamp, other_at), headers)
            if not is_alone or not sends_unjoined:
                return
            if last < progress.stream_time:
                alone(key, value, timestamp, headers)
                return
            try:
                wait(timestamp, is_left, key_bytes, value)
            except ValueError as error:
                on_error(error, key, value, timestamp, headers)

        return push

    def waits(self, above: Waits) -> Waits:
        windows = self.outer.windows
        return above.until_closed(max(windows.after_ms, windows.before_ms) + windows.grace_ms + 1, holds=True)

    def advance(self, context: NodeContext, now: int) -> None:
        self._unjoined.close(context.forward, now)

    def _joined(self, key: Any, value: Any, is_left: bool) -> Any:
        """Returns the result of a record of either side that found no partner."""
        return self.joiner(key, value, None) if is_left is self.is_left else self.joiner(key, None, value)


@dataclass
class SelfJoin(Operator):
    """Joins a stream with itself over one store (the optimisation "single store self join"), in Kafka Streams' order:
    with the records that came before on the right side, then on the left, itself in between by time."""

    joiner: Joiner
    windows: JoinWindows
    store: str
    #: The sides whose records without a key are results: left, right.
    outer: tuple[bool, bool]
    _time: ObservedTime = field(init=False)

    def start(self, context: NodeContext) -> None:
        self._time = ObservedTime(context.store(self.store).stream_time)

    def bind(self, context: NodeContext) -> Push:
        window: JoinWindowStore = context.store(self.store)
        key_bytes_of, time = window.key_bytes, self._time
        joiner, windows, outer = self.joiner, self.windows, self.outer
        results = self._results(window)
        kept_ms = windows.size_ms + windows.grace_ms
        meets_itself = windows.before_ms >= 0 and windows.after_ms >= 0
        forward, on_error, dropped = context.forward, context.on_error, context.dropped

        def results_of(key: Any, value: Any, timestamp: int) -> Iterator[tuple[Any, int]]:
            if key is not None:
                is_kept = timestamp > time.latest - kept_ms + 1
                yield from results(key, key_bytes_of(key), value, timestamp, meets_itself and is_kept)
                return
            if outer[0]:
                yield joiner(None, value, None), timestamp
            if outer[1]:
                yield joiner(None, None, value), timestamp

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if value is None or (key is None and not any(outer)):
                dropped(NULL_KEY_OR_VALUE)
                return
            if timestamp > time.latest and key is not None:
                time.latest = timestamp
            found = results_of(key, value, timestamp)
            while True:
                try:
                    result = next(found, None)
                except Exception as error:
                    on_error(error, key, value, timestamp, headers)
                    return
                if result is None:
                    return
                forward(key, result[0], result[1], headers)

        return push

    def _results(self, window: JoinWindowStore) -> Callable[[Any, bytes, Any, int, bool], Iterator[tuple[Any, int]]]:
        joiner, partners, from_stored = self.joiner, window.partners, window.from_stored
        before, after = self.windows.before_ms, self.windows.after_ms
        right_range, left_range = Reach(before, after).range, Reach(after, before).range

        def results(key: Any, key_bytes: bytes, value: Any, at: int, itself: bool) -> Iterator[tuple[Any, int]]:
            own = joiner(key, value, value) if itself else None
            for other_at, _, stored in partners(key_bytes, *right_range(at)):
                yield joiner(key, value, from_stored(stored)), max(at, other_at)
            for other_at, _, stored in partners(key_bytes, *left_range(at)):
                if itself and other_at > at:
                    itself = False
                    yield own, at
                yield joiner(key, from_stored(stored), value), max(at, other_at)
            if itself:
                yield own, at

        return results

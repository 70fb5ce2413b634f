"""Aggregates records in front of a repartition topic, so that one record per key and commit travels instead of every
record.

Stands where otherwise a filter drops null keys, under the same name. Pushed on a processing thread. Partial aggregates
are held until the commit, or until there are many. ``emit_held`` is drained before the task's position is committed, so
none is lost and none is sent twice for one commit. Waiting aggregates ask for an early commit when they fill the
memory, as uncommitted writes do.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from streamsapp.dsl.operators.held import drain
from streamsapp.errors import StreamsError
from streamsapp.processor.operator import NodeContext, Operator, Push, Reason
from streamsapp.record import Headers
from streamsapp.serdes.api import AnySerde, or_configured
from streamsapp.serdes.numbers import FixedSizeSerde
from streamsapp.state.engine.entries import NO_TIMESTAMP
from streamsapp.topology.partitioning import repartition_topic

NULL_VALUE = Reason("null value", "filter out records without a value")
#: Partial aggregates that are held at most, if their values may be of any size.
MAX_PARTIALS = 10_000
#: Numbers that are held at most. The more keys there is room for, the more of their records travel as one: of words by
#: Zipf's law over 50,000 a sixth travels with room for 10,000.
MAX_NUMBERS = 100_000
#: The memory of a partial aggregate: its key, list, numbers and place in the dictionary.
PARTIAL_BYTES = 400


@dataclass(frozen=True)
class Merge:
    """Makes one record of all those of a key: with an associative reducer, or by counting them."""

    reducer: Callable[[Any, Any], Any] | None

    @property
    def counts(self) -> bool:
        return self.reducer is None


#: Classes of keys that are equal if their bytes are, and only then; 0.0 and -0.0 are not, nor many of users' classes.
SAME_AS_BYTES = frozenset({str, bytes, int})


class Combine(Operator):
    """Holds a partial aggregate per key; its time is the latest of its records', its headers are dropped.

    A partial is its key, value and time, and whether the value is that of a record, which is not to be changed.
    """

    hands_on_every_record = True

    def __init__(self, merge: Merge, topic: str, key_serde: AnySerde | None, value_serde: AnySerde | None) -> None:
        """Takes the repartition topic, without the application's id, and its serdes; ``None`` is the configured one."""
        self._merge = merge
        self._topic = topic
        self._serdes = key_serde, value_serde
        self._copied: Callable[[Any], Any] | None = None
        self._partials: dict[Any, list[Any]] = {}
        self._batch = drain(self._partials)

    def start(self, context: NodeContext) -> None:
        key_serde, value_serde = self._serdes
        topic = repartition_topic(context.processor_context.application_id, self._topic)
        self._serialize = (key_serde or context.default_serdes.key).bind(topic, is_key=True).serialize
        value_serde = or_configured(value_serde, context.default_serdes)
        self._copied = None if self._merge.counts else _copying(value_serde)
        few = not self._merge.counts and not isinstance(value_serde, FixedSizeSerde)
        self._most = MAX_PARTIALS if few else MAX_NUMBERS

    def bind(self, context: NodeContext) -> Push:
        serialize, copied, most, reducer = self._serialize, self._copied, self._most, self._merge.reducer
        partials, emit, ended, send_batch = self._partials, self.emit_held, self._ended, self._send_batch
        forward, on_error, dropped = context.forward, context.on_error, context.dropped

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None:
                return
            if value is None:
                dropped(NULL_VALUE)
                return
            gone = None
            try:
                identity = key if key.__class__ in SAME_AS_BYTES else serialize(key)
                partial = partials.get(identity)
                if partial is not None and reducer is not None:
                    # Others read the record's own value, which the reducer may change in place.
                    before = partial[1] if copied is None or not partial[3] else copied(partial[1])
                    result = reducer(before, value)
                    if result is None:
                        gone = ended(partial)
                        result = value
                    partial[1], partial[3] = result, result is value
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            if partial is None:
                partials[identity] = [key, 1 if reducer is None else value, timestamp, True]
                if len(partials) >= most:
                    emit(context, most)
                return
            if reducer is None:
                partial[1] += 1
            if timestamp > partial[2]:
                partial[2] = timestamp
            # In the order of their last records, their times go up where those of the records did.
            partials[identity] = partials.pop(identity)
            if gone is not None:
                send_batch(forward, most)  # an earlier partial of the key may wait there, and goes first
                forward(*gone, None)

        return push

    def _ended(self, partial: list[Any]) -> tuple[Any, Any, int]:
        """Returns what was combined before the reducer returned ``None``, as ``(key, value, timestamp)``: the table
        alone knows what there is to delete, so this is sent, and the partial begins anew."""
        key, before, timestamp, is_record = partial
        if self._copied is not None and not is_record:
            raise StreamsError(
                "the reducer returned None and may have changed its first argument, in which records are combined: "
                "return a value, declare a serde whose values cannot change, or leave out combine=True"
            )
        partial[2] = NO_TIMESTAMP
        return key, before, timestamp

    def emit_held(self, context: NodeContext, limit: int) -> int:
        if not self._batch:
            self._batch = drain(self._partials)
        self._send_batch(context.forward, limit)
        return len(self._batch) + len(self._partials)

    def _send_batch(self, forward: Push, limit: int) -> None:
        for key, value, timestamp, _ in self._batch.take(limit):
            forward(key, value, timestamp, None)

    @property
    def held_bytes(self) -> int:
        return (len(self._batch) + len(self._partials)) * PARTIAL_BYTES


def _copying(serde: AnySerde) -> Callable[[Any], Any] | None:
    """Returns the function that copies values of a serde; ``None`` if they cannot be changed in place. Through the
    serde they might become others, as tuples become lists."""
    return None if serde.immutable else deepcopy

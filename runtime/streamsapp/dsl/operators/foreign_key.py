"""The operators of a foreign-key join, in the order in which a change of the left table passes them (KIP-213).

A left row subscribes to its foreign row: the subscription travels by foreign key to the foreign table's tasks, is kept
there and answered by primary key; the answer is joined with the left row, if that has not changed meanwhile.
Bound on the polling thread when a task is created; pushed on a processing thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from streamsapp.dsl.operators.forward_updates import LateChange
from streamsapp.dsl.operators.held import drain, without_bytes
from streamsapp.dsl.operators.table_views import TableView
from streamsapp.dsl.operators.tables import NULL_KEY, OUT_OF_ORDER
from streamsapp.processor.operator import NodeContext, Operator, Push, Reason
from streamsapp.record import Headers, InputRecord
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.foreign_key_messages import (
    ForeignKeySubscription,
    Instruction,
    SubscriptionResponse,
    subscription_serde,
)
from streamsapp.serdes.murmur3 import murmur3_128
from streamsapp.state.kinds.key_value import KeyValueStoreImpl, prefix_end
from streamsapp.topology.partitioning import repartition_topic

NULL_FOREIGN_KEY = Reason("null foreign key", "a left join keeps rows without a foreign key")

_SIZE_BYTES = 4
#: Every record is compared with some of them, and to look a member up in its class is slow.
_DELETE_NO_PROPAGATE, _DELETE_AND_PROPAGATE, _PROPAGATE_NULL_IF_NO_FK, _PROPAGATE_ONLY_IF_FK = Instruction
_DELETE = _DELETE_NO_PROPAGATE, _DELETE_AND_PROPAGATE


@dataclass(frozen=True)
class SubscriptionFormat:
    """Writes and reads subscriptions. Each serde has a topic name of its own, derived from that of the topic; the
    configured default may be a part of it, or all."""

    topic: str
    foreign_key: AnySerde
    primary_key: AnySerde
    value: AnySerde

    def foreign_key_bytes(self, context: NodeContext) -> Callable[[Any], bytes]:
        foreign_key = self.foreign_key.or_default(context.default_serdes)
        return foreign_key.bind(f"{self._topic(context)}-fk", is_key=True).serialize

    def row_hash(self, context: NodeContext) -> Callable[[Any], bytes | None]:
        """Returns the hash of a row's value, ``None`` if there is no row."""
        value = self.value.or_default(context.default_serdes)
        serialize = value.bind(f"{self._topic(context)}-vh", is_key=False).serialize
        return lambda value: None if value is None else murmur3_128(serialize(value))

    def primary_key_bytes(self, context: NodeContext) -> Callable[[Any], bytes]:
        primary_key = self.primary_key.or_default(context.default_serdes)
        return primary_key.bind(f"{self._topic(context)}-pk", is_key=True).serialize

    def subscriptions(self, context: NodeContext) -> AnySerde:
        subscriptions = subscription_serde(self.primary_key.or_default(context.default_serdes))
        return subscriptions.bind(self._topic(context), is_key=False)

    def _topic(self, context: NodeContext) -> str:
        return repartition_topic(context.processor_context.application_id, self.topic)


def _prefix(foreign_key: bytes) -> bytes:
    """Returns the bytes that the keys of all subscriptions to a foreign row begin with."""
    return len(foreign_key).to_bytes(_SIZE_BYTES, "big") + foreign_key


@dataclass
class SendSubscriptions(Operator):
    """Turns a change of the left table into subscriptions, by foreign key."""

    wire: SubscriptionFormat
    extract: Callable[[Any, Any], Any]
    left: bool

    def start(self, context: NodeContext) -> None:
        self._instructions_of, self._row_hash = self._instructions(context), self.wire.row_hash(context)

    def bind(self, context: NodeContext) -> Push:
        extract, instructions, row_hash = self.extract, self._instructions_of, self._row_hash
        partition = context.processor_context.task_id.partition
        forward, on_error, dropped = context.forward, context.on_error, context.dropped

        def push(key: Any, change: Any, timestamp: int, headers: Headers | None) -> None:
            if change.__class__ is LateChange:
                dropped(OUT_OF_ORDER)
                return
            new, old = change
            try:
                old_foreign = None if old is None else extract(key, old)
                new_foreign = None if new is None else extract(key, new)
                sent = instructions(old, old_foreign, new, new_foreign)
                new_hash = row_hash(new) if sent else None
            except Exception as error:
                on_error(error, key, change, timestamp, headers)
                return
            for foreign_key, instruction in sent:
                forward(foreign_key, ForeignKeySubscription(new_hash, instruction, key, partition), timestamp, headers)

        def ask_again(key: Any, row: Any, timestamp: int, headers: Headers | None) -> bool:
            try:
                foreign_key = None if row is None else extract(key, row)
                known_by = row_hash(row)
                # A serde that writes a row in other bytes each time makes every answer come too late, for ever.
                recognised = known_by == row_hash(row)
            except Exception as error:
                on_error(error, key, (row, None), timestamp, headers)
                return True
            if foreign_key is not None and recognised:
                asking = ForeignKeySubscription(known_by, _PROPAGATE_NULL_IF_NO_FK, key, partition)
                forward(foreign_key, asking, timestamp, headers)
            return foreign_key is not None

        if context.late_answers is not None:
            context.late_answers[self.wire.topic] = ask_again
        return push

    def _instructions(self, context: NodeContext) -> Callable[..., Sequence[tuple[Any, Instruction]]]:
        """Returns the function that gives the instruction for each foreign key that has to hear of a change."""
        to_bytes, dropped = self.wire.foreign_key_bytes(context), context.dropped

        def left(old: Any, old_key: Any, new: Any, new_key: Any) -> Sequence[tuple[Any, Instruction]]:
            if old is None and new is None:
                return ()
            # Without a foreign key, too: a response is what makes the result.
            asking = new_key, _PROPAGATE_NULL_IF_NO_FK
            if old_key is not None and (new_key is None or to_bytes(old_key) != to_bytes(new_key)):
                return (old_key, _DELETE_NO_PROPAGATE), asking
            return (asking,)

        def inner(old: Any, old_key: Any, new: Any, new_key: Any) -> Sequence[tuple[Any, Instruction]]:
            if new is not None and new_key is None:
                dropped(NULL_FOREIGN_KEY)
            if new_key is None:
                return () if old_key is None else ((old_key, _DELETE_AND_PROPAGATE),)
            if old_key is not None and to_bytes(old_key) != to_bytes(new_key):
                return (old_key, _DELETE_NO_PROPAGATE), (new_key, _PROPAGATE_NULL_IF_NO_FK)
            return ((new_key, _PROPAGATE_ONLY_IF_FK),)

        return left if self.left else inner


@dataclass
class ReceiveSubscriptions(Operator):
    """Keeps the subscriptions, in the order of foreign and primary keys."""

    wire: SubscriptionFormat
    store_name: str
    left: bool

    def start(self, context: NodeContext) -> None:
        wire = self.wire
        self._key_bytes = wire.foreign_key_bytes(context), wire.primary_key_bytes(context)
        self._subscriptions = wire.subscriptions(context)

    def bind(self, context: NodeContext) -> Push:
        foreign_bytes, primary_bytes = self._key_bytes
        serialize, deserialize = self._subscriptions.serialize, self._subscriptions.deserialize
        store: KeyValueStoreImpl = context.store(self.store_name)
        write, forward, on_error, dropped = store.write, context.forward, context.on_error, context.dropped
        left, read = self.left, store.read

        def asks_again(kept_under: bytes, subscription: ForeignKeySubscription) -> bool:
            """Returns whether the row has subscribed before it. The subscription stays as it is then: whether a row
            had to ask twice is the network's doing."""
            stored, _ = read(kept_under)
            return stored is not None and deserialize(stored).row_hash == subscription.row_hash

        def push(key: Any, subscription: Any, timestamp: int, headers: Headers | None) -> None:
            instruction = None if subscription is None else subscription.instruction
            if instruction is None or (key is None and instruction is not _PROPAGATE_NULL_IF_NO_FK):
                dropped(NULL_FOREIGN_KEY)
                return
            if key is not None:
                try:
                    kept_under = _prefix(foreign_bytes(key)) + primary_bytes(subscription.primary_key)
                    stored = None if instruction in _DELETE else serialize(subscription)
                    may_know = not left and instruction is _PROPAGATE_NULL_IF_NO_FK
                    known = may_know and asks_again(kept_under, subscription)
                except Exception as error:
                    on_error(error, key, subscription, timestamp, headers)
                    return
                if not known:
                    write(kept_under, stored, timestamp)
            forward(key, subscription, timestamp, headers)

        return push


@dataclass
class AnswerSubscriptions(Operator):
    """Answers a subscription with the foreign row as it is, by primary key."""

    foreign: TableView

    def start(self, context: NodeContext) -> None:
        self._get = self.foreign.bind(context)

    def bind(self, context: NodeContext) -> Push:
        get, forward, on_error = self._get, context.forward, context.on_error

        def push(key: Any, subscription: ForeignKeySubscription, timestamp: int, headers: Headers | None) -> None:
            row_hash, instruction, primary_key, partition = subscription
            try:
                row, row_at = (None, -1) if key is None else get(key)
            except Exception as error:
                on_error(error, key, subscription, timestamp, headers)
                return
            if instruction is _DELETE_NO_PROPAGATE:
                return
            if instruction is _DELETE_AND_PROPAGATE:
                row_hash, row = subscription.row_hash, None
            elif row is None and instruction is _PROPAGATE_ONLY_IF_FK:
                return
            forward(primary_key, SubscriptionResponse(row_hash, row, partition), max(timestamp, row_at), headers)

        return push

    def close(self) -> None:
        self.foreign.close()


@dataclass
class AnswerSubscribers(Operator):
    """Answers all rows that subscribed to a foreign row when that row changes."""

    wire: SubscriptionFormat
    store_name: str

    def start(self, context: NodeContext) -> None:
        self._foreign_bytes = self.wire.foreign_key_bytes(context)
        self._subscriptions = self.wire.subscriptions(context)

    def bind(self, context: NodeContext) -> Push:
        foreign_bytes, deserialize = self._foreign_bytes, self._subscriptions.deserialize
        store: KeyValueStoreImpl = context.store(self.store_name)
        scan, forward, on_error, dropped = store.layers.scan, context.forward, context.on_error, context.dropped

        def push(key: Any, change: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None:
                dropped(NULL_KEY)
                return
            if change.__class__ is LateChange:
                dropped(OUT_OF_ORDER)
                return
            try:
                prefix = _prefix(foreign_bytes(key))
                entries = scan(prefix, prefix_end(prefix), reverse=False)
            except Exception as error:
                on_error(error, key, change, timestamp, headers)
                return
            for _, (stored, _) in entries:
                row_hash, _, primary_key, partition = deserialize(stored)
                forward(primary_key, SubscriptionResponse(row_hash, change[0], partition), timestamp, headers)

        return push


#: ``(key, timestamp, headers, record)``; the record only where a node below asks for it.
_LateResponse: TypeAlias = tuple[Any, int, Headers | None, InputRecord | None]


@dataclass
class ResolveResponses(Operator):
    """Joins a foreign row with the left row that asked for it, if that is still the same.

    An inner join hears of a missing foreign row only where that may end a result. If such a response comes too late,
    the present left row may have asked only for an existing row. The result of an earlier left row would then stay for
    ever, as it does in Kafka Streams. So the present row asks once more, and hears of either.

    A left table that sends its changes at the commit may hold a row that the subscriptions do not know yet. Such a row
    asks at the commit: it may be replaced or gone by then, and nothing would end its subscription. If it is gone, it
    never existed for the subscriptions, and the result of the row before it is ended here, of a left join, too.
    """

    wire: SubscriptionFormat
    rows: TableView
    joiner: Callable[[Any, Any], Any]
    left: bool
    #: True if the left table sends its changes at the commit.
    rows_held: bool = False
    #: By the bytes of its key, the last response that a row has to send on at the commit.
    _late: dict[bytes, _LateResponse] = field(default_factory=dict, init=False)

    def start(self, context: NodeContext) -> None:
        self._get, self._row_hash = self.rows.bind(context), self.wire.row_hash(context)
        self._key_bytes = self.wire.primary_key_bytes(context)

    def bind(self, context: NodeContext) -> Push:
        get, row_hash, joiner, left = self._get, self._row_hash, self.joiner, self.left
        forward, on_error, outdated = context.forward, context.on_error, context.outdated
        asks_later, late_responses, key_bytes = self.rows_held, self._late, self._key_bytes

        def push(key: Any, response: SubscriptionResponse, timestamp: int, headers: Headers | None) -> None:
            foreign = response.foreign_value
            try:
                row, row_at = get(key)
                late = row_hash(row) != response.row_hash
                joined = None if late or (foreign is None and (row is None or not left)) else joiner(row, foreign)
            except Exception as error:
                on_error(error, key, response, timestamp, headers)
                return
            if not late:
                forward(key, joined, timestamp, headers)
                return
            outdated()  # Kafka Streams says it at the level of traces
            if foreign is not None or context.late_answers is None:
                return
            if asks_later:
                record = without_bytes(context.record) if context.record_is_read else None
                late_responses[key_bytes(key)] = key, timestamp, headers, record
            elif not left:
                self._ask(context, key, row, row_at, timestamp, headers)

        return push

    def emit_held(self, context: NodeContext, limit: int) -> int:
        """Asks where the epoch ends, all at once: a row that changed after that would be held again."""
        if limit < sys.maxsize or not self._late:
            return 0
        outer = context.record
        for key, timestamp, headers, record in drain(self._late).take(limit):
            try:
                row, row_at = self._get(key)
            except Exception as error:
                context.on_error(error, key, None, timestamp, headers)
                continue
            if self.left and row is not None:
                continue  # it has asked, or does so in this commit
            if context.record_is_read:
                context.record = record
            self._ask(context, key, row, row_at, timestamp, headers)
        context.record = outer
        return 0

    def _ask(
        self, context: NodeContext, key: Any, row: Any, row_at: int, timestamp: int, headers: Headers | None
    ) -> None:
        answers = context.late_answers
        # At the row's own time, so that its result has the time that its first question gave.
        if answers is None or not answers[self.wire.topic](key, row, row_at, headers):
            context.forward(key, None, max(timestamp, row_at), headers)

    def close(self) -> None:
        self.rows.close()

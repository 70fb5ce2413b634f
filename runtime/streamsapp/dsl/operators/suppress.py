"""Holds the updates of a table back: until their window has closed, for a time, or until the buffer is full.

Bound on the polling thread when a task is created; pushed on a processing thread. An update costs the serialisation of
its key and values, and one read and one write of the buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamsapp.dsl.operators.stream_time import ObservedTime
from streamsapp.dsl.operators.table_views import Get, TableView
from streamsapp.dsl.suppressed import BufferConfig
from streamsapp.errors import BufferFullError
from streamsapp.processor.operator import NodeContext, Operator, Push, Waits
from streamsapp.record import Headers
from streamsapp.state.kinds.buffered_record import Buffered, origin
from streamsapp.state.kinds.suppress_buffer import SuppressionBuffer


class Suppress(Operator):
    """Buffers the last update of each key. An update goes on ``wait_ms`` of stream time after its buffer time."""

    def __init__(self, store_name: str, wait_ms: int, config: BufferConfig, *, final: bool) -> None:
        """Takes the end of the key's window as buffer time if ``final``, and then does not send a row that was deleted
        by its end."""
        self._store_name = store_name
        self._wait = wait_ms
        self._config = config
        self._final = final
        #: The time of records since the task started: after a restart nothing goes on before the next update.
        self._time = ObservedTime()

    def start(self, context: NodeContext) -> None:
        context.record_is_read = True

    def bind(self, context: NodeContext) -> Push:
        buffer: SuppressionBuffer = context.store(self._store_name)
        wait_ms, final, on_error, time = self._wait, self._final, context.on_error, self._time
        emit_first, enforce = self._emitting(context, buffer), self._bounds(buffer)
        serialize, serialize_key = buffer.serialize, buffer.serialize_key

        def push(key: Any, change: Any, timestamp: int, headers: Headers | None) -> None:
            if timestamp > (stream_time := time.latest):
                time.latest = stream_time = timestamp
            try:
                new, old = (None if value is None else serialize(value) for value in change)
                buffer_time = key.end_ms if final else timestamp
                update = Buffered(buffer_time, old, old, new, timestamp, *origin(context.record), headers)
                buffer.put(serialize_key(key), update)
            except Exception as error:
                on_error(error, key, change, timestamp, headers)
                return
            emit_due(stream_time - wait_ms, buffer, emit_first)
            if enforce is not None:
                try:
                    enforce(emit_first)
                except BufferFullError as error:
                    on_error(error, key, change, timestamp, headers)

        return push

    def waits(self, above: Waits) -> Waits:
        if self._final:
            return Waits(max(above), max(above))  # for the windows above it
        return above.until_closed(self._wait, holds=True)

    def advance(self, context: NodeContext, now: int) -> None:
        buffer: SuppressionBuffer = context.store(self._store_name)
        self._time.latest = max(self._time.latest, now)
        emit_due(self._time.latest - self._wait, buffer, self._emitting(context, buffer))

    def _emitting(self, context: NodeContext, buffer: SuppressionBuffer) -> Callable[[], None]:
        """Sends the first update, as part of the record that it came with."""
        forward, on_error, final = context.forward, context.on_error, self._final
        deserialize, deserialize_key = buffer.deserialize, buffer.deserialize_key
        emitted = context.counter("suppression-emit")

        def emit_first() -> None:
            key_bytes, update = buffer.first()
            if update.new is not None or not final:
                outer, context.record = context.record, update.record
                try:
                    key = deserialize_key(key_bytes)
                    change = tuple(None if each is None else deserialize(each) for each in (update.new, update.old))
                except Exception as error:
                    on_error(error, key_bytes, update.new, update.timestamp, update.headers)
                else:
                    forward(key, change, update.timestamp, update.headers)
                    emitted.value += 1
                context.record = outer
            buffer.remove_first()

        return emit_first

    def _bounds(self, buffer: SuppressionBuffer) -> Callable[[Callable[[], None]], None] | None:
        """Keeps the buffer within its bounds, if it has any."""
        config = self._config
        if config.records is None and config.bytes is None:
            return None
        records, size = config.records or float("inf"), config.bytes or float("inf")

        def enforce(emit_first: Callable[[], None]) -> None:
            while buffer.count > records or buffer.size > size:
                if not config.emits_early:
                    raise BufferFullError(_full(buffer, config))
                emit_first()

        return enforce


def emit_due(due: int, buffer: SuppressionBuffer, emit_first: Callable[[], None]) -> None:
    """Sends the updates whose buffer times are no later than ``due``."""
    while (first := buffer.first_time) is not None and first <= due:
        emit_first()


class SuppressedView(TableView):
    """Looks up rows of a suppressed table. A key whose update waits has the value before it, which was sent, without
    its time."""

    def __init__(self, store_name: str, parent: TableView) -> None:
        self.store_names = (store_name, *parent.store_names)
        self._store_name = store_name
        self._parent = parent

    def bind(self, context: NodeContext) -> Get:
        buffer: SuppressionBuffer = context.store(self._store_name)
        get_parent = self._parent.bind(context)

        def get(key: Any) -> tuple[Any, int]:
            waiting = buffer.get(buffer.serialize_key(key))
            if waiting is None:
                return get_parent(key)
            return (None if waiting.prior is None else buffer.deserialize(waiting.prior)), -1

        return get

    def close(self) -> None:
        self._parent.close()


def _full(buffer: SuppressionBuffer, config: BufferConfig) -> str:
    over = []
    if config.records is not None:
        over.append(f"{buffer.count} of {config.records} records (max_records)")
    if config.bytes is not None:
        over.append(f"{buffer.size} of {config.bytes} bytes (max_bytes)")
    return (
        f"the buffer {buffer.name} is full, with {' and '.join(over)}, and must not emit early. Raise the bound, make "
        "windows or their grace shorter, spread the keys over more partitions, or choose emit_early_when_full() with "
        "until_time_limit"
    )

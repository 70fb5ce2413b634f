"""Models of the parts in C, in Python: as slow as they are plain. Tests run random programs with both, and compare."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import pytest

import operator_models
from streamsapp import errors, native
from streamsapp.dsl.operators.stateless import StepKind
from streamsapp.processor.operator import PlainSink, Push
from streamsapp.record import Headers, InputRecord
from streamsapp.state.engine.segments import Segments
from streamsapp.state.kinds.recent_entries import Item, Recent as RecentEntries
from streamsapp.state.kinds.window import window_key
from streamsapp.state.managed_store import ManagedStore
from streamsapp.tasks.priority_queue import PriorityQueue


def in_python(patch: pytest.MonkeyPatch) -> None:
    """Has tasks that are made from now on do everything in Python."""
    own = (errors._OWN, __file__, operator_models.__file__)
    patch.setattr(errors, "_OWN", own)  # errors arise as if in the runtime's code
    for model in (Step, Sink, Input, Loop, Recent, *operator_models.OPERATOR_PARTS):
        patch.setattr(native, model.__name__, model)
    without_cells(patch)


def without_cells(patch: pytest.MonkeyPatch) -> None:
    """Has counts be kept as other values are. The model of a count is the aggregation that adds one."""
    patch.setattr(ManagedStore, "_keeps_longs", lambda store, kind: False)


_KEYED = {
    StepKind.FILTER,
    StepKind.FILTER_NOT,
    StepKind.MAP,
    StepKind.SELECT_KEY,
    StepKind.MAP_VALUES_KEYED,
    StepKind.FLAT_MAP_VALUES_KEYED,
}


class Step:
    """One push function for all kinds."""

    __slots__ = ("_adapt", "_function", "_kind", "_on_error", "forward")

    def __init__(
        self,
        *,
        kind: StepKind,
        function: Callable[..., Any] | None,
        adapt: Callable[[Any], Any] | None,
        forward: Push,
        on_error: Callable[..., None],
    ) -> None:
        self._kind, self._function, self._adapt, self._on_error = kind, function, adapt, on_error
        self.forward = forward

    def __call__(self, key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        try:
            pairs = self._pairs(key, value)
        except Exception as error:
            self._on_error(error, key, value, timestamp, headers)
            return
        for new_key, new_value in pairs:
            self.forward(new_key, new_value, timestamp, headers)

    def _pairs(self, key: Any, value: Any) -> list[tuple[Any, Any]]:
        kind, function = self._kind, self._function
        if kind is StepKind.DROP_NULL_KEYS:
            return [] if key is None else [(key, value)]
        assert function is not None
        made = function(key, value) if kind in _KEYED else function(value)
        match kind:
            case StepKind.FILTER | StepKind.FILTER_NOT:
                return [(key, value)] if bool(made) is (kind is StepKind.FILTER) else []
            case StepKind.SELECT_KEY:
                return [(made, value)]
            case StepKind.MAP_VALUES | StepKind.MAP_VALUES_KEYED:
                return [(key, made)]
        assert self._adapt is not None
        if kind is StepKind.MAP:
            new_key, new_value = made if type(made) is tuple else self._adapt(made)
            return [(new_key, new_value)]
        return [(key, each) for each in (made if type(made) is list else self._adapt(made))]


class Sink:
    """Serialises records for a topic."""

    def __init__(
        self,
        *,
        topic: str,
        serialize_key: Callable[[Any], Any],
        serialize_value: Callable[[Any], Any],
        keeps_key: bool,  # the serializers are asked all the same
        keeps_value: bool,
        check_headers: Callable[[Any], object],
        emit: Callable[[Any], None],
        on_error: Callable[[Exception, Any, Any, int, Headers | None], None],
        plain_sink: PlainSink,
    ) -> None:
        self._topic, self._serializers, self._check_headers = topic, (serialize_key, serialize_value), check_headers
        self._emit, self._on_error = emit, on_error
        self.plain_sink = plain_sink

    def __call__(self, key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        serialize_key, serialize_value = self._serializers
        try:
            key_bytes = None if key is None else serialize_key(key)
            value_bytes = None if value is None else serialize_value(value)
            if headers:
                self._check_headers(headers)
        except Exception as error:
            self._on_error(error, key, value, timestamp, headers)
            return
        self._emit((self._topic, value_bytes, key_bytes, -1, None, None, timestamp, headers))


class Input:
    """One input of a task. Its head is record, key, value and timestamp."""

    def __init__(
        self,
        *,
        buffer: deque[Any],
        push: Push,
        deserialize_key: Callable[..., Any] | None,
        deserialize_value: Callable[..., Any] | None,
        key_by_headers: bool,
        value_by_headers: bool,
        trusts_time: bool,
        extract: Callable[[InputRecord, Any, Any, int], int],
        on_error: Callable[[Exception, InputRecord], object],
        apply: Callable[[native.TimeMarker], object] | None,
    ) -> None:
        self.apply = apply
        self._buffer, self._trusts_time, self._extract, self._on_error = buffer, trusts_time, extract, on_error
        self._key, self._value = (deserialize_key, key_by_headers), (deserialize_value, value_by_headers)
        self.push = push
        self.partition_time = self.position = -1
        self.head: tuple[Any, Any, Any, int] | None = None
        self.is_offered = False

    @property
    def has_head(self) -> bool:
        return self.head is not None

    @property
    def time(self) -> int:
        assert self.head is not None
        return self.head[3]

    def find_head(self) -> int | None:
        while self.head is None and self._buffer:
            self.read()
        return None if self.head is None else self.time

    def drop_head(self) -> None:
        self.head = None

    def read(self) -> None:
        """Makes the next record the head, unless it is dropped."""
        record = self._buffer.popleft()
        if isinstance(record, native.TimeMarker):
            self.head = record, None, None, record.timestamp
            return
        try:
            key = self._made(self._key, record.key(), record)
            value = self._made(self._value, record.value(), record)
            record.headers()
        except Exception as error:
            self._on_error(error, record)
            self.position = record.offset() + 1
            return
        timestamp = record.timestamp()[1]
        if timestamp < 0 or not self._trusts_time:
            timestamp = self._extract(record, key, value, self.partition_time)
        if timestamp < 0:
            self.position = record.offset() + 1
        else:
            self.head = record, key, value, timestamp

    def _made(self, how: tuple[Callable[..., Any] | None, bool], data: bytes | None, record: InputRecord) -> Any:
        deserialize, by_headers = how
        if data is None or deserialize is None:
            return data
        return deserialize(data, record.headers()) if by_headers else deserialize(data)


class Loop:
    """Takes one record after the other: of the input whose head is the first of the queue."""

    def __init__(self, *, inputs: list[Input], context: Any, punctuate: Callable[[], object]) -> None:
        self._inputs, self._context, self._punctuate = inputs, context, punctuate
        self._turns: PriorityQueue[Input] = PriorityQueue(attrgetter("time"))
        self.late = self.most = 0
        self.put_off: Input | None = None

    def offer(self, input: Input) -> None:
        if not input.is_offered and input.find_head() is not None:
            input.is_offered = True
            self._turns.offer(input)

    def clear(self) -> None:
        for each in self._inputs:
            each.is_offered = False
        self._turns.clear()
        self.put_off = None

    def run(self, *, control: Any, due: Any, expiry: Any, limit: int, until: int) -> int:
        self.late = self.most = 0
        several = len(self._inputs) > 1
        if control.stop or (several and not len(self._turns) and self.put_off is None):
            return 0
        running = self.put_off or (self._turns.poll() if several else self._inputs[0])
        if self.put_off is not None:
            until = max(until, running.time)
        self.put_off, taken = None, 0
        try:
            while taken < limit and not control.stop:
                if running.head is None:
                    if not running._buffer:
                        break
                    running.read()
                    if running.head is not None and several:
                        self._turns.offer(running)
                        running = self._turns.poll()
                if running.head is not None:
                    if running.time > until:
                        break
                    if isinstance(running.head[0], native.TimeMarker):
                        self._apply(running, due)
                        taken += 1
                        if self._context.stream_time >= expiry.next_due:
                            break
                        continue
                    self._note_time(running)
                    if running.head[3] >= expiry.next_due:
                        self.put_off = running
                        break
                    self._process(running, due)
                taken += 1
        finally:
            self._context.message = None
            running.is_offered = running is self.put_off
        if several and running is not self.put_off:
            self.offer(running)
        return taken

    def _note_time(self, input: Input) -> None:
        assert input.head is not None
        timestamp, context = input.head[3], self._context
        behind = context.stream_time - timestamp
        self.late, self.most = self.late + max(behind, 0), max(self.most, behind)
        input.partition_time = max(input.partition_time, timestamp)
        context.stream_time = max(context.stream_time, timestamp)

    def _apply(self, input: Input, due: Any) -> None:
        assert input.head is not None
        assert input.apply is not None
        marker, input.head = input.head[0], None
        self._context.message = None
        input.apply(marker)
        if self._context.stream_time >= due.next_due:
            self._punctuate()

    def _process(self, input: Input, due: Any) -> None:
        assert input.head is not None
        (record, key, value, timestamp), input.head = input.head, None
        context = self._context
        context.message = record
        input.push(key, value, timestamp, record.headers())
        input.position = record.offset() + 1
        if context.stream_time >= due.next_due:
            self._punctuate()


class Recent:
    """The newest records of one side of a join, kept as other stores keep their recent entries."""

    def __init__(self, *, segments: Segments, room: Callable[[], int]) -> None:
        self._entries = RecentEntries(segments, room)

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, prefix: bytes, key: bytes, time: int, number: int, stored: Any) -> bytes:
        if stored is not None:
            self._entries.put(key, (time, number, stored))
        return prefix + window_key(key, time, number)

    def between(self, key: bytes, from_ms: int, to_ms: int) -> Sequence[Item] | None:
        return self._entries.between(key, from_ms, to_ms)

"""Models of the parts in C, in Python: as slow as they are plain. Tests run random programs with both, and compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from streamsapp import errors, native
from streamsapp.dsl.operators.stateless import StepKind
from streamsapp.processor.operator import PlainSink, Push
from streamsapp.record import Headers
from streamsapp.state.engine.segments import Segments
from streamsapp.state.kinds.recent_entries import Item, Recent as RecentEntries
from streamsapp.state.kinds.window import window_key
from streamsapp.state.managed_store import ManagedStore


def in_python(patch: pytest.MonkeyPatch) -> None:
    """Has tasks that are made from now on do everything in Python."""
    patch.setattr(errors, "_OWN", (errors._OWN, __file__))  # errors arise as if in the runtime's code
    for model in (Step, Sink, Loop, Recent):
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


class Loop:
    """Takes no record: ``RecordQueue`` runs the records that the loop leaves, and has to know them all."""

    def __init__(self, **surroundings: Any) -> None:
        self.done: Any = None
        self.partition_time = -1
        self.late = self.most = 0

    def run(self, *, control: Any, push: Any, due: Any, limit: int, partition_time: int) -> int:
        self.partition_time = partition_time
        return 0


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

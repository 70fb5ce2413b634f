"""Windows that are counted in C are the same as in Python, and so are the records of the counts."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from compiled_parts import window_push
from counting_tasks import REVERSED, STORE, TEXT, commit, into_two, play, repr_of
from models import in_python
from streamsapp import (
    Consumed,
    EmitStrategy,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    StreamsBuilder,
    TimeWindows,
)
from streamsapp.serdes.windowed import time_windowed
from streamsapp.state.api import ValueAndTimestamp
from streamsapp.tasks.stream_task import StreamTask
from task_parts import raw, sent_by, task_of


class Rewriting(Processor):
    """Writes some of the windows that it hears of, in the store that they are counted in."""

    def init(self, context: ProcessorContext) -> None:
        self._store = context.get_state_store(STORE)
        self._heard = 0

    def process(self, record: Record) -> None:
        self._heard += 1
        if self._heard % 5 == 0:
            window = record.key
            written = None if self._heard % 10 else ValueAndTimestamp(record.value + 40, record.timestamp)
            self._store.put(window.key, written, window.start_ms)


#: The programs after the counts.
WAYS: dict[str, Callable[[KTable[Any, Any]], object]] = {
    "straight": lambda counts: counts.to_stream().to("out"),
    "nowhere": lambda counts: None,
    "two": lambda counts: into_two(counts.to_stream(), counts.to_stream()),
    "twice": lambda counts: into_two(out := counts.to_stream(), out),
    "changed": lambda counts: counts.to_stream().map_values(str).to("out", Produced(None, TEXT)),
    "other key": lambda counts: counts.to_stream().to("out", Produced(time_windowed(REVERSED, 40), None)),
    "other value": lambda counts: counts.to_stream().to("out", Produced(None, Serdes.of(repr_of, int))),
    "partitioner": lambda counts: counts.to_stream().to("out", Produced(partitioner=lambda *_: 3)),
    "rewriting": lambda counts: counts.to_stream().process(Rewriting, STORE),
    "old values": lambda counts: counts.filter(lambda key, count: count % 2 == 0).to_stream().to("out"),
}
WINDOWS = [
    TimeWindows.of(40, grace=30).advance_by(10),
    TimeWindows.of(40, grace=30),
    TimeWindows.of(7, grace=5).advance_by(3),
]


def program(way: str, windows: TimeWindows, emit: str) -> StreamTask:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key().windowed_by(windows)
    if emit == "close":
        grouped = grouped.emit_strategy(EmitStrategy.on_window_close())
    kept: Materialized[Any, Any] = Materialized(STORE, store="memory", emit="commit" if emit == "commit" else "update")
    WAYS[way](grouped.count(kept))
    return task_of(builder.build())


@pytest.mark.seeds(4)
@pytest.mark.parametrize("emit", ["update", "commit", "close"])
@pytest.mark.parametrize("way", WAYS)
def test_random_records_are_counted_as_in_python(
    way: str, emit: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = WINDOWS[seed % len(WINDOWS)]
    with monkeypatch.context() as patch:
        in_python(patch)
        expected = play(program(way, windows, emit), seed)

    assert play(program(way, windows, emit), seed) == expected


@pytest.mark.parametrize("emit", ["update", "commit"])
def test_counts_that_go_to_a_topic_as_they_are_pass_a_probe_while_one_is_there(
    emit: str,
) -> None:
    task = program("straight", TimeWindows.of(10), emit)
    sent: list[object] = []
    passed: list[int] = []
    [sink] = [node.name for node in task.plan.sub_topology.nodes if "SINK" in node.name]
    for at in range(4):
        if at == 2:
            nodes = task.probes.look(1, sink, processed=at, now=at)
        sent += sent_by(task, raw(at, at, key=b"k"))
        sent += commit(task)[0] if emit == "commit" else []
        passed.append(len(nodes[sink].last) if at > 1 else 0)

    assert sent == [("out", (at + 1).to_bytes(8, "big"), b"k" + bytes(8), -1, None, None, at, None) for at in range(4)]
    assert passed == [0, 0, 1, 1]


@pytest.mark.parametrize("emit", ["update", "commit"])
def test_a_count_that_fits_no_long_is_an_error_and_is_not_kept(
    emit: str,
) -> None:
    task = program("other value", TimeWindows.of(10), emit)
    task.stores.stores[STORE].put("k", ValueAndTimestamp((1 << 63) - 1, 5), 0)

    with pytest.raises(OverflowError, match="does not fit a long"):
        sent_by(task, raw(0, 5, key=b"k"))
    assert tuple(task.stores.stores[STORE].fetch("k", 0)) == ((1 << 63) - 1, 5)


def test_a_cell_is_an_entry_that_may_be_changed(compiled: ModuleType) -> None:
    cell = compiled.Cell(key=b"key", stored=3, timestamp=5)

    assert (len(cell), list(cell), cell.held) == (2, [3, 5], 0)
    cell[0], cell[1], cell.held = None, -1, 7
    assert (list(cell), cell.held) == ([None, -1], 7)
    cell[0] = -(1 << 63)
    assert cell[0] == -(1 << 63)


def test_cells_that_are_held_are_sorted_by_their_last_updates(compiled: ModuleType) -> None:
    held = [(compiled.Cell(key=b"key", stored=1, timestamp=1), at) for at in range(300)]
    for at, (cell, _) in enumerate(held):
        cell.held = 1 + at * 7 % 300

    expected = sorted(held, key=lambda each: each[0].held)
    for _ in range(2):
        taken = compiled.by_last_update(held)
        assert (taken, taken is held) == (expected, False)
        held = taken
    assert compiled.by_last_update([]) == []


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda path, cell: path.Cell(key="k", stored=1, timestamp=1), TypeError),
        (lambda path, cell: path.Cell(key=b"k", stored="1", timestamp=1), TypeError),
        (lambda path, cell: path.Cell(key=b"k", stored=1 << 63, timestamp=1), OverflowError),
        (lambda path, cell: cell[2], IndexError),
        (lambda path, cell: cell.__setitem__(0, "1"), TypeError),
        (lambda path, cell: cell.__setitem__(1, None), TypeError),
        (lambda path, cell: cell.__setitem__(2, 1), IndexError),
        (lambda path, cell: cell.__delitem__(0), IndexError),
        (lambda path, cell: path.Window(before=b"a", after="b", whole=True), TypeError),
        (lambda path, cell: path.by_last_update(((cell, "k"),)), TypeError),
        (lambda path, cell: path.by_last_update([(cell, "k"), (3, "k")]), TypeError),
        (lambda path, cell: path.by_last_update([(cell,)]), TypeError),
        (
            lambda path, cell: path.results(
                held=[(cell, "k", 0, 1), ()], topic="t", deleted_at=int, before=8, behind=4
            ),
            TypeError,
        ),
        (
            lambda path, cell: path.results(
                held=[(cell, "k", 0, 1), None], topic="t", deleted_at=int, before=8, behind=4
            ),
            TypeError,
        ),
        (
            lambda path, cell: path.results(held=[(cell, "k", 0, 1)], topic=b"t", deleted_at=int, before=8, behind=4),
            TypeError,
        ),
        (
            lambda path, cell: path.results(
                held=[(gone(cell), "k", 0, 1)], topic="t", deleted_at=lambda *gone: None, before=8, behind=4
            ),
            TypeError,
        ),
        (
            lambda path, cell: path.results(held=[(cell, "k")], topic="t", deleted_at=int, before=-1, behind=0),
            ValueError,
        ),
        (
            lambda path, cell: path.results(held=[(cell, "k")], topic="t", deleted_at=int, before=20, behind=0),
            ValueError,
        ),
        (lambda path, cell: path.WindowPush(), TypeError),
        (lambda path, cell: counter(path, cells=None), TypeError),
        (lambda path, cell: counter(path, step_ms=0), ValueError),
        (lambda path, cell: counter(path, grace_ms=None), TypeError),
        (lambda path, cell: counter(path, topic=b""), TypeError),
        (lambda path, cell: counter(path, topic=""), TypeError),
        (lambda path, cell: counter(path, stream_time=7), TypeError),
        (lambda path, cell: path.StreamTime(7), TypeError),
        (lambda path, cell: counter(path, noted=(None, {})), TypeError),
        (lambda path, cell: counter(path, noted=([], None)), TypeError),
        (lambda path, cell: counter(path, noted=({}, {})), TypeError),
        (lambda path, cell: counter(path)("k", "v", 1), TypeError),
        (lambda path, cell: counter(path)("k", "v", "1", None), TypeError),
        (lambda path, cell: counter(path)("k", "v", 1 << 70, None), OverflowError),
        (lambda path, cell: counter(path, windows=[])("k", "v", 1, None), TypeError),
        (lambda path, cell: counter(path, windows=(None,))("k", "v", 1, None), TypeError),
        (
            lambda path, cell: counter(path, windows=one(path, "9"))("k", "v", 1, None),
            TypeError,
        ),
        (
            lambda path, cell: counter(path, windows=one(path, 9))("k", "v", 1, None),
            RuntimeError,
        ),
        (lambda path, cell: counter(path, serialize_key=lambda key: None)("k", "v", 1, None), TypeError),
    ],
)
def test_wrong_calls_are_refused(
    call: Callable[[Any, Any], object], error: type[Exception], compiled: ModuleType
) -> None:
    with pytest.raises(error):
        call(compiled, compiled.Cell(key=b"a long enough key", stored=1, timestamp=1))


def counter(path: Any, **given: Any) -> Any:
    """A push function of windows that are these, over a store in which no epoch has begun."""
    return window_push(path, **{"cells": cells(path), "serialize_key": str.encode} | given)


def one(path: Any, end: Any) -> Any:
    return ((0, end, path.Window(before=b"", after=b"", whole=True)),)


def cells(path: Any) -> Any:
    """The cells of a store in which no epoch has begun."""
    return path.Cells(load=lambda key: (None, -1))


def gone(cell: Any) -> Any:
    cell[0] = None
    return cell


def test_what_a_serializer_raises_is_handled_and_a_key_that_is_not_like_bytes_is_raised(
    compiled: ModuleType,
) -> None:
    told: list[object] = []

    def failed(error: Exception, *record: object) -> None:
        told.append((str(error), record))

    counter(compiled, serialize_key=int, on_error=failed)("k", "v", 1, None)
    assert told == [("invalid literal for int() with base 10: 'k'", ("k", "v", 1, None))]
    with pytest.raises(TypeError):
        counter(compiled, serialize_key=lambda key: None, on_error=failed)("k", "v", 1, None)
    counter(compiled, serialize_key=lambda key: bytearray(b"like"), on_error=failed)("k", "v", 1, None)
    assert len(told) == 1


def test_a_counter_that_is_part_of_a_circle_is_let_go(compiled: ModuleType) -> None:
    gone: list[int] = []

    class Late:
        def __call__(self) -> None: ...

        def __del__(self) -> None:
            gone.append(1)

    late: Any = Late()
    late.counter = counter(compiled, late=late)
    del late
    gc.collect()

    assert gone == [1]

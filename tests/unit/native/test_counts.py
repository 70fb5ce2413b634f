"""Keys that are counted in C are counted as in Python, and so are the records that tell of them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from counting_tasks import REVERSED, STORE, TEXT, commit, into_two, play, repr_of
from streamsapp import (
    Consumed,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    StreamsBuilder,
    native,
)
from streamsapp.state.api import ValueAndTimestamp
from streamsapp.tasks.stream_task import StreamTask
from task_parts import raw, sent_by, task_of


class Rewriting(Processor):
    """Writes some of the counts that it hears of, in the store that they are in."""

    def init(self, context: ProcessorContext) -> None:
        self._store = context.get_state_store(STORE)
        self._heard = 0

    def process(self, record: Record) -> None:
        self._heard += 1
        if self._heard % 5 == 0:
            written = None if self._heard % 10 else ValueAndTimestamp(record.value + 40, record.timestamp)
            self._store.put(record.key, written)


#: The programs after the counts.
WAYS: dict[str, Callable[[KTable[Any, Any]], object]] = {
    "straight": lambda counts: counts.to_stream().to("out"),
    "nowhere": lambda counts: None,
    "two": lambda counts: into_two(counts.to_stream(), counts.to_stream()),
    "twice": lambda counts: into_two(out := counts.to_stream(), out),
    "changed": lambda counts: counts.to_stream().map_values(str).to("out", Produced(None, TEXT)),
    "other key": lambda counts: counts.to_stream().to("out", Produced(REVERSED, None)),
    "other value": lambda counts: counts.to_stream().to("out", Produced(None, Serdes.of(repr_of, int))),
    "partitioner": lambda counts: counts.to_stream().to("out", Produced(partitioner=lambda *_: 3)),
    "extractor": lambda counts: counts.to_stream().to(lambda key, value, context: f"out-{value % 2}"),
    "rewriting": lambda counts: counts.to_stream().process(Rewriting, STORE),
    "old values": lambda counts: counts.filter(lambda key, count: count % 2 == 0).to_stream().to("out"),
}


def program(way: str, emit: str) -> StreamTask:
    builder = StreamsBuilder()
    kept: Materialized[Any, Any] = Materialized(STORE, store="memory", emit="commit" if emit == "commit" else "update")
    WAYS[way](builder.stream("in", Consumed(TEXT, TEXT)).group_by_key().count(kept))
    return task_of(builder.build())


@pytest.mark.seeds(4)
@pytest.mark.parametrize("emit", ["update", "commit"])
@pytest.mark.parametrize("way", WAYS)
def test_random_records_are_counted_as_in_python(
    way: str, emit: str, seed: int, compiled: native.DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "data_path_at_hand", lambda: None)
    expected = play(program(way, emit), seed)
    monkeypatch.setattr(native, "data_path_at_hand", lambda: compiled)

    assert play(program(way, emit), seed) == expected


@pytest.mark.parametrize("at_hand", [True, False])
@pytest.mark.parametrize("emit", ["update", "commit"])
def test_counts_that_go_to_a_topic_as_they_are_pass_a_probe_while_one_is_there(
    emit: str, at_hand: bool, compiled: native.DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "data_path_at_hand", lambda: compiled if at_hand else None)
    task = program("straight", emit)
    sent: list[object] = []
    passed: list[int] = []
    for at in range(4):
        if at == 2:
            nodes = task.probes.look([*task.queues.values()], 1, None, processed=at, now=at)
        sent += sent_by(task, raw(at, at, key=b"k"))
        sent += commit(task)[0] if emit == "commit" else []
        passed.append(sum(probe.passed for name, probe in nodes.items() if "SINK" in name) if at > 1 else 0)

    assert sent == [("out", (at + 1).to_bytes(8, "big"), b"k", -1, None, None, at, None) for at in range(4)]
    assert passed == [0, 0, 1, 1]


def test_a_count_that_fits_no_long_is_an_error_and_is_not_kept(
    compiled: native.DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "data_path_at_hand", lambda: compiled)
    task = program("straight", "update")
    task.stores.stores[STORE].put("k", ValueAndTimestamp((1 << 63) - 1, 5))

    with pytest.raises(Exception, match="does not fit a long"):
        sent_by(task, raw(0, 5, key=b"k"))
    assert task.stores.stores[STORE].get("k") == ((1 << 63) - 1, 5)


class Layers:
    """The layers of a store, as far as counting asks for them."""

    def __init__(self, running: object) -> None:
        self.asked, self._running = 0, running

    def running(self) -> object:
        self.asked += 1
        return self._running


def test_the_running_epoch_is_asked_for_once(compiled: native.DataPath) -> None:
    epoch: dict[bytes, Any] = {}
    cache: dict[bytes, Any] = {b"a": (3, 7), b"b": (None, -1), b"c": [1, 2]}
    layers = Layers((epoch, None))
    counter = compiled.KeyCounter(layers, cache)
    cells = [counter.count(key, 5, 0) for key in (b"a", b"b", b"c", b"a")]

    assert [list(cell) for cell in cells] == [[5, 7], [1, 5], [2, 5], [5, 7]]
    assert cells[0] is cells[3]
    assert epoch == cache
    assert layers.asked == 1
    assert [counter.result(b"b", 4, 1, "t"), layers.asked] == [
        ("t", bytes(7) + b"\2", b"b", -1, None, None, 5, None),
        2,
    ]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda path: path.KeyCounter(None, None), TypeError),
        (lambda path: path.KeyCounter(Layers(({}, None)), {}).count(b"k", 1), TypeError),
        (lambda path: path.KeyCounter(Layers(({}, None)), {}).count("k", 1, 0), TypeError),
        (lambda path: path.KeyCounter(Layers(({}, None)), {}).count(b"k", "1", 0), TypeError),
        (lambda path: path.KeyCounter(Layers(({}, None)), {}).count(b"k", 1 << 70, 0), OverflowError),
        (lambda path: path.KeyCounter(Layers(({}, None)), {}).count(b"k", 1, 0), KeyError),
        (lambda path: path.KeyCounter(Layers(({}, None)), {}).result(b"k", 1, 0), TypeError),
        (lambda path: path.KeyCounter(Layers(({}, None)), {b"k": None}).count(b"k", 1, 0), TypeError),
        (lambda path: path.KeyCounter(Layers(({}, None)), {b"k": (1,)}).count(b"k", 1, 0), IndexError),
        (lambda path: path.KeyCounter(Layers(({}, None)), {b"k": ("1", 1)}).count(b"k", 1, 0), TypeError),
        (lambda path: path.KeyCounter(Layers(({}, None)), {b"k": (1 << 63, 1)}).count(b"k", 1, 0), OverflowError),
        (lambda path: path.KeyCounter(Layers(None), {b"k": (1, 1)}).count(b"k", 1, 0), TypeError),
        (lambda path: path.KeyCounter(Layers(([], None)), {b"k": (1, 1)}).count(b"k", 1, 0), TypeError),
        (lambda path: path.KeyCounter(None, {b"k": (1, 1)}).count(b"k", 1, 0), AttributeError),
    ],
)
def test_wrong_calls_are_refused(
    call: Callable[[Any], object], error: type[Exception], compiled: native.DataPath
) -> None:
    with pytest.raises(error):
        call(compiled)


def test_a_counter_that_is_part_of_a_circle_is_let_go(compiled: native.DataPath) -> None:
    gone: list[int] = []

    class Leaving(Layers):
        def __del__(self) -> None:
            gone.append(1)

    layers: Any = Leaving(({}, None))
    layers.counter = compiled.KeyCounter(layers, {})
    del layers
    gc.collect()

    assert gone == [1]

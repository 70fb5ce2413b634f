"""Keys that are counted in C are counted as in Python, and the records of the counts are the same."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from compiled_parts import count_push
from counting_tasks import REVERSED, STORE, TEXT, commit, into_two, play, repr_of
from models import in_python
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
from streamsapp.state.engine.entries import TimestampedFormat
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
    way: str, emit: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        in_python(patch)
        expected = play(program(way, emit), seed)

    assert play(program(way, emit), seed) == expected


@pytest.mark.parametrize("emit", ["update", "commit"])
def test_counts_that_go_to_a_topic_as_they_are_pass_a_probe_while_one_is_there(
    emit: str,
) -> None:
    task = program("straight", emit)
    sent: list[object] = []
    passed: list[int] = []
    [sink] = [node.name for node in task.plan.sub_topology.nodes if "SINK" in node.name]
    for at in range(4):
        if at == 2:
            nodes = task.probes.look(1, sink, processed=at, now=at)
        sent += sent_by(task, raw(at, at, key=b"k"))
        sent += commit(task)[0] if emit == "commit" else []
        passed.append(len(nodes[sink].last) if at > 1 else 0)

    assert sent == [("out", (at + 1).to_bytes(8, "big"), b"k", -1, None, None, at, None) for at in range(4)]
    assert passed == [0, 0, 1, 1]


def test_a_count_that_fits_no_long_is_an_error_and_is_not_kept() -> None:
    task = program("straight", "update")
    task.stores.stores[STORE].put("k", ValueAndTimestamp((1 << 63) - 1, 5))

    with pytest.raises(Exception, match="does not fit a long"):
        sent_by(task, raw(0, 5, key=b"k"))
    assert task.stores.stores[STORE].get("k") == ((1 << 63) - 1, 5)


def counting(compiled: ModuleType, known: dict[bytes, Any] | None = None) -> tuple[native.Cells, native.CellLog]:
    """Returns cells of a store that knows these entries, and the log of its running epoch."""
    cells = compiled.Cells(load=(known or {}).__getitem__)
    return cells, cells.begin()


def count(path: ModuleType, cells: native.Cells, key: Any, timestamp: Any) -> Any:
    """Counts a record, and returns the cell."""

    def keep(given: Any) -> Any:
        return given

    count_push(path, cells=cells, serialize_key=keep)(key, "x", timestamp, None)
    return cells.at_hand(key)


KNOWN: dict[bytes, Any] = {b"a": (3, 7), b"b": (None, -1), b"c": [1, 2]}


def test_a_key_is_written_once_in_an_epoch_with_what_it_had_at_last(compiled: ModuleType) -> None:
    cells, first = counting(compiled, KNOWN)
    counted = [count(compiled, cells, key, 5) for key in (b"a", b"b", b"c", b"a")]
    second = cells.begin()
    again = count(compiled, cells, b"a", 4)
    cells.write(b"c", None, 9)

    assert counted[0] is counted[3] is again
    assert list(again) == [6, 7]
    assert list(first) == [(b"a", (5, 7)), (b"b", (1, 5)), (b"c", (2, 5))]
    assert list(second) == [(b"a", (6, 7)), (b"c", (None, 9))]
    assert list(cells.read(b"c")) == [None, -1]
    assert list(count(compiled, cells, b"c", 3)) == [1, 3]
    assert list(second)[1:] == [(b"c", (1, 3))]


def test_results_tell_of_counts_and_of_keys_without_one(compiled: ModuleType) -> None:
    cells, _ = counting(compiled, KNOWN)
    held = [(count(compiled, cells, key, 8), key.decode(), b"more") for key in KNOWN]
    held[0][0].held = True
    cells.write(b"b", None, 9)

    def deleted_at(*what: object) -> int:
        assert what == ("b", b"more")
        return 9

    assert compiled.results(held=held, topic="t", deleted_at=deleted_at, before=0, behind=0) == [
        ("t", (4).to_bytes(8, "big"), b"a", -1, None, None, 8, None),
        ("t", None, b"b", -1, None, None, 9, None),
        ("t", (2).to_bytes(8, "big"), b"c", -1, None, None, 8, None),
    ]
    assert compiled.results(held=held[:1], topic="t", deleted_at=deleted_at, before=0, behind=1)[0][2] == b""
    assert not cells.at_hand(b"a").held


def test_a_count_that_is_deleted_before_the_commit_is_a_tombstone() -> None:
    task = program("straight", "commit")
    for key in (b"a", b"b"):
        sent_by(task, raw(0, 7, key=key))
    task.stores.stores[STORE].delete("a")

    assert commit(task)[0] == [
        ("out", None, b"a", -1, None, None, -1, None),
        ("out", (1).to_bytes(8, "big"), b"b", -1, None, None, 7, None),
    ]


def test_cells_that_grow_old_are_forgotten_unless_they_are_asked_for(compiled: ModuleType) -> None:
    asked: list[bytes] = []
    cells = compiled.Cells(load=lambda key: asked.append(key) or (1, 1))  # type: ignore[func-returns-value]
    for key in (b"a", b"b"):
        cells.read(key)
    cells.grow_old()
    kept = cells.at_hand(b"b")
    assert [len(cells), cells.older, b"a" in cells, kept is cells.read(b"b"), b"b" in cells] == [
        0,
        2,
        False,
        True,
        True,
    ]
    cells.put(b"b", (5, 5))
    cells.grow_old()

    assert [cells.at_hand(b"a"), cells.at_hand(b"b"), cells.older] == [None, kept, 1]
    assert list(kept) == [1, 1]
    cells.read(b"a")
    assert asked == [b"a", b"b", b"a"]
    cells.clear()
    assert [len(cells), cells.older] == [0, 0]


def window(start: int) -> bytes:
    return b"key" + start.to_bytes(8, "big") + bytes(4)


@pytest.mark.parametrize(("start_at", "latest"), [(12, 1), (0, (1 << 63) - 1)])
def test_cells_of_the_last_two_epochs_are_not_forgotten(start_at: int, latest: int, compiled: ModuleType) -> None:
    asked: list[bytes] = []
    cells = compiled.Cells(load=lambda key: asked.append(key) or (7, 7), start_at=start_at)  # type: ignore[func-returns-value]
    logs = []
    for start in range(4):
        logs.append(cells.begin())
        cells.write(window(start), start, 0)

    assert [cells.grow_old(), cells.grow_old()] == [-1, latest]
    assert [cells.at_hand(window(start)) for start in (0, 1)] == [None, None]
    assert [list(cells.read(window(start))) for start in (2, 3, 1)] == [[2, 0], [3, 0], [7, 7]]
    assert asked == [window(1)]
    logs.append(cells.begin())
    assert [cells.grow_old(), cells.grow_old()] == [-1, max(2, latest)]
    assert [cells.at_hand(window(start)) is None for start in (1, 2, 3)] == [True, True, False]


def test_a_cell_that_was_forgotten_is_the_same_again(compiled: ModuleType) -> None:
    cells, log = counting(compiled)
    cells.write(b"a", 3, 5)
    forgotten = log.cell(0)
    cells.clear()
    cells.put(b"a", forgotten)
    cells.put(b"b", forgotten)

    assert cells.at_hand(b"a") is forgotten
    assert cells.at_hand(b"b") is not forgotten
    assert list(cells.at_hand(b"b")) == [3, 5]


def staged(run: native.CellRun) -> list[tuple[bytes, bytes | None]]:
    """Returns what RocksDB gets."""
    given: list[tuple[bytes, bytes | None]] = []
    run.stage(
        put=lambda key, value, family: given.append((key, value)),
        delete=lambda key, family: given.append((key, None)),
        family=None,
    )
    return given


@pytest.mark.seeds(6)
def test_a_log_is_absorbed_looked_up_and_brought_into_order(seed: int, compiled: ModuleType) -> None:
    rng = random.Random(seed)
    cells, log = counting(compiled)
    waiting = compiled.CellLog()
    expected: dict[bytes, tuple[Any, int]] = {}
    prefix = rng.choice([b"", b"same"])
    for number in range(rng.randrange(600)):
        key = prefix + rng.randbytes(rng.choice([0, 1, 2, 9, 12]))[: rng.randrange(13)]
        entry = rng.choice([None, rng.randrange(-(1 << 63), 1 << 63)]), number
        cells.write(key, *entry)
        expected[key] = entry
        if not rng.randrange(50):
            waiting.absorb(log)
            log = cells.begin()
            if rng.randrange(2):
                cells.clear()  # so that there is another cell of the key, and the log has both
    waiting.absorb(log)

    assert dict(waiting) == expected
    assert list(waiting.in_order()) == sorted(expected.items())
    assert staged(waiting.in_order()[:]) == [
        (key, None if stored is None else TimestampedFormat(Serdes.long()).physical((stored, at)))
        for key, (stored, at) in sorted(expected.items())
    ]
    assert waiting.keys_from(0) == [key for key, _ in waiting]
    at = rng.randrange(len(waiting) + 1)
    assert [*waiting[:at], *waiting[at:]] == list(waiting)
    assert list(waiting[:at][1:-1]) == list(waiting)[:at][1:-1]
    hidden = len(prefix)
    assert list(waiting.behind(hidden)) == [(key[hidden:], entry) for key, entry in waiting]
    assert staged(waiting.behind(hidden)[at:]) == staged(waiting[at:])
    some = [place for place in range(len(waiting)) if rng.randrange(2)]
    assert list(waiting.only([waiting.keys_from(0)[place] for place in some])) == [waiting[place] for place in some]
    assert waiting.keys_from(at) == waiting.keys_from(0)[at:]
    assert [log.entry(cells.at_hand(key)) for key, _ in log] == [expected[key] for key, _ in log]
    assert compiled.CellLog().entry(cells.at_hand(b"")) is log.entry(None) is None


def test_a_number_that_writes_while_it_is_read_is_written_after_what_it_wrote(compiled: ModuleType) -> None:
    cells = compiled.Cells(load=lambda key: (None, -1))

    class Nested:
        def __init__(self, number: int) -> None:
            self._number = number

        def __index__(self) -> int:
            cells.write(b"inner%d" % self._number, -self._number, 1)
            return self._number

    log = cells.begin()
    for number in range(100):
        cells.write(b"outer%d" % number, Nested(number), 1)

    expected = [each for n in range(100) for each in ((b"inner%d" % n, (-n, 1)), (b"outer%d" % n, (n, 1)))]
    assert sorted((key, tuple(entry)) for key, entry in log) == sorted(expected)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda path, cells: path.Cells(), TypeError),
        (lambda path, cells: path.CountPush(cells), TypeError),
        (lambda path, cells: count_push(path, cells=[]), TypeError),
        (lambda path, cells: count_push(path, cells=cells, noted=({}, {})), TypeError),
        (lambda path, cells: count_push(path, cells=cells, noted=([], None)), TypeError),
        (lambda path, cells: count_push(path, cells=cells, topic=""), TypeError),
        (lambda path, cells: count_push(path, cells=cells)(1, 2, 3), TypeError),
        (lambda path, cells: count(path, cells, "a", 1), TypeError),
        (lambda path, cells: count(path, cells, b"a", "1"), TypeError),
        (lambda path, cells: count(path, cells, b"a", 1 << 70), OverflowError),
        (lambda path, cells: cells.read(b"missing"), KeyError),
        (lambda path, cells: cells.write(b"a", 1), TypeError),
        (lambda path, cells: cells.write("a", 1, 1), TypeError),
        (lambda path, cells: cells.write(b"a", "1", 1), TypeError),
        (lambda path, cells: cells.write(b"a", 1 << 63, 1), OverflowError),
        (lambda path, cells: cells.write(b"a", 1, None), TypeError),
        (lambda path, cells: cells.read("a"), TypeError),
        (lambda path, cells: cells.at_hand("a"), TypeError),
        (lambda path, cells: "a" in cells, TypeError),
        (lambda path, cells: cells.put(b"a"), TypeError),
        (lambda path, cells: cells.put("a", (1, 1)), TypeError),
        (lambda path, cells: cells.put(b"d", (1,)), IndexError),
        (lambda path, cells: cells.put(b"d", None), TypeError),
        (lambda path, cells: path.Cells(load=lambda key: None).read(b"a"), TypeError),
        (lambda path, cells: path.Cells(load=lambda key: (1,)).read(b"a"), IndexError),
        (lambda path, cells: path.Cells(load=lambda key: ("1", 1)).read(b"a"), TypeError),
        (lambda path, cells: path.Cells(load=lambda key: (1 << 63, 1)).read(b"a"), OverflowError),
        (lambda path, cells: count(path, path.Cells(load=lambda key: (1, 1)), b"a", 1), RuntimeError),
        (lambda path, cells: path.Cells(load=lambda key: (1, 1)).write(b"a", 1, 1), RuntimeError),
        (lambda path, cells: path.CellLog(1), TypeError),
        (lambda path, cells: path.CellLog()[0], IndexError),
        (lambda path, cells: path.CellLog()[-1], IndexError),
        (lambda path, cells: path.CellLog()["a"], TypeError),
        (lambda path, cells: path.CellLog()[::2], ValueError),
        (lambda path, cells: path.CellLog().absorb([]), TypeError),
        (lambda path, cells: path.CellLog().keys_from("a"), TypeError),
        (lambda path, cells: path.CellLog()[:][0], IndexError),
        (lambda path, cells: path.CellLog()[:][-1], IndexError),
        (lambda path, cells: path.CellLog()[:]["a"], TypeError),
        (lambda path, cells: path.CellLog()[:][::2], ValueError),
        (lambda path, cells: path.CellLog().behind(-1), ValueError),
        (lambda path, cells: path.CellLog()[:].stage(put=None, delete=None), TypeError),
        (lambda path, cells: path.CellLog().cell(0), IndexError),
        (lambda path, cells: path.CellLog().cell(-1), IndexError),
        (lambda path, cells: path.CellLog().cell("a"), TypeError),
        (lambda path, cells: path.CellLog().behind("a"), TypeError),
        (lambda path, cells: path.CellLog().only((b"a",)), TypeError),
        (lambda path, cells: path.CellLog().only([b"a"]), ValueError),
    ],
)
def test_wrong_calls_are_refused(
    call: Callable[[Any, Any], object], error: type[Exception], compiled: ModuleType
) -> None:
    cells, log = counting(compiled, KNOWN)
    with pytest.raises(error):
        call(compiled, cells)
    assert list(log) == []


def test_cells_that_are_part_of_a_circle_are_let_go(compiled: ModuleType) -> None:
    gone: list[int] = []

    class Leaving:
        def __del__(self) -> None:
            gone.append(1)

        def load(self, key: bytes) -> tuple[Any, int]:
            return 1, 1

    layers: Any = Leaving()
    layers.cells = compiled.Cells(load=layers.load)
    layers.cells.read(b"a")
    del layers
    gc.collect()

    assert gone == [1]

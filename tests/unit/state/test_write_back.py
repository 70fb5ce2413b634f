"""The write-back layer over an engine that is a dict, with entries of Python's and with cells in C."""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest

from streamsapp.errors import StateStoreError
from streamsapp.serdes.api import Serde
from streamsapp.state.engine.entries import ABSENT, Entry, PlainFormat, TimestampedFormat
from streamsapp.state.engine.epoch import Epoch
from streamsapp.state.engine.memory_engine import MemoryStore
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.layers.write_back import WriteBack

LONG = Serde[int](struct.Struct(">q").pack, lambda raw: struct.unpack(">q", raw)[0], immutable=True, name="long")


class CountingEngine:
    """Remembers what it was asked."""

    def __init__(self, entries: dict[bytes, Entry]) -> None:
        self.entries = entries
        self.gets: list[bytes] = []
        self.multi_gets: list[list[bytes]] = []

    def get(self, key: bytes) -> Entry:
        self.gets.append(key)
        return self.entries.get(key, ABSENT)

    def get_many(self, keys: Sequence[bytes]) -> list[Entry]:
        self.multi_gets.append(list(keys))
        return [self.entries.get(key, ABSENT) for key in keys]

    def scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        keys = sorted((k for k in self.entries if k >= start and (end is None or k < end)), reverse=reverse)
        return iter([(key, self.entries[key]) for key in keys])

    def count(self) -> int:
        return len(self.entries)

    def count_change(self, uncommitted: Mapping[bytes, Entry]) -> int:
        return len(uncommitted)


def write(engine: MemoryStore, entries: Iterable[tuple[bytes, Entry]]) -> None:
    for _ in engine.take_in(Epoch(entries), 100):
        pass


@pytest.fixture(params=[False, True], ids=["entries", "cells"])
def in_cells(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def layers_on(
    in_cells: bool, entries: dict[bytes, Entry], *, cache_bytes: int = 1 << 20
) -> tuple[WriteBack, CountingEngine]:
    resources = StateResources(16 << 20)
    resources.read_cache_share = cache_bytes
    layers = WriteBack(TimestampedFormat(LONG), resources, keeps_timestamps=True, in_cells=in_cells)
    engine = CountingEngine(entries)
    layers.attach(engine)
    return layers, engine


def read(layers: WriteBack, key: bytes) -> Entry:
    """Returns what is read; cells are as good as tuples."""
    stored, timestamp = layers.read(key)
    return stored, timestamp


def test_a_key_is_fetched_once_and_then_read_from_memory(in_cells: bool) -> None:
    layers, engine = layers_on(in_cells, {b"a": (1, 10)})
    assert [read(layers, b"a") for _ in range(3)] == [(1, 10)] * 3
    assert engine.gets == [b"a"]
    assert layers.figures.read_misses == 1


def test_a_key_that_is_absent_is_remembered_as_absent(in_cells: bool) -> None:
    layers, engine = layers_on(in_cells, {})
    assert [read(layers, b"a") for _ in range(2)] == [ABSENT, ABSENT]
    assert engine.gets == [b"a"]


def test_a_deleted_key_reads_as_absent_in_every_layer(in_cells: bool) -> None:
    layers, _ = layers_on(in_cells, {b"a": (1, 10)}, cache_bytes=0)
    layers.write(b"a", None, 99)
    assert read(layers, b"a") == ABSENT
    read(layers, b"push the cache out")
    assert read(layers, b"a") == ABSENT
    layers.freeze()
    read(layers, b"push the cache out")
    assert read(layers, b"a") == ABSENT


def test_a_plain_store_reads_without_timestamp_in_every_layer() -> None:
    layers = WriteBack(PlainFormat(LONG), StateResources(16 << 20), keeps_timestamps=False)
    layers.attach(CountingEngine({}))
    layers.write(b"a", 1, 99)
    assert layers.read(b"a") == (1, -1)
    layers.forget_cached()
    assert layers.read(b"a") == (1, -1)
    frozen = layers.freeze()
    layers.forget_cached()
    assert layers.read(b"a") == (1, -1)
    assert dict(frozen or {}) == {b"a": (1, 99)}


def test_frozen_writes_are_read_until_they_are_applied(in_cells: bool) -> None:
    layers, engine = layers_on(in_cells, {b"a": (1, 10)}, cache_bytes=0)
    layers.write(b"a", 2, 20)
    layers.freeze()
    layers.forget_cached()
    assert read(layers, b"a") == (2, 20)
    engine.entries[b"a"] = (2, 20)
    layers.drop_frozen()
    layers.forget_cached()
    assert read(layers, b"a") == (2, 20)


def test_a_second_freeze_before_the_first_is_applied_is_refused(in_cells: bool) -> None:
    layers, _ = layers_on(in_cells, {})
    layers.write(b"a", 1, 1)
    layers.freeze()
    with pytest.raises(StateStoreError, match="still being committed"):
        layers.freeze()


def test_an_epoch_without_writes_freezes_to_nothing(in_cells: bool) -> None:
    layers, _ = layers_on(in_cells, {})
    read(layers, b"a")
    assert layers.freeze() is None


def test_revert_shows_the_committed_entries_again(in_cells: bool) -> None:
    layers, _ = layers_on(in_cells, {b"a": (1, 10)})
    layers.write(b"a", 2, 20)
    layers.freeze()
    layers.write(b"b", 3, 30)
    layers.revert()
    assert (read(layers, b"a"), read(layers, b"b")) == ((1, 10), ABSENT)
    assert layers.uncommitted_entries == 0


def test_prefetch_asks_the_engine_once_and_only_for_what_is_missing(in_cells: bool) -> None:
    layers, engine = layers_on(in_cells, {b"a": (1, 10), b"b": (2, 20), b"c": (3, 30)})
    read(layers, b"a")
    layers.write(b"b", 9, 90)
    layers.forget_cached()
    layers.prefetch([b"b", b"c", b"d", b"c"])
    assert engine.multi_gets == [[b"c", b"d"]]
    assert [read(layers, key) for key in (b"b", b"c", b"d")] == [(9, 90), (3, 30), ABSENT]
    assert engine.gets == [b"a"]


def test_the_cache_stays_within_two_budgets_and_never_forgets_what_was_just_read(
    in_cells: bool,
) -> None:
    entries: dict[bytes, Entry] = {b"%d" % i: (i, i) for i in range(1000)}
    layers, engine = layers_on(in_cells, entries, cache_bytes=100 * 350)
    keys = list(entries)
    for i in range(len(keys)):
        for key in keys[max(0, i - 20) : i + 1]:
            read(layers, key)
        assert layers.cached_entries <= 2 * (100 * 350 // layers.entry_bytes + 1)
    assert engine.gets == keys


def test_read_stays_valid_when_the_cache_is_evicted(in_cells: bool) -> None:
    layers, _ = layers_on(in_cells, {}, cache_bytes=0)
    held, write = layers.read, layers.write
    for i in range(50):
        write(b"key", i, i)
        held(b"other%d" % i)
        assert tuple(held(b"key")) == (i, i)


def test_uncommitted_bytes_follow_the_size_of_what_is_written() -> None:
    layers = WriteBack(PlainFormat(Serde(bytes, bytes, True)), StateResources(16 << 20), keeps_timestamps=False)
    layers.attach(CountingEngine({}))
    for i in range(100):
        layers.write(b"%d" % i, bytes(100_000), 0)
    for _ in range(5):
        estimate = layers.uncommitted_bytes
    assert 8_000_000 < estimate < 12_000_000
    layers.freeze()
    assert 8_000_000 < layers.uncommitted_bytes < 12_000_000
    layers.drop_frozen()
    assert layers.uncommitted_bytes == 0


def test_scans_merge_all_layers_in_both_directions(in_cells: bool) -> None:
    layers, _ = layers_on(in_cells, dict.fromkeys((b"a", b"c", b"e", b"g"), (1, 1)))
    layers.write(b"c", None, 2)
    layers.write(b"d", 2, 2)
    layers.freeze()
    layers.write(b"e", None, 3)
    layers.write(b"h", 3, 3)
    layers.write(b"Z", 3, 3)
    expected = [(b"Z", (3, 3)), (b"a", (1, 1)), (b"d", (2, 2)), (b"g", (1, 1)), (b"h", (3, 3))]
    assert list(layers.scan(b"", None, reverse=False)) == expected
    assert list(layers.scan(b"", None, reverse=True)) == expected[::-1]
    assert list(layers.scan(b"a", b"g", reverse=True)) == expected[2:0:-1]


def test_a_memory_store_scans_beyond_one_chunk_in_both_directions() -> None:
    engine = MemoryStore(TimestampedFormat(LONG))
    entries: list[tuple[bytes, Entry]] = [(b"%05d" % i, (i, i)) for i in range(1000)]
    write(engine, entries)
    assert list(engine.scan(b"", None, reverse=False)) == entries
    assert list(engine.scan(b"", None, reverse=True)) == entries[::-1]
    assert list(engine.scan(b"00100", b"00900", reverse=True)) == entries[899:99:-1]


def test_a_scan_of_a_memory_store_is_not_disturbed_by_the_epoch_applied_meanwhile() -> None:
    layers = WriteBack(TimestampedFormat(LONG), StateResources(16 << 20), keeps_timestamps=True)
    engine = MemoryStore(TimestampedFormat(LONG))
    write(engine, [(b"%05d" % i, (i, 0)) for i in range(1000)])
    layers.attach(engine)
    for i in range(0, 2000, 2):
        layers.write(b"%05d" % i, None if i % 4 else -i, 1)
    frozen = layers.freeze()
    assert frozen is not None
    scan = layers.scan(b"", None, reverse=False)
    seen = [next(scan)]
    applier = threading.Thread(target=write, args=(engine, frozen.writes()))
    applier.start()
    seen.extend(scan)
    applier.join()
    expected = {**{b"%05d" % i: (i, 0) for i in range(1000)}, **frozen}
    assert seen == [(key, entry) for key, entry in sorted(expected.items()) if entry[0] is not None]


def test_an_epoch_that_is_applied_while_a_scan_begins_is_seen(in_cells: bool) -> None:
    layers, engine = layers_on(in_cells, {})
    layers.write(b"a", 1, 1)
    layers.freeze()
    began = engine.scan

    def scan(start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        view = began(start, end, reverse=reverse)
        engine.entries[b"a"] = (1, 1)
        layers.drop_frozen()
        return view

    engine.scan = scan  # type: ignore[method-assign]
    assert list(layers.scan(b"", None, reverse=False)) == [(b"a", (1, 1))]


def test_a_memory_store_can_be_scanned_while_keys_come_and_go() -> None:
    engine = MemoryStore(TimestampedFormat(LONG))
    write(engine, [(b"stays%05d" % i, (i, 0)) for i in range(0, 3000, 2)])
    comes_and_goes = [b"stays%05d" % i for i in range(1, 3000, 2)]
    done = threading.Event()

    def come_and_go() -> None:
        while not done.is_set():
            write(engine, [(key, (1, 1)) for key in comes_and_goes])
            write(engine, [(key, ABSENT) for key in comes_and_goes])

    writer = threading.Thread(target=come_and_go)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    writer.start()
    try:
        for _ in range(20):
            stayed = [entry[0] for _, entry in engine.scan(b"", None, reverse=False) if entry[1] == 0]
            assert stayed == list(range(0, 3000, 2))
    finally:
        done.set()
        writer.join()
        sys.setswitchinterval(interval)


def test_a_detached_store_refuses_reads_that_miss(in_cells: bool) -> None:
    layers, _ = layers_on(in_cells, {b"a": (1, 1)})
    read(layers, b"a")
    layers.attach(None)
    with pytest.raises(StateStoreError, match="closed"):
        read(layers, b"a")

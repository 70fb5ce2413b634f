"""Records of a changelog become the entries that RocksDB gets, in C as in Python."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

from fetched_batches import CODECS, fetched_batch, flipped
from streamsapp import Serdes, native
from streamsapp.kafka.fetching.decompression import all_decompressed
from streamsapp.record import InputRecord
from streamsapp.state.engine.entries import PhysicalEntry, PlainFormat, TimestampedFormat

FORMATS = {False: PlainFormat(Serdes.bytes()), True: TimestampedFormat(Serdes.bytes())}
BASE = 7

Given = tuple[int, int, bytes | None, bytes | None, Any]


def chunk_of(path: ModuleType, data: bytes) -> native.Chunk:
    return native.Chunk(
        topic="t", partition=3, data=data, position=0, aborted=[], decompress=partial(all_decompressed, most=1 << 28)
    )


def staged(packed: native.PackedRecords, *, timestamped: bool = False, limit: int = 1 << 20) -> list[PhysicalEntry]:
    """The entries that RocksDB gets, in batches of up to ``limit``."""
    family, written = object(), list[PhysicalEntry]()
    packed.sort()
    left = True
    while left:
        batch: list[PhysicalEntry] = []

        def put(key: bytes, value: bytes, into: object, batch: list[PhysicalEntry] = batch) -> None:
            assert into is family
            batch.append((key, value))

        def delete(key: bytes, of: object, batch: list[PhysicalEntry] = batch) -> None:
            assert of is family
            batch.append((key, None))

        left = packed.stage(put=put, delete=delete, family=family, limit=limit, timestamped=timestamped)
        assert len(batch) == limit or not left
        written += batch
    return written


def expected(records: Sequence[InputRecord], *, timestamped: bool) -> list[PhysicalEntry]:
    """As Python makes them: of a key's values the last wins."""
    restored = FORMATS[timestamped].restored
    last = {key: restored(record) for record in records if (key := record.key()) is not None}
    return sorted(last.items())


def a_key(rng: random.Random, prefix: bytes) -> bytes | None:
    """Many begin alike, some are the beginnings of others, and some come again."""
    end = rng.choice([b"", b"\0", b"\0\0", b"\xff", b"%d" % rng.randrange(40), rng.randbytes(rng.randrange(12))])
    return None if rng.random() < 0.05 else prefix + end


def a_log(rng: random.Random) -> list[Given]:
    prefix = rng.choice([b"", b"user-", b"a prefix that is longer than eight bytes "])
    values = [None, b"", b"v", b"again" * 300]
    times = [-1, 0, 5, 2**62]
    count = rng.choice([0, 1, 2, 3, 30, 300])
    keys = [rng.choice([None, b""])] * count if rng.random() < 0.3 else [a_key(rng, prefix) for _ in range(count)]
    headers = [None, [("h", b"x"), ("ü", None)]]
    return [(n, rng.choice(times), key, rng.choice(values), rng.choice(headers)) for n, key in enumerate(keys)]


def batches_of(rng: random.Random, log: list[Given]) -> bytes:
    """As a broker sends them, in batches of any size."""
    data, begin = b"", 0
    while begin < len(log):
        end = begin + rng.randrange(1, 100)
        given = [(offset - begin, *rest) for offset, *rest in log[begin:end]]
        data += fetched_batch(BASE + begin, given, rng.choice([*CODECS]))
        begin = end
    return data


@pytest.mark.parametrize("timestamped", [False, True])
@pytest.mark.seeds(25)
def test_the_last_value_of_each_key_is_staged_in_the_order_of_keys(
    compiled: ModuleType, seed: int, timestamped: bool
) -> None:
    rng = random.Random(seed)
    log = a_log(rng) or [(0, 1, None, None, None)]
    data, bound = batches_of(rng, log), BASE + rng.randrange(len(log) + 2)
    records = [it for it in chunk_of(compiled, data).take(1 << 20) if it.offset() < bound]

    chunk, all_of_them, sizes = chunk_of(compiled, data), compiled.PackedRecords(), [0]
    while part := chunk.take_packed(rng.choice([1, 7, 200])):
        assert part.last_offset == chunk.position - 1
        part.keep_before(bound)
        all_of_them.extend(part)
        sizes.append(all_of_them.size)

    assert len(all_of_them) == len(records)
    assert all_of_them.last_offset == (records[-1].offset() if records else -1)
    assert sizes == sorted(sizes)
    found = staged(all_of_them, timestamped=timestamped, limit=rng.choice([1, 3, 1000]))
    assert found == expected(records, timestamped=timestamped)


def test_what_is_left_out_takes_no_room(compiled: ModuleType) -> None:
    packed = chunk_of(compiled, fetched_batch(0, [(n, 1, b"key", b"v" * 100, None) for n in range(10)])).take_packed(10)
    whole = packed.size
    packed.keep_before(5)
    assert packed.size == whole // 2
    packed.keep_before(0)
    assert (len(packed), packed.size, packed.last_offset) == (0, 0, -1)
    assert staged(packed) == []


def test_a_batch_that_may_not_be_read_is_refused_as_it_is_for_records(compiled: ModuleType) -> None:
    """With any bit changed, as many records come, and the error is the same."""
    rng, told = random.Random(5), set[str]()
    given = [(n, 5, b"k%d" % n, b"value" * n, [("h", b"x")]) for n in range(4)]
    whole = {codec: fetched_batch(0, given, codec) for codec in CODECS}
    for _ in range(3000):
        data = flipped(rng.choice([*whole.values()]), rng)

        def read(take: Callable[[native.Chunk], Any], data: bytes = data) -> tuple[int, int, str]:
            count, position = 0, 0
            try:
                chunk = compiled.Chunk(
                    topic="t",
                    partition=0,
                    data=data,
                    position=0,
                    aborted=[],
                    decompress=partial(all_decompressed, most=1 << 28),
                    unchecked=True,
                )
                while taken := take(chunk):
                    count, position = count + len(taken), chunk.position
            except (ValueError, NotImplementedError) as error:
                return count, position, str(error)
            return count, position, ""

        found = read(lambda chunk: chunk.take_packed(2))
        assert found == read(lambda chunk: chunk.take(2))
        told.add(found[2])
    assert "" in told
    assert any("record that cannot be read" in it for it in told)


def test_records_in_order_stay_as_they_are(compiled: ModuleType) -> None:
    packed, other = compiled.PackedRecords(), compiled.PackedRecords()
    with pytest.raises(RuntimeError, match="not in order yet"):
        packed.stage(put=print, delete=print, family=None, limit=1, timestamped=False)
    packed.sort()
    for change in packed.sort, lambda: packed.extend(other), lambda: packed.keep_before(0):
        with pytest.raises(RuntimeError, match="in order already"):
            change()


def test_nothing_else_is_taken_for_packed_records(compiled: ModuleType) -> None:
    packed: Any = compiled.PackedRecords()
    with pytest.raises(ValueError, match="the same"):
        packed.extend(packed)
    for wrong in [b"record"], None:
        with pytest.raises(TypeError):
            packed.extend(wrong)
    with pytest.raises(TypeError):
        packed.keep_before("0")
    with pytest.raises(TypeError):
        type(packed)(1)


def test_an_entry_that_is_not_taken_is_staged_again(compiled: ModuleType) -> None:
    packed = chunk_of(compiled, fetched_batch(0, [(n, 1, b"%d" % n, b"v", None) for n in range(3)])).take_packed(3)
    packed.sort()
    taken: list[bytes] = []

    def put(key: bytes, value: bytes, family: object) -> None:
        if key == b"1" and taken.count(b"0") and len(taken) == 1:
            taken.append(b"refused")
            raise OSError("the disk is full")
        taken.append(key)

    def delete(key: bytes, family: object) -> None:
        raise AssertionError(key)

    with pytest.raises(OSError, match="full"):
        packed.stage(put=put, delete=delete, family=None, limit=9, timestamped=False)
    assert not packed.stage(put=put, delete=delete, family=None, limit=9, timestamped=False)
    assert taken == [b"0", b"refused", b"1", b"2"]


@pytest.mark.skipif(not find_spec("_testcapi"), reason="this Python has no _testcapi")
def test_no_record_is_lost_where_there_is_no_memory_for_it(compiled: ModuleType) -> None:
    import _testcapi  # type: ignore[import-not-found]  # CPython's own, which not every Python has

    data, refused = fetched_batch(0, [(n, 1, b"%02d" % n, b"v" * 9000, None) for n in range(20)]), 0
    for failing in range(40):
        chunk, gathered = chunk_of(compiled, data), compiled.PackedRecords()
        _testcapi.set_nomemory(failing, failing + 1)
        try:
            gathered.extend(chunk.take_packed(30))
        except MemoryError:
            refused += 1
            chunk = chunk_of(compiled, data)
        finally:
            _testcapi.remove_mem_hooks()
        gathered.extend(chunk.take_packed(30))
        assert [key for key, _ in staged(gathered)] == [b"%02d" % n for n in range(20)]
    assert refused

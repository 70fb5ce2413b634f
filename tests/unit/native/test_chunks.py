"""Record batches that another client has encoded are read in C, and what is wrong is refused."""

from __future__ import annotations

import gc
import random
import struct
import weakref
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import pytest

from compiled_parts import chunk as chunk_part
from fetched_batches import (
    CODECS,
    CONTROL,
    HEADER,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    changed,
    fetched_batch,
    flipped,
    number,
)
from streamsapp import native
from streamsapp.errors import OversizedBatchError
from streamsapp.kafka.fetching import decompression
from streamsapp.record import InputRecord

#: All that can be asked of a record.
Row: TypeAlias = tuple[str, int, int, tuple[int, int], bytes | None, bytes | None, Any, int]

TIMES = [-1, 0, 1, 1_700_000_000_000, 2**62]


def chunk_of(
    path: ModuleType, data: bytes, position: int = 0, aborted: Any = (), room: int = 1 << 28, **bounds: Any
) -> native.Chunk:
    """The chunk of bytes that a broker has sent in the middle of others."""
    return chunk_part(
        path,
        partition=3,
        data=memoryview(b"before" + data + b"after")[6:-5],
        position=position,
        aborted=list(aborted),
        decompress=partial(decompression.decompressed, most=room),
        **bounds,
    )


def row(record: InputRecord) -> Row:
    place = record.topic(), record.partition(), record.offset()
    return *place, record.timestamp(), record.key(), record.value(), record.headers(), len(record)


def row_of(base: int, given: tuple[int, int, Any, Any, Any], appended: int | None = None) -> Row:
    offset, time, key, value, headers = given
    when = (1, time) if appended is None else (2, appended)
    return "t", 3, base + offset, when, key, value, headers or None, len(value or b"")


def drained(chunk: native.Chunk, rng: random.Random) -> list[Row]:
    """All that is left, taken in parts; the chunk gives the position after each part."""
    rows: list[Row] = []
    while True:
        limit = rng.choice([1, 2, 7, 1000])
        taken = chunk.take(limit)
        rows += map(row, taken)
        if len(taken) < limit:
            assert (chunk.position, chunk.take(1000)) == (chunk.end_position, [])
            return rows
        assert (len(taken), chunk.position) == (limit, taken[-1].offset() + 1)


def offsets(records: Iterable[InputRecord]) -> list[int]:
    return [it.offset() for it in records]


def simple(*offsets: int) -> list[tuple[int, int, Any, Any, Any]]:
    return [(offset, 5, b"k", b"%d" % offset, None) for offset in offsets]


def some(rng: random.Random) -> bytes | None:
    return rng.choice([None, b"", b"\0", rng.randbytes(rng.choice([1, 63, 64, 200])), b"again" * rng.randrange(2000)])


def given_at(rng: random.Random, deltas: Iterable[int]) -> list[tuple[int, int, Any, Any, Any]]:
    def headers() -> Any:
        return rng.choice([None, [], [(rng.choice(["", "a", "ü"]), some(rng)) for _ in range(rng.randrange(70))]])

    return [(delta, rng.choice(TIMES), some(rng), some(rng), headers()) for delta in deltas]


def a_log(rng: random.Random) -> tuple[list[tuple[int, bytes]], list[Row], int]:
    """Batches of a log, with where they end, their records, and where all ends. Between batches, in them, and at their
    ends, records are missing that were compacted, or all of a batch's."""
    batches, rows, end = list[tuple[int, bytes]](), list[Row](), rng.choice([0, 7, 1 << 40, 1 << 62])
    for _ in range(rng.randrange(1, 9)):
        base, deltas = end + rng.choice([0, 0, 3]), sorted(rng.sample(range(50), rng.choice([0, 1, 5, 40])))
        given, last = given_at(rng, deltas), max([0, *deltas]) + rng.choice([0, 0, 4])
        fields, appended = {"last_offset_delta": last}, None
        if rng.random() < 0.3:
            appended = rng.choice(TIMES)
            fields |= {"attributes": LOG_APPEND_TIME, "max_timestamp": appended}
        end = base + last + 1
        batches.append((end, fetched_batch(base, given, rng.choice([*CODECS]), **fields)))
        rows += [row_of(base, it, appended) for it in given]
    return batches, rows, end


@pytest.mark.seeds(20)
def test_records_are_read_as_they_were_given_from_any_offset_on(compiled: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    batches, rows, end = a_log(rng)
    everything = b"".join(data for _, data in batches)

    assert drained(chunk_of(compiled, everything), rng) == rows
    for position in {rng.randrange(rows[0][2] if rows else 0, end) for _ in range(10)}:
        chunk = chunk_of(compiled, b"".join(data for behind, data in batches if behind > position), position)
        assert (chunk.position, chunk.end_position) == (position, end)
        assert drained(chunk, rng) == [it for it in rows if it[2] >= position]


@pytest.mark.parametrize("codec", CODECS)
def test_each_codec_and_a_record_that_is_larger_than_all_others(compiled: ModuleType, codec: str) -> None:
    given = [(0, 5, b"k" * 70_000, b"v" * 200_000, [("h", b"x" * 30_000)]), *simple(*range(1, 500))]
    data, called = fetched_batch(1, given, codec), list[int]()

    def decompress(number: int, data: bytes) -> bytes | Exception:
        called.append(number)
        return decompression.decompressed(number, data, 1 << 28)

    chunk = chunk_part(compiled, partition=3, data=bytearray(data), decompress=decompress)

    assert list(map(row, chunk.take(1000))) == [row_of(1, it) for it in given]
    assert called == [CODECS[codec][0]] * (codec != "none")


def test_the_epoch_is_that_of_the_last_batch(compiled: ModuleType) -> None:
    first, second = fetched_batch(0, simple(0), epoch=4), fetched_batch(1, simple(0), epoch=6)

    assert chunk_of(compiled, first + second).epoch == 6
    assert chunk_of(compiled, first + second[:-1]).epoch == 4


def test_checksums_may_be_left_unchecked(compiled: ModuleType) -> None:
    data = changed(fetched_batch(0, simple(0)), crc=7)

    assert offsets(chunk_of(compiled, data, unchecked=True).take(5)) == [0]


def test_a_header_whose_name_is_no_text_raises_for_who_asks_and_harms_nothing_else(compiled: ModuleType) -> None:
    names = [one(b"\0", 0, 1, 1, b"k", 1, b"v", 3, 1, b"a", -1, 2, b"\xff\0", 1, b"x", 1, b"b", 0)]
    chunk = chunk_of(compiled, by_hand(0, [good(0), *names, good(2)]))

    before, record, after = chunk.take(5)

    for _ in range(2):
        with pytest.raises(UnicodeDecodeError):
            record.headers()
    assert (record.offset(), record.key(), record.value(), len(record)) == (1, b"k", b"v", 1)
    assert [row(before), row(after)] == [row_of(0, (offset, 0, b"k", b"v", None)) for offset in (0, 2)]


def test_nothing_stays_of_a_record_whose_headers_were_asked_for_and_are_no_text(compiled: ModuleType) -> None:
    data = by_hand(0, [one(b"\0", 0, 0, 1, b"k", 1, b"v", 1, 1, b"\xff", -1)])

    def ask() -> weakref.ref[Any]:
        [record], here = chunk_of(compiled, data).take(9), Counter[str]()
        with suppress(UnicodeDecodeError):
            record.headers()
        return weakref.ref(here)

    found = ask()
    gc.collect()
    assert found() is None


@dataclass
class Transaction:
    producer: int
    first: int
    #: The offset of the marker that ends it.
    marker: int = -1
    aborted: bool = False


class Part(NamedTuple):
    end: int
    data: bytes
    rows: list[Row]
    transaction: Transaction | None


def transactions(rng: random.Random) -> tuple[list[Part], list[Transaction]]:
    """A log of what producers write, in transactions and without; and its transactions, in the order of their ends."""
    parts, ended, running, end = list[Part](), list[Transaction](), dict[int, Transaction](), 0
    while len(parts) < 30 or running:
        producer, kind = rng.choice([1, 2, 3]), rng.choice(["plain", "write", "write", "end"])
        if kind == "end" and producer in running:
            ended.append(running.pop(producer))
            ended[-1].marker, ended[-1].aborted = end, rng.random() < 0.5
            given, rows = [(0, 9, struct.pack(">hh", 0, not ended[-1].aborted), bytes(6), None)], list[Row]()
        elif kind != "end" and len(parts) < 30:
            given = given_at(rng, range(rng.choice([1, 3])))
            rows = [row_of(end, it) for it in given]
        else:
            continue
        transaction = running.setdefault(producer, Transaction(producer, end)) if kind == "write" else None
        attributes = {"plain": 0, "write": TRANSACTIONAL, "end": TRANSACTIONAL | CONTROL}[kind]
        data = fetched_batch(end, given, producer=producer, attributes=attributes)
        parts.append(Part(end + len(given), data, rows, transaction))
        end += len(given) + rng.choice([0, 0, 2])
    return parts, ended


#: By their first offsets, or in the order of brokers, which note an aborted transaction when it ends; or not at all.
@pytest.mark.parametrize("order", ["first", "marker", None])
@pytest.mark.seeds(5)
def test_only_what_is_committed_comes_whatever_is_fetched(compiled: ModuleType, seed: int, order: str | None) -> None:
    rng = random.Random(seed)
    log, ended = transactions(rng)
    for position in range(log[-1].end):
        begin = next(number for number, part in enumerate(log) if part.end > position)
        parts = log[begin : rng.randrange(begin, len(log)) + 1]
        aborted = [it for it in ended if it.aborted and it.marker >= position and it.first < parts[-1].end]
        told = sorted(aborted, key=attrgetter(order)) if order else []

        data = b"".join(part.data for part in parts)
        chunk = chunk_of(compiled, data, position, [(it.producer, it.first) for it in told])

        assert drained(chunk, rng) == [
            it
            for part in parts
            if not (order and part.transaction and part.transaction.aborted)
            for it in part.rows
            if it[2] >= position
        ]
        assert chunk.position == parts[-1].end


def test_of_two_transactions_the_one_that_begins_first_may_be_aborted_last(compiled: ModuleType) -> None:
    marker = [(0, 9, struct.pack(">hh", 0, 0), bytes(6), None)]
    parts = [
        fetched_batch(0, simple(0), producer=1, attributes=TRANSACTIONAL),
        fetched_batch(1, simple(0), producer=2, attributes=TRANSACTIONAL),
        fetched_batch(2, marker, producer=2, attributes=TRANSACTIONAL | CONTROL),
        fetched_batch(3, marker, producer=1, attributes=TRANSACTIONAL | CONTROL),
        fetched_batch(4, simple(0), producer=1, attributes=TRANSACTIONAL),
    ]

    assert offsets(chunk_of(compiled, b"".join(parts), aborted=[(1, 0), (2, 1)]).take(9)) == [4]
    assert offsets(chunk_of(compiled, b"".join(parts), aborted=[(2, 1), (1, 0)]).take(9)) == [4]


def one(*parts: bytes | int, size: int | None = None) -> bytes:
    """A record of these parts, among which are numbers."""
    body = b"".join(number(part) if isinstance(part, int) else part for part in parts)
    return number(len(body) if size is None else size) + body


def good(offset: int) -> bytes:
    return one(b"\0", 0, offset, 1, b"k", 1, b"v", 0)


def by_hand(base: int, records: list[bytes], **fields: int) -> bytes:
    """A batch of records in their bytes."""
    data = fetched_batch(base, [])[:HEADER] + b"".join(records)
    counted = {"count": len(records), "last_offset_delta": len(records) - 1}
    return changed(data, length=len(data) - 12, **counted | fields)


#: A number that goes on for longer than any number may; the bytes after it could be read.
ENDLESS = b"\x80" * 10 + b"\0"

#: Records that cannot be the third one of a batch of four.
BROKEN_RECORDS = {
    "has no bytes": one(),
    "has a time that does not end": one(b"\0", ENDLESS, 2, -1, -1, 0),
    "comes before the batch": one(b"\0", 0, -1, -1, -1, 0),
    "comes after the batch": one(b"\0", 0, 4, -1, -1, 0),
    "goes back": one(b"\0", 0, 0, -1, -1, 0),
    "does not go on": one(b"\0", 0, 1, -1, -1, 0),
    "has a key that goes beyond it": one(b"\0", 0, 2, 9, b"k", -1, 0),
    "has a key whose size does not end": one(b"\0", 0, 2, ENDLESS, -1, 0),
    "has no value": one(b"\0", 0, 2, -1),
    "has a value that goes beyond it": one(b"\0", 0, 2, -1, 9, b"v", 0),
    "has a value of an enormous size": one(b"\0", 0, 2, -1, (1 << 63) - 1, b"v", 0),
    "has less than no headers": one(b"\0", 0, 2, -1, -1, -1),
    "has more headers than fit": one(b"\0", 0, 2, -1, -1, 1 << 40, 0, -1),
    "has a header without a name": one(b"\0", 0, 2, -1, -1, 1, -1, 1, b"x"),
    "has a header whose name goes beyond it": one(b"\0", 0, 2, -1, -1, 1, 9, b"h", -1),
    "has a header whose value goes beyond it": one(b"\0", 0, 2, -1, -1, 1, 1, b"h", 9, b"x"),
    "has bytes behind its headers": one(b"\0", 0, 2, -1, -1, 0, b"x"),
}


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("broken", BROKEN_RECORDS.values(), ids=BROKEN_RECORDS)
def test_a_record_that_cannot_be_read_is_told_after_those_before_it(
    compiled: ModuleType, broken: bytes, codec: str
) -> None:
    number, compress = CODECS[codec]
    records = compress(good(0) + good(1) + broken + good(3))
    second = by_hand(20, [records], attributes=number, count=4, last_offset_delta=3)
    chunk = chunk_of(compiled, fetched_batch(10, simple(0, 5)) + second, 10)

    assert offsets(chunk.take(100)) == [10, 15, 20, 21]
    for _ in range(2):
        with pytest.raises(ValueError, match="offset 20 has a record that cannot be read"):
            chunk.take(100)
        assert chunk.position == 22


#: The fields that the header of a batch has, and what is said of it.
BROKEN_BATCHES: dict[str, tuple[dict[str, int], str]] = {
    "has another checksum": ({"crc": 1}, "its checksum is wrong"),
    "is compressed in a way that is not known": ({"attributes": 7}, "codec 7, which is not known"),
    "is compressed, and is not": ({"attributes": 4}, "cannot be decompressed"),
    "has fewer records than it says": ({"count": 4}, "more or fewer records than it says"),
    "has more records than it says": ({"count": 2}, "more or fewer records than it says"),
    "has records and says that it has none": ({"count": 0}, "more or fewer records than it says"),
}

#: Batches for which the reader believes nothing of an answer.
WRONG_BATCHES: dict[str, tuple[dict[str, int], str]] = {
    "has less than no records": ({"count": -1}, "a wrong number of records"),
    "has more records than offsets": ({"last_offset_delta": 1}, "a wrong number of records"),
    "ends before it begins": ({"last_offset_delta": -1}, "wrong offsets"),
    "has a negative offset": ({"base_offset": -1}, "wrong offsets"),
    "goes back": ({"base_offset": 15}, "wrong offsets"),
    "goes back to the one before": ({"base_offset": 10}, "wrong offsets"),
    "goes beyond all offsets": ({"base_offset": (1 << 63) - 8}, "wrong offsets"),
    "has a negative size": ({"length": -1}, "has no header"),
    "is smaller than its header": ({"length": 48}, "has no header"),
}


@pytest.mark.parametrize(("fields", "text"), BROKEN_BATCHES.values(), ids=BROKEN_BATCHES)
def test_a_batch_that_cannot_be_read_is_told_after_those_before_it(
    compiled: ModuleType, fields: dict[str, int], text: str
) -> None:
    broken = changed(fetched_batch(20, simple(0, 1, 2)), **{"last_offset_delta": 7} | fields)
    data = fetched_batch(10, simple(0, 5)) + broken + fetched_batch(90, simple(0))
    chunk = chunk_of(compiled, data, 10, room=1 << 20)

    assert offsets(chunk.take(100))[:2] == [10, 15]
    for _ in range(2):
        with pytest.raises(ValueError, match=text):
            chunk.take(100)


@pytest.mark.parametrize(("fields", "text"), WRONG_BATCHES.values(), ids=WRONG_BATCHES)
def test_nothing_is_taken_of_batches_whose_headers_do_not_fit_to_one_another(
    compiled: ModuleType, fields: dict[str, int], text: str
) -> None:
    wrong = changed(fetched_batch(20, simple(0, 1, 2)), **{"last_offset_delta": 7} | fields)
    before, after = fetched_batch(10, simple(0, 5)), fetched_batch(90, simple(0))

    for data in (before + wrong + after, before + wrong, *([] if "base_offset" in fields else [wrong + after])):
        with pytest.raises(ValueError, match=text):
            chunk_of(compiled, data, 10)


def test_a_batch_before_what_was_asked_for_is_refused(compiled: ModuleType) -> None:
    data = fetched_batch(10, simple(0, 1)) + fetched_batch(12, simple(0, 1))

    assert offsets(chunk_of(compiled, data, 11).take(9)) == [11, 12, 13]
    with pytest.raises(ValueError, match="offset 10 lies before what was asked for"):
        chunk_of(compiled, data, 12)


def test_batches_that_reach_the_end_of_the_log_are_left_out(compiled: ModuleType) -> None:
    batches = [fetched_batch(0, simple(0, 1)), fetched_batch(5, simple(0, 1)), fetched_batch(7, simple(0))]
    for log_end, end, found in [
        (8, 8, [0, 1, 5, 6, 7]), (7, 7, [0, 1, 5, 6]), (6, 2, [0, 1]), (5, 2, [0, 1]), (2, 2, [0, 1]), (1, 0, []),
        (0, 0, []), (-1, 0, []),
    ]:  # fmt: skip
        chunk = chunk_of(compiled, b"".join(batches), log_end=log_end)
        assert (chunk.end_position, offsets(chunk.take(9)), chunk.position) == (end, found, end)


@pytest.mark.parametrize("codec", ["zstd", "gzip", "lz4", "xerial"])
def test_one_record_that_cannot_be_read_comes_in_place_of_a_batch_that_is_too_large(
    compiled: ModuleType, codec: str
) -> None:
    large = fetched_batch(10, [(0, 7, b"k", bytes(800_000), None), (4, 9, b"k", bytes(800_000), None)], codec)
    data = fetched_batch(0, simple(0, 5)) + large + fetched_batch(20, simple(0), codec)
    chunk = chunk_of(compiled, data, room=1 << 20)

    taken = chunk.take(9)

    assert (offsets(taken), chunk.position, chunk.end_position) == ([0, 5, 14, 20], 21, 21)
    stand_in = taken[2]
    assert (stand_in.key(), stand_in.value(), stand_in.timestamp()) == (None, None, (1, 9))
    for _ in range(2):
        with pytest.raises(OversizedBatchError, match=r"batch at offsets 10 to 14 has more than 1048576 bytes"):
            stand_in.headers()
    packed = chunk_of(compiled, data, room=1 << 20)
    assert packed.take_packed(9).last_offset == 5
    for _ in range(2):
        with pytest.raises(OversizedBatchError, match="offsets 10 to 14"):
            packed.take_packed(9)
    assert packed.position == 6


def test_no_more_batches_are_opened_than_there_is_room_for(compiled: ModuleType) -> None:
    batches = [fetched_batch(each * 2, [(n, 7, b"k", bytes(1000), None) for n in (0, 1)], "zstd") for each in range(9)]
    chunk = chunk_of(compiled, b"".join(batches), most=5000)

    taken = []
    while records := chunk.take(100):
        taken.append(offsets(records))

    assert taken == [[*range(6)], [*range(6, 12)], [*range(12, 18)]]
    assert chunk.opened > 18_000


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_batches_before_one_that_was_cut_off_are_read_and_it_is_told_where_to_go_on(
    compiled: ModuleType, codec: str
) -> None:
    first, last = fetched_batch(0, simple(0, 3), codec, last_offset_delta=6), fetched_batch(9, simple(0), codec)
    for cut in range(len(last)):
        chunk = chunk_of(compiled, first + last[:cut])
        assert (chunk.end_position, offsets(chunk.take(9))) == (7, [0, 3])
        assert (chunk.take(9), chunk.position) == ([], 7)
    for cut in range(len(first)):
        with pytest.raises(ValueError, match="not whole"):
            chunk_of(compiled, first[:cut])


@pytest.mark.parametrize("version", [0, 1])
def test_batches_in_older_formats_are_left_to_others(compiled: ModuleType, version: int) -> None:
    with pytest.raises(NotImplementedError, match=f"version {version}"):
        chunk_of(compiled, changed(fetched_batch(0, simple(5)), magic=version))


@pytest.mark.parametrize("unchecked", [False, True])
def test_any_bit_may_be_changed(compiled: ModuleType, unchecked: bool) -> None:
    """With checksums, what comes is what was sent; without them anything may come, and nothing else happens."""
    rng, seen = random.Random(4), Counter[str]()
    given = {codec: [(n, 5, b"k%d" % n, codec.encode() * 9, [("h", b"x")]) for n in range(3)] for codec in CODECS}
    batches = [fetched_batch(number * 3, it, codec) for number, (codec, it) in enumerate(given.items())]
    sent = [row_of(0, it)[3:] for each in given.values() for it in each]
    for _ in range(3000):
        begin = rng.randrange(len(batches))
        rows = []
        try:
            chunk = chunk_of(
                compiled, flipped(b"".join(batches[begin : begin + 2]), rng), unchecked=unchecked, room=1 << 20
            )
            while taken := chunk.take(2):
                rows += taken
            seen["read"] += 1
        except (ValueError, NotImplementedError) as error:
            seen[type(error).__name__] += 1
        for record in rows:
            with suppress(UnicodeDecodeError):
                assert isinstance(record.headers(), list | None)
        if not unchecked:
            left = iter(sent[begin * 3 :])
            assert all(row(it)[3:] in left for it in rows)
    assert set(seen) == {"read", "ValueError", "NotImplementedError"}


@pytest.mark.skipif(not find_spec("_testcapi"), reason="this Python has no _testcapi")
def test_no_record_is_lost_where_there_is_no_memory_for_it(compiled: ModuleType) -> None:
    import _testcapi  # type: ignore[import-not-found]  # CPython's own, which not every Python has

    data, refused = fetched_batch(0, simple(*range(20))), 0
    for failing in range(120):
        chunk, taken = chunk_of(compiled, data), list[InputRecord]()
        _testcapi.set_nomemory(failing, failing + 1)
        try:
            taken = chunk.take(30)
        except MemoryError:
            refused += 1
        finally:
            _testcapi.remove_mem_hooks()
        assert offsets(taken + chunk.take(30)) == [*range(20)]
    assert refused

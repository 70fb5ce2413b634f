"""A program that puts the native data path through all that it does, and through what it must refuse.

Run in a process of its own: with sanitizers (``stress``), with its memory counted (``leaks``), or to be left in the
middle of its work (``exit``). The argument after it is the address of a broker; ``leaks`` takes the number of rounds as
well, of 5,000 records each.
"""

from __future__ import annotations

import ctypes
import gc
import os
import random
import struct
import sys
import threading
from collections import deque
from contextlib import closing, suppress
from functools import partial
from typing import Any

import pytest

from broker_protocol import answered
from compiled_parts import Due, Standing, chunk, input_of
from data_paths import mock_brokers, send_all
from fetched_batches import CODECS, CONTROL, FIELDS, TRANSACTIONAL, changed, fetched_batch, harmed
from messages_by_hand.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from native_counts import counted, windows_counted
from streamsapp import Serdes, TopicPartition, native
from streamsapp.config.client_properties import ClientProperties
from streamsapp.dsl.operators.stateless import StepKind
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.fetching.decompression import all_decompressed
from streamsapp.kafka.producer import RecordProducer
from streamsapp.outgoing import ChangelogSlice
from streamsapp.state.engine.entries import TimestampedFormat
from streamsapp.state.engine.segments import Segments
from streamsapp.tasks.record_queue import ProcessingControl

BATCH = 5_000
ROUNDS = 12

#: Bytes and objects that may come and go beside those of records.
LITTLE_MEMORY, FEW_OBJECTS = 6_000_000, 5_000


def producer(broker: str, failed: list[Any], **more: int) -> RecordProducer:
    properties: ClientProperties = {"bootstrap.servers": broker, "delivery.report.only.error": True}
    return RecordProducer({**properties, **more}, lambda *failure: failed.append(failure))


def consumer(broker: str, more: ClientProperties | None = None) -> PartitionConsumer:
    # The broker of librdkafka's writes control batches without a checksum.
    properties: ClientProperties = {"auto.offset.reset": "error", "enable.auto.commit": False, "check.crcs": False}
    properties |= {"bootstrap.servers": broker, "group.id": "g", "enable.partition.eof": True}
    return PartitionConsumer(properties | (more or {}))


def records(topic: str, rng: random.Random, count: int) -> list[Any]:
    def some() -> bytes | None:
        return rng.choice([None, b"", rng.randbytes(rng.choice([1, 30, 3000]))])

    def headers() -> Any:
        return rng.choice([None, [(rng.choice(["a", "ü", ""]), some()) for _ in range(rng.randrange(4))]])

    return [(topic, some(), some(), 0, None, None, rng.choice([0, 1, 1 << 40]), headers()) for _ in range(count)]


def sent_and_read(sender: RecordProducer, reader: PartitionConsumer, topic: str, rng: random.Random, at: int) -> int:
    """Sends a batch and reads it; returns where the next one begins."""
    given = records(topic, rng, BATCH)
    send_all(sender, given)
    assert sender.flush(60)
    assert read(reader, topic, rng, at) == [
        (value, key, time or 1, headers or None) for _, value, key, _, _, _, time, headers in given
    ]
    return at + BATCH


def read(reader: PartitionConsumer, topic: str, rng: random.Random, at: int) -> list[Any]:
    """Returns the batch that begins at an offset."""
    partition = TopicPartition(topic, 0)
    reader.assign({partition: at})
    seen: list[Any] = []
    while len(seen) < BATCH:
        for _, run in reader.poll(rng.choice([1, 100, BATCH]), 1.0).records:
            seen += [(it.value(), it.key(), it.timestamp()[1], it.headers()) for it in run]
    reader.unassign([partition])
    return seen


def changed_and_read(sender: RecordProducer, reader: PartitionConsumer, topic: str, rng: random.Random, at: int) -> int:
    """Sends a batch of a store's entries and reads it; returns where the next one begins."""
    serde = rng.choice([Serdes.long(), Serdes.of(lambda value: b"%d" % value, int, immutable=True)])
    form, path = TimestampedFormat(serde), native
    assert path is not None
    entries: list[Any] = []
    for number in range(BATCH):
        stored, time = rng.choice([None, rng.randrange(-(1 << 63), 1 << 63)]), rng.choice([0, 1, 1 << 40])
        forms = [(stored, time), path.Cell(key=b"%d" % number, stored=stored, timestamp=time)]
        entries.append((b"%d" % number, rng.choice(forms)))
    left = ChangelogSlice(topic, 0, entries, form)
    while left := sender.send_changes(left):
        pass
    assert sender.flush(60)
    assert read(reader, topic, rng, at) == [
        (None if stored is None else form.raw(stored), key, time or 1, None) for key, (stored, time) in entries
    ]
    with suppress(ZeroDivisionError):
        failing = TimestampedFormat(Serdes.of(lambda value: b"" if value else 1 // value, int, immutable=True))
        sender.send_changes(ChangelogSlice("t", 0, [(b"k", (1, 1)), (b"k", (0, 1))], failing))
    for wrong in (None, (), (b"k",), ("k", (1, 1)), (b"k", None), (b"k", (1,)), (b"k", (1, "1"))):
        with suppress(TypeError, ValueError, IndexError):
            sender.send_changes(ChangelogSlice("t", 0, [(b"k", (1, 1)), wrong], form))  # type: ignore[list-item]
    return at + BATCH


def refused(sender: RecordProducer) -> None:
    """Records and calls that are wrong; none may do harm."""
    good: Any = ("t", b"v", b"k", 0, None, None, 1, [("h", b"x")])
    wrong: list[Any] = [
        *(None, (), ("t",) * 8, ("t\0", *good[1:]), ("\ud800", *good[1:]), ("t", bytearray(b"x"), *good[2:])),
        *((*good[:7], headers) for headers in ([("h",)], [None], [("a\0", b"")], 7)),
        *((*good[:3], 1 << 40, *good[4:]), (*good[:6], 1 << 70, None)),
    ]
    send_all(sender, [good])  # from here on the topic is known
    for each in wrong:
        with suppress(TypeError, ValueError, OverflowError, IndexError):
            sender.send([good, each, good])


def joined(rng: random.Random, count: int) -> None:
    """Keeps records for a join, finds some, forgets expired ones, and begins anew now and then."""
    path = native
    segments = Segments(rng.choice([1, 100, 5_000]), 60_000, lambda key: 0)
    recent = path.Recent(segments=segments, room=lambda: rng.choice([0, 100, 100_000]))
    for number in range(count):
        key, time = rng.randbytes(rng.randrange(3)), max(0, number - rng.choice([0, 0, 3, 90]))
        recent.append(b"prefix", key, time, number, rng.choice([None, rng.randbytes(20), "text"]))
        segments.observe(time)
        recent.between(key, time - rng.randrange(50), time + 1)
        with suppress(OverflowError):
            recent.append(b"prefix", key, 1 << 70, number, b"")
        if not rng.randrange(2_000):
            segments.stand_at(segments.facts())


def stepped(rng: random.Random, count: int) -> None:
    """Runs records through steps and a sink, whose functions fail at times."""
    path = native
    told, sent = list[object](), list[object]()

    def fails_at_times(value: bytes) -> bytes:
        if value.endswith(b"7"):
            raise ValueError(value)
        return value * 2

    def tell(error: Exception, *record: object) -> None:
        told.append((str(error), record))

    sink = path.Sink(
        topic="out",
        serialize_key=fails_at_times,
        serialize_value=fails_at_times,
        check_headers=bool,
        emit=sent.append,
        on_error=tell,
        plain_sink=None,
    )
    halves = path.Step(
        kind=StepKind.FLAT_MAP_VALUES, function=lambda value: (value, value), adapt=list, forward=sink, on_error=tell
    )
    pairs = path.Step(
        kind=StepKind.MAP, function=lambda key, value: [key, value], adapt=tuple, forward=halves, on_error=tell
    )
    first = path.Step(
        kind=StepKind.FILTER,
        function=lambda key, value: fails_at_times(value),
        adapt=None,
        forward=pairs,
        on_error=tell,
    )
    buffers, due = [deque[Any]() for _ in range(rng.randrange(1, 4))], Due()
    inputs = [
        input_of(path, each, push=first, deserialize_key=bytes, deserialize_value=fails_at_times, on_error=tell)
        for each in buffers
    ]
    loop = path.Loop(inputs=inputs, context=Standing(), punctuate=list)
    for number in range(count):
        headers = rng.choice([None, [("h", b"")]])
        rng.choice(buffers).append(
            path.Record(
                topic="in",
                partition=0,
                offset=number,
                key=b"k%d" % number,
                value=b"v%d" % (number // 3),
                timestamp=number % 50,
                headers=headers,
            )
        )
    while any(buffers) or any(each.has_head for each in inputs):
        for each in inputs if len(inputs) > 1 else ():
            loop.offer(each)
        loop.run(control=ProcessingControl(), due=due, expiry=due, limit=rng.randrange(9))
        if rng.randrange(50) == 0:
            loop.clear()
            rng.choice(inputs).drop_head()
        sent.clear()
        told.clear()


def waited() -> None:
    """Records wait, are made batches for senders, and are forgotten."""
    path = native
    outbox = path.Outbox(batch_size=50_000, most=1_000_000)
    outbox.add_topic("lost", 3)
    outbox.add_topic("lost", 5)
    given = records("lost", random.Random(2), 3000)
    assert outbox.add(records=given, begin=0, room=1 << 30) == (3000, 0)
    for topic, partition in outbox.take_ready():
        for _ in range(20):
            taken = outbox.take(topic, partition)
            if taken is not None and taken.data is not None:
                sent = path.stamped(batch=taken.data, producer=7, epoch=1, sequence=5, attributes=16)
                assert chunk(path, data=sent, decompress=all_decompressed).take(1)
    outbox.add(records=given, begin=0, room=1 << 30)
    outbox.clear()
    outbox.add(records=given[:2000], begin=0, room=1 << 30)


def fetched_again(rng: random.Random, count: int) -> None:
    """Reads record batches, and answers that bring them, which may have been harmed on their way."""
    path = native
    first, marker = fetched_batch(3, [(0, 1, None, b"first", None)], "gzip"), struct.pack(">hh", 0, 0)
    batches = [fetched_batch(0, [(0, 1, marker, b"", None)], "none", 7, attributes=TRANSACTIONAL | CONTROL)]
    some = [(n, 1, b"key" if n else None, b"again" * n, [("name", b"xyz"), ("ü", None)][:n]) for n in range(4)]
    for codec in CODECS:
        batches += [fetched_batch(0, some, codec, 7, attributes=attributes) for attributes in (0, TRANSACTIONAL)]
    plain, answer = fetched_batch(0, some), fetch_answer()

    def exactly(data: bytes) -> Any:
        """In memory that ends where the bytes do: a read behind them is caught."""
        return (ctypes.c_char * len(data)).from_buffer_copy(data)

    def read(data: bytes) -> None:
        # New objects, or it would not be seen that they are kept.
        given: dict[str, Any] = {
            "topic": f"topic {rng.random()}",
            "partition": 0,
            "data": exactly(data),
            "position": rng.randrange(4),
            "aborted": rng.choice([[], [(7, 0), (7, 5)]]),
            "decompress": partial(all_decompressed, most=1 << 28),
        }
        with suppress(ValueError, NotImplementedError):
            chunk = path.Chunk(**given, unchecked=rng.random() < 0.8)
            while taken := chunk.take(rng.randrange(1, 9)):
                for record in taken:
                    with suppress(UnicodeDecodeError):
                        record.headers()
        gathered = path.PackedRecords()
        with suppress(ValueError, NotImplementedError):
            chunk = path.Chunk(**given, unchecked=rng.random() < 0.8)
            while packed := chunk.take_packed(rng.randrange(1, 9)):
                packed.keep_before(rng.randrange(12))
                gathered.extend(packed)
        gathered.sort()
        while gathered.stage(
            put=lambda *entry: None,
            delete=lambda *entry: None,
            family=None,
            limit=rng.randrange(1, 9),
            timestamped=rng.random() < 0.5,
        ):
            pass

    sizes = range(FIELDS["attributes"][0], len(plain))
    for size in (*sizes, *rng.choices(sizes, k=count)):
        read(changed(plain[:size], length=size - 12))
    for _ in range(count):
        data = harmed(changed(rng.choice(batches), base_offset=rng.choice([0, 9])), rng)
        read(data)
        read(first + data)
        with suppress(ValueError):
            path.answer(exactly(harmed(answer, rng)))


def fetch_answer() -> bytes:
    """An answer to Fetch with two partitions of each of two topics."""
    part = PartitionData(aborted_transactions=[AbortedTransaction(7, 1)], records=b"records")
    part.diverging_epoch = EpochEndOffset(1, 1)
    topic = FetchableTopicResponse(topic_id=bytes(range(16)), partitions=[part] * 2)
    return answered(FetchResponse(responses=[topic] * 2), 13, 3)


def stress(broker: str) -> None:
    rng, at = random.Random(1), 0
    with closing(producer(broker, [])) as sender, closing(consumer(broker)) as reader:
        for _ in range(4):
            at = sent_and_read(sender, reader, "stress", rng, at)
            at = changed_and_read(sender, reader, "stress", rng, at)
            joined(rng, 20_000)
            windows_counted(rng, 10_000)
            counted(rng, 10_000)
            stepped(rng, 10_000)
            fetched_again(rng, 2_000)
            refused(sender)
            waited()
        if (child := os.fork()) == 0:
            os._exit(native.Outbox(batch_size=1000, most=1000).bytes)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    gc.collect()


class _Heap(ctypes.Structure):
    """``struct mallinfo2``"""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks")),
        *((name, ctypes.c_size_t) for name in ("uordblks", "fordblks", "keepcost")),
    ]


def in_use() -> tuple[int, int]:
    """Bytes of C's heap, and Python's objects."""
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Heap
    heap = mallinfo2()
    return heap.uordblks + heap.hblkhd, sys.getallocatedblocks()


def leaks(broker: str, rounds: str = str(ROUNDS)) -> None:
    rng, at = random.Random(1), 0
    before = (0, 0)
    with closing(producer(broker, [])) as sender, closing(consumer(broker)) as reader:
        for number in range(int(rounds)):
            if number == int(rounds) // 4:  # all that is made once is there
                before = in_use()
            at = sent_and_read(sender, reader, "leaks", rng, at)
            at = changed_and_read(sender, reader, "leaks", rng, at)
            joined(rng, BATCH)
            windows_counted(rng, BATCH)
            counted(rng, BATCH)
            stepped(rng, BATCH)
            fetched_again(rng, 2_000)
            refused(sender)
            waited()
        assert sender.flush(60)
        after = in_use()
    print(f"{BATCH * int(rounds)} records: from {before} to {after}")
    assert after[0] - before[0] < LITTLE_MEMORY
    assert after[1] - before[1] < FEW_OBJECTS


def leave(broker: str) -> None:
    """The interpreter ends while threads fetch and send, and records fail."""
    busy = threading.Barrier(3)

    def fetch() -> None:
        reader = consumer(broker)
        reader.assign({TopicPartition("left", 0): 0})
        busy.wait()
        while True:
            reader.poll(100, 0.01)

    def send() -> None:
        sender = producer(broker, [])
        batch = records("left", random.Random(3), 1000)
        busy.wait()
        while True:
            sender.send(batch)

    for each in (fetch, send):
        threading.Thread(target=each, daemon=True).start()
    busy.wait()


if __name__ == "__main__":
    mock_brokers(pytest.MonkeyPatch())
    {"stress": stress, "leaks": leaks, "exit": leave}[sys.argv[1]](*sys.argv[2:])
    print("done")

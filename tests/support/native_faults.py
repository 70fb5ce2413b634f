"""A program that puts the native data path through the faults around it.

Run in a process of its own, with sanitizers. ``transactions``: transactions that are aborted with records in the queue.
``bounces``: a broker that goes away and comes back while records are sent and fetched, and the reader pauses and is
moved. ``nomemory``: memory that Python cannot have. The argument after it is the address of a broker.
"""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import count, islice, product
from types import ModuleType
from typing import Any

import pytest

from compiled_parts import Due, Standing, count_push, input_of, window_push
from data_paths import mock_brokers, send_all
from native_counts import Times, staged
from native_stress import consumer, producer
from streamsapp import TopicPartition, native
from streamsapp.clock import SystemClock
from streamsapp.config.client_properties import ClientProperties
from streamsapp.dsl.operators.stateless import StepKind
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.producer import ExactlyOnceProducer
from streamsapp.state.engine.segments import Segments
from streamsapp.tasks.record_queue import ProcessingControl
from tampering_proxy import TamperingProxy

BATCH, BATCHES = 1000, 20
TRANSACTIONS = 8
BOUNCES = 4
#: More than any call allocates.
MOST_ALLOCATIONS = 120


def numbered(topic: str, begin: int, count: int = BATCH) -> list[Any]:
    return [(topic, b"%d" % number, b"k", 0, None, None, 1, [("h", b"x")]) for number in range(begin, begin + count)]


def values(reader: PartitionConsumer) -> list[int]:
    return [int(it.value() or b"") for _, run in reader.poll(500, 0.1).records for it in run]


def transactions(broker: str) -> None:
    failed: list[Any] = []
    properties: ClientProperties = {
        "bootstrap.servers": broker,
        "transactional.id": "t",
        "delivery.report.only.error": True,
    }
    committed: set[int] = set()
    with closing(consumer(broker)) as reader:
        for number in range(TRANSACTIONS):
            sender = ExactlyOnceProducer(
                properties, lambda *failure: failed.append(failure), SystemClock(), reports=True
            )
            with closing(sender):
                sender.start()
                send_all(sender, numbered("transactions", number * BATCH))
                if number % 2:
                    sender.abort()
                    sender.poll()  # reports records that failed; records that an abort drops have not failed
                else:
                    assert sender.flush(60)
                    sender.commit({}, None)  # type: ignore[arg-type]  # there are no offsets
                    committed |= set(range(number * BATCH, (number + 1) * BATCH))
        reader.assign({TopicPartition("transactions", 0): 0})
        seen: list[int] = []
        while not committed <= set(seen):
            seen += values(reader)
    assert failed == []
    assert [it for it in seen if it in committed] == sorted(committed)


def bounces(broker: str) -> None:
    """Its broker goes away by a proxy that does so."""
    with TamperingProxy(broker) as proxy:
        bounced(proxy)


def bounced(proxy: TamperingProxy) -> None:
    address = proxy.bootstrap_servers

    def bounce() -> None:
        for _ in range(BOUNCES):
            time.sleep(0.3)
            proxy.go_away()
            time.sleep(0.1)
            proxy.come_back()

    def send() -> None:
        with closing(producer(address, [])) as sender:
            for number in range(BATCHES):
                left = numbered("bounces", number * BATCH)
                while left:
                    left = sender.send(left)
                time.sleep(0.05)
            while not sender.flush(1):
                pass

    threads = [threading.Thread(target=bounce), threading.Thread(target=send)]
    for each in threads:
        each.start()
    seen = wandering(address, TopicPartition("bounces", 0), BATCH * BATCHES)
    for each in threads:
        each.join()
    assert seen == list(range(BATCH * BATCHES))


def wandering(broker: str, at: TopicPartition, count: int) -> list[int]:
    """Reads so many records, and pauses, or is moved to where it is, between batches."""
    rng, seen = random.Random(4), list[int]()
    with closing(consumer(broker)) as reader:
        reader.assign({at: 0})
        while len(seen) < count:
            seen += values(reader)
            if (turn := rng.randrange(8)) == 0:
                reader.pause([at])
                assert values(reader) == []
                reader.resume([at])
            elif turn == 1:
                reader.reposition({at: len(seen)})
    return seen


def without_memory(call: Callable[[], object], failing: Iterable[int] = range(MOST_ALLOCATIONS)) -> int:
    """Calls it once for each of these of its allocations, which fails; returns how often it said so."""
    import _testcapi  # type: ignore[import-not-found]  # CPython's own, which not every Python has

    refused = 0
    for number in failing:
        try:
            _testcapi.set_nomemory(number, number + 1)
            call()
        except MemoryError:
            refused += 1
        finally:
            _testcapi.remove_mem_hooks()
    return refused


def keeping(path: ModuleType) -> Callable[[], None]:
    """Returns a function that keeps records for a join, finds some and forgets others, some more with each call."""
    segments, numbers = Segments(200, 60_000, lambda key: 0), count()
    recent = path.Recent(segments=segments, room=lambda: 1_000)

    def keep() -> None:
        for number in islice(numbers, 30):
            key = b"%d" % (number % 40)
            recent.append(b"prefix", key, number, number, b"v%d" % number)
            segments.observe(number)
            assert recent.between(key, number + 1, number + 2) == ()
            recent.between(key, number - 100, number)

    return keep


def counting_pushes(path: ModuleType, cells: native.Cells) -> list[Any]:
    """Returns push functions that count: to forward, for a topic, and to hold."""

    def raises(error: Exception, *record: object) -> None:
        raise error

    def forward(*pushed: object) -> None:
        pass

    emit = list[object]().append
    ways: list[Any] = [(None, None, forward), ("out", None, forward), (None, ([], {}), None)]
    return [
        count_push(path, cells=cells, topic=topic, emit=topic and emit, noted=noted, forward=following)
        for topic, noted, following in ways
    ]


def counting(path: ModuleType) -> Callable[[], None]:
    """Returns a function that counts keys and windows, new ones with each call, and sends them."""
    times, held, headers = Times(), list[Any](), dict[int, Any]()
    numbers = count()

    def raises(error: Exception, *record: object) -> None:
        raise error

    def forward(*pushed: object) -> None:
        pass

    def count_some() -> None:
        counts = path.Cells(load=lambda key: (None, -1), start_at=12)
        around = [
            path.Window(before=b"8 before", after=b"twelve after", whole=is_new) for is_new in (True, False, True)
        ]
        windows = tuple((start, 1 << 60, each) for start, each in enumerate(around))
        emit = list[object]().append
        ways: list[Any] = [(None, (held, headers), None), (None, None, forward), ("out", None, forward)]
        pushes = [
            window_push(
                path,
                cells=counts,
                segments=times,
                windows=windows,
                step_ms=10,
                grace_ms=5,
                serialize_key=bytearray,
                topic=topic,
                emit=topic and emit,
                noted=noted,
                tell=following,
            )
            for topic, noted, following in ways
        ]
        written = counts.begin()
        for number in islice(numbers, 10):
            for push, named in product(pushes, (None, [("h", b"")])):
                push(b"%d" % (number % 4), None, number, named)
        path.results(held=held, topic="out", deleted_at=lambda key, start, end: end, before=8, behind=4)
        held.clear()
        for part in (written[3:], written.behind(8)):
            assert len(list(part)) == len(staged(part))
        assert len(written.only(written.keys_from(0))) == len(written)
        keys, waiting = path.Cells(load=lambda key: (None, -1)), path.CellLog()
        pushes = counting_pushes(path, keys)
        for _ in range(2):
            log = keys.begin()
            for number, key in product(range(4), (b"a", b"b", b"another")):
                for push in pushes:
                    push(key, b"", number, None)
                    push(key, b"", number, [("h", b"")])
                keys.write(key, None, number)
                keys.put(b"read", (number, number))
                keys.read(b"read %d" % number)
            waiting.absorb(log)
            assert len(list(waiting.in_order())) == len(waiting.in_order().keys_from(0))
            assert len(list(log[2:])) == len(log) - 2
            log.entry(keys.at_hand(b"a"))
            path.results(
                held=[(keys.read(key), key) for key in (b"b", b"read", b"a")],
                topic="out",
                deleted_at=len,
                before=0,
                behind=0,
            )
            staged(waiting[:])
            keys.grow_old()

    return count_some


def stepping(path: ModuleType) -> Callable[[], None]:
    """Returns a function that runs new records through steps and a sink with each call."""

    def raises(error: Exception, *record: object) -> None:
        raise error

    def run_some() -> None:
        sent = list[object]()
        sink = path.Sink(
            topic="out",
            serialize_key=bytes,
            serialize_value=bytes,
            check_headers=bool,
            emit=sent.append,
            on_error=raises,
            plain_sink=None,
            keeps_key=True,
            keeps_value=True,
        )
        first = path.Step(kind=StepKind.MAP_VALUES, function=bytes, adapt=None, forward=sink, on_error=raises)
        buffers = deque[Any](), deque[Any](), deque[Any]()
        inputs = [input_of(path, each, push=first, deserialize_value=bytes) for each in buffers]
        loop = path.Loop(inputs=inputs, context=Standing(), punctuate=list)
        for number in range(5):
            buffers[number % 3].append(
                path.Record(
                    topic="in", partition=0, offset=number, key=b"k", value=b"v", timestamp=number, headers=[("h", b"")]
                )
            )
        for each in inputs:
            loop.offer(each)
        loop.run(control=ProcessingControl(), due=Due(), expiry=Due(), limit=5)

    return run_some


def sent_out(path: ModuleType, outbox: native.Outbox, batch: list[Any]) -> None:
    outbox.add(records=batch, begin=0, room=1 << 30)
    for topic, partition in outbox.take_ready():
        while (taken := outbox.take(topic, partition)) is not None:
            path.stamped(batch=taken.data, producer=7, epoch=1, sequence=5, attributes=16)
    outbox.add(records=batch, begin=0, room=1 << 30)
    outbox.clear()


def taking(path: ModuleType) -> Callable[[], None]:
    """Returns a function that takes records out of a batch as brokers send it."""
    outbox = path.Outbox(batch_size=1_000_000, most=1_000_000)
    outbox.add_topic("t", 1)
    outbox.add(records=numbered("t", 0, 5), begin=0, room=1 << 30)
    taken = outbox.take("t", 0)
    assert taken is not None
    batch = path.stamped(batch=taken.data, producer=7, epoch=1, sequence=5, attributes=16)
    packed = path.stamped(batch=taken.data, producer=7, epoch=1, sequence=5, attributes=17)

    def take() -> None:
        for data, aborted in ((batch, []), (packed, []), (batch, [(7, 0)])):
            chunk = path.Chunk(
                topic="t",
                partition=0,
                data=data,
                position=0,
                aborted=aborted,
                decompress=lambda codec, records: bytes(bytearray(records)),
            )
            while chunk.position < chunk.end_position:
                chunk.take(2)
            chunk = path.Chunk(
                topic="t",
                partition=0,
                data=data,
                position=0,
                aborted=aborted,
                decompress=lambda codec, records: bytes(bytearray(records)),
            )
            gathered = path.PackedRecords()
            while chunk.position < chunk.end_position:
                gathered.extend(chunk.take_packed(2))
            gathered.sort()
            gathered.stage(put=lambda *entry: None, delete=lambda *entry: None, family=None, limit=9, timestamped=True)

    return take


def nomemory(broker: str) -> None:
    path = native
    assert without_memory(keeping(path)) > 1
    assert without_memory(counting(path)) > 1
    assert without_memory(stepping(path)) > 1
    batch = numbered("nomemory", 0, 3)
    outboxes = deque[Any](maxlen=1)

    def outbox() -> native.Outbox:
        made = path.Outbox(batch_size=200, most=1_000_000)
        made.add_topic("nomemory", 3)
        outboxes.append(made)
        return made

    changes = [(b"k", (b"%d" % number, 1)) for number in range(30)]
    assert without_memory(lambda: outbox().add(records=batch, begin=0, room=1 << 30)) > 1
    assert (
        without_memory(
            lambda: outbox().add_changes(
                topic="nomemory", partition=0, changes=changes, begin=0, room=1 << 30, raw=bytes.upper, number_size=0
            )
        )
        > 1
    )
    assert without_memory(lambda: sent_out(path, outbox(), batch)) > 1
    with closing(producer(broker, [])) as sender:  # whose thread must have memory
        send_all(sender, numbered("nomemory", 3, MOST_ALLOCATIONS * 4))
        assert sender.flush(60)
    assert without_memory(taking(path)) > 1
    gc.collect()


if __name__ == "__main__":
    mock_brokers(pytest.MonkeyPatch())
    {"transactions": transactions, "bounces": bounces, "nomemory": nomemory}[sys.argv[1]](sys.argv[2])
    print("done")

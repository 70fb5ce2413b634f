"""A fetcher believes nothing of an answer that cannot be right: it closes the connection, asks again after a pause, and
reports it. The brokers are scripted, the sockets real."""

from __future__ import annotations

import logging
import re
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest

from fetched_batches import changed, fetched_batch
from fetched_brokers import Batch, FetchedBrokers
from fetching_parts import A1, A, B, Read, Start
from messages_by_hand.fetch import FetchResponse
from streamsapp import TopicPartition
from streamsapp.brokers import bounds
from streamsapp.brokers.messages.list_offsets import ListOffsetsResponse
from streamsapp.errors import OversizedBatchError, StreamsError
from streamsapp.kafka import client_log
from streamsapp.kafka.consumer import BEGINNING
from streamsapp.kafka.fetching.decompression import decompressed

LAST_DELTA_AT = 23


def moved(by: int) -> Callable[[bytes], bytes]:
    """The first batch with another offset, which no checksum covers."""
    return lambda sent: struct.pack(">q", struct.unpack_from(">q", sent)[0] + by) + sent[8:]


#: Of the two batches with the offsets 0 to 4 and 5 to 9 of a log that ends at 10.
WRONG: dict[str, Callable[[bytes], bytes]] = {
    "beyond the end of the log": moved(10_000),
    "over the end of the log": moved(6),
    "over the next batch": moved(2),
    "before the beginning": moved(-1),
    "before all offsets": moved(-(1 << 62)),
    "at the last offset that there is": moved((1 << 63) - 1),
    "with more offsets than there are": lambda sent: changed(sent, last_offset_delta=100),
    "with fewer offsets than records": lambda sent: changed(sent, last_offset_delta=1),
    "with more records than it counts": lambda sent: changed(sent, count=4),
    "with records and none that it counts": lambda sent: changed(sent, count=0),
    "twice": lambda sent: sent[: len(sent) // 2] + sent,
    "in the other order": lambda sent: sent[len(sent) // 2 :] + sent[: len(sent) // 2],
}


def for_a_while(times: int, wrong: Callable[[bytes], bytes]) -> Callable[[TopicPartition, bytes], bytes]:
    left = count(times, -1)
    return lambda partition, sent: wrong(sent) if sent and next(left) > 0 else sent


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_batch_that_lies_about_itself_is_fetched_again_and_every_record_comes_once(
    wrong: Callable[[bytes], bytes], level: str, start: Start, read: Read
) -> None:
    brokers = start({"a": 1})
    for _ in range(2):
        brokers.write(A, 5)
    brokers.tampered = for_a_while(3, wrong)
    reader = read(brokers, {A: 0}, isolation_level=level)
    reader.until_end((A, 10))
    brokers.write(A, 5)
    reader.until_end((A, 15))

    assert reader.offsets[A] == list(range(15))
    assert reader.ends == [(A, 10), (A, 15)]


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_batch_that_always_lies_about_itself_ends_it_and_topic_and_broker_are_named(
    wrong: Callable[[bytes], bytes], start: Start, read: Read
) -> None:
    brokers = start({"a": 1, "b": 1})
    for each in (A, A, B):
        brokers.write(each, 5)
    brokers.tampered = lambda partition, sent: wrong(sent) if sent and partition == A else sent
    reader = read(brokers, {A: 0, B: 0})
    with pytest.raises(StreamsError, match=r"^a-0 cannot be read: .*broker 1 at 127\.0\.0\.1:\d+ sent it 5 times"):
        reader.until(lambda: False)

    assert not reader.offsets[A]


def test_a_batch_behind_those_that_were_asked_for_is_not_taken_for_them(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    for _ in range(3):
        brokers.write(A, 5)
    brokers.tampered = for_a_while(2, lambda sent: changed(sent, base_offset=0))
    reader = read(brokers, {A: 10})
    reader.until_end((A, 15))

    assert reader.offsets[A] == list(range(10, 15))


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_what_a_broker_got_while_it_answered_is_taken_with_the_next_answer(
    level: str, start: Start, read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    """It looks where its log ends before it reads: the records that it reads may be beyond."""
    brokers = start({"a": 1})
    for _ in range(3):
        brokers.write(A, 5)
    ends = iter([5, 5, 10, 10])

    def rewritten(answer: Any) -> None:
        for topic in answer.responses if isinstance(answer, FetchResponse) else ():
            for part in topic.partitions:
                part.high_watermark = part.last_stable_offset = next(ends, part.high_watermark)

    brokers.rewritten = rewritten
    reader = read(brokers, {A: 0}, isolation_level=level)
    with caplog.at_level(logging.WARNING):
        reader.until_end((A, 15))

    assert reader.offsets[A] == list(range(15))
    assert brokers.accepted[1] == 1
    assert not caplog.records


def test_compacted_and_empty_batches_markers_and_a_log_that_begins_later_are_read_as_before(
    start: Start, read: Read
) -> None:
    brokers = start({"a": 1})
    brokers.begin_at(A, 100)
    brokers.write(A, 4, skipped=7)
    brokers.write(A, 3, producer=7)
    brokers.end_transaction(A, 7, committed=False)
    emptied = brokers.write(A, 5)
    log = brokers.partitions[A]
    log.batches[-1] = type(emptied)(
        emptied.base, emptied.after, emptied.epoch, changed(emptied.data[:61], length=49, count=0), ()
    )
    brokers.write(A, 2)
    reader = read(brokers, {A: BEGINNING})
    reader.until_end((A, log.end))

    assert reader.offsets[A] == [100, 101, 102, 110, log.end - 2, log.end - 1]


# ---- partitions that were asked for, and others --------------------------------------------------------------------


def _topics(answer: Any) -> list[Any]:
    found: list[Any] = answer.responses if isinstance(answer, FetchResponse) else answer.topics
    return found


def left_out(answer: Any) -> None:
    _topics(answer)[0].partitions.pop()


def told_twice(answer: Any) -> None:
    _topics(answer)[0].partitions *= 2


def another(answer: Any) -> None:
    part = _topics(answer)[0].partitions[0]
    for name in ("partition_index", "partition"):
        with suppress(AttributeError):
            setattr(part, name, 77)


def without_offset(answer: Any) -> None:
    for part in _topics(answer)[0].partitions:
        part.offset = -1


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        *((ListOffsetsResponse, wrong) for wrong in (left_out, told_twice, another, without_offset)),
        # Of that one may leave out what has no news.
        *((FetchResponse, wrong) for wrong in (told_twice, another)),
    ],
)
def test_an_answer_has_to_tell_once_of_what_was_asked_for_and_of_nothing_else(
    kind: type, wrong: Callable[[Any], None], start: Start, read: Read
) -> None:
    brokers = start({"a": 2})
    for each in (A, A1):
        brokers.write(each, 5)
    left = count(3, -1)

    def rewritten(answer: Any) -> None:
        if isinstance(answer, kind) and _topics(answer) and next(left) > 0:
            wrong(answer)

    brokers.rewritten = rewritten
    reader = read(brokers, {A: BEGINNING, A1: BEGINNING})
    reader.until_end((A, 5), (A1, 5))

    assert reader.offsets == {A: list(range(5)), A1: list(range(5))}
    assert brokers.accepted[1] == 4


# ---- time ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("throttle_ms", [2**31 - 1, -(2**31)])
def test_a_broker_is_left_alone_for_some_time_and_no_longer(
    throttle_ms: int, start: Start, read: Read, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bounds, "LONGEST_THROTTLE", 0.01)
    brokers = start({"a": 1})
    brokers.write(A, 5)
    brokers.throttle_ms = throttle_ms
    reader = read(brokers, {A: BEGINNING})
    with caplog.at_level(logging.WARNING):
        reader.until_end((A, 5))

    assert ("throttle_time_ms" in caplog.text) == (throttle_ms > 0)


def _trickled(framed: bytes) -> Iterable[bytes]:
    for at in range(len(framed)):
        time.sleep(0.05)
        yield framed[at : at + 1]


def test_a_first_answer_that_comes_byte_by_byte_is_not_waited_for_without_end(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    slow = count(2, -1)
    brokers.framed = lambda framed: _trickled(framed) if next(slow) > 0 else [framed]
    reader = read(brokers, {A: 0}, socket_connection_setup_timeout_ms=300)
    with suppress(OSError):
        reader.until_end((A, 5))

    assert reader.offsets[A] == list(range(5))
    assert brokers.accepted[1] == 3


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize(
    ("head", "told"),
    [
        (struct.pack(">i", 2**31 - 1), "an answer of 2147483647 bytes.*is it a broker"),
        (struct.pack(">i", -1), "an answer of -1 bytes.*is it a broker"),
        (struct.pack(">i", -(2**31)), "an answer of -2147483648 bytes"),
        (struct.pack(">i", 3), "an answer of 3 bytes"),
        (b"\x15\x03\x03\x00", "it speaks TLS: set security.protocol"),
        (b"HTTP", "it speaks HTTP and is no broker"),
    ],
)
def test_a_length_that_no_answer_has_closes_the_connection_and_is_told(
    head: bytes,
    told: str,
    versions: bool,
    start: Start,
    read: Read,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_log, "REPEATED_EVERY", 0.0)
    brokers = start({"a": 1})
    brokers.write(A, 5)
    answers = count()
    # The first answer on each connection, or the second one, for some time.
    brokers.framed = lambda framed: (
        [head + framed[4:]] if (number := next(answers)) < 6 and (versions or number % 2) else [framed]
    )
    reader = read(brokers, {A: 0})
    with caplog.at_level(logging.WARNING):
        reader.until_end((A, 5))

    assert reader.offsets[A] == list(range(5))
    assert brokers.accepted[1] > 3
    assert re.search(told + ".*goes on by itself", caplog.text)


def test_a_broker_that_does_not_wait_for_records_is_not_asked_again_and_again(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)

    def rewritten(answer: Any) -> None:
        if isinstance(answer, FetchResponse):
            answer.responses = []

    brokers.fate = lambda broker, partition: 0
    reader = read(brokers, {A: 0}, fetch_wait_max_ms=60_000)
    reader.until_end((A, 5))
    brokers.rewritten, asked = rewritten, len(brokers.asked)
    until = time.monotonic() + 2
    while time.monotonic() < until:
        brokers.write(A, 1)  # which ends the broker's wait, and is not sent
        reader.poll(timeout=0.01)

    assert len(brokers.asked) - asked < 12
    brokers.rewritten = lambda answer: None
    reader.until(lambda: len(reader.offsets[A]) == brokers.partitions[A].end)
    assert reader.offsets[A] == list(range(brokers.partitions[A].end))


def test_a_broker_that_answers_nonsense_is_asked_less_and_less_often(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    brokers.framed = lambda framed: [framed[:4] + bytes(len(framed) - 4)]
    reader = read(brokers, {A: 0}, reconnect_backoff_ms=100, reconnect_backoff_max_ms=1000)
    until = time.monotonic() + 2
    while time.monotonic() < until:
        reader.poll()

    assert 2 <= brokers.accepted[1] <= 6


# ---- memory --------------------------------------------------------------------------------------------------------

#: With these a batch may have 1 MiB of records.
LITTLE: dict[str, Any] = {"queued_max_messages_kbytes": 64, "max_partition_fetch_bytes": 1 << 16}


def write_large(brokers: FetchedBrokers, partition: TopicPartition) -> None:
    """Some kilobytes that become megabytes."""
    log = brokers.partitions[partition]
    base = log.end
    data = fetched_batch(base, [(each, 5, b"k", bytes(1 << 20), None) for each in range(3)], "zstd")
    assert len(data) < 10_000
    log.batches.append(Batch(base, base + 3, -1, data, ()))
    log.end = base + 3


def test_a_batch_for_which_there_is_no_room_is_told_with_its_place_after_what_comes_before_it(
    start: Start, read: Read
) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    write_large(brokers, A)
    reader = read(brokers, {A: 0}, **LITTLE)
    told = r"^a-0, offset 5: .* more than 1048576 bytes .*larger max\.partition\.fetch\.bytes"

    with pytest.raises(OversizedBatchError, match=told):
        reader.until(lambda: False)

    assert reader.offsets == {A: list(range(5))}


def test_a_record_for_the_handler_comes_in_place_of_a_batch_for_which_there_is_no_room(
    start: Start, read: Read
) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    write_large(brokers, A)
    brokers.write(A, 5)
    fetcher = read(brokers, {A: 0}, **LITTLE).fetcher
    fetcher._answers._decompressed = partial(decompressed, most=1 << 20)
    found: list[Any] = []
    give_up = time.monotonic() + 60
    while len(found) < 11:
        assert time.monotonic() < give_up
        found += [it for _, records in fetcher.fetch(100, 0.05).records for it in records]

    assert [it.offset() for it in found] == [*range(5), 7, *range(8, 13)]
    with pytest.raises(OversizedBatchError, match="the record batch at offsets 5 to 7 has more than 1048576 bytes"):
        found[5].headers()


def test_batches_are_opened_as_far_as_there_is_room_for_them(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    log = brokers.partitions[A]
    for base in range(20):
        data = fetched_batch(base, [(0, 5, b"k", bytes(600_000), None)], "zstd")
        log.batches.append(Batch(base, base + 1, -1, data, ()))
        log.end = base + 1
    fetcher = read(brokers, {A: 0}, **LITTLE).fetcher
    counts: list[int] = []
    give_up = time.monotonic() + 60
    while sum(counts) < 20:
        assert time.monotonic() < give_up
        counts += [len(records) for _, records in fetcher.fetch(1000, 0.05).records]

    assert max(counts) == 2

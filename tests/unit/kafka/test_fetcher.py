"""A fetcher delivers every record once and in order, whatever brokers answer, or stops and says so. The brokers are
scripted, the sockets real."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

import data_paths
from fetched_brokers import (
    CORRUPT,
    CUT,
    LOST_AFTER,
    LOST_REQUEST,
    MALFORMED,
    SENSELESS,
    SILENT,
    FetchedBrokers,
    value_of,
)
from streamsapp import TopicPartition
from streamsapp.config.client_properties import ClientProperties
from streamsapp.errors import StreamsError, TopicError
from streamsapp.kafka import consumer as consumer_module
from streamsapp.kafka.consumer import BEGINNING, END, PartitionConsumer
from streamsapp.kafka.fetching import broker_connections, fetcher as module, leaders
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.fetching.fetcher import Fetcher
from streamsapp.kafka.fetching.settings import fetch_settings, left_to_librdkafka
from streamsapp.kafka.wakeup import Wakeup

A, A1, B = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ENDLESS = 3600.0
PROPERTIES: ClientProperties = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "fetch.error.backoff.ms": 1,
    "fetch.wait.max.ms": 10,
}
MOVED = [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_LEADER_EPOCH]
PASSING = [*MOVED, KafkaError.UNKNOWN, LOST_REQUEST, LOST_AFTER, CUT, MALFORMED, CORRUPT, SILENT]


class Reader:
    """A fetcher, and what it has delivered."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.fetcher = fetcher
        self.offsets: defaultdict[TopicPartition, list[int]] = defaultdict(list)
        self.ends: list[tuple[TopicPartition, int]] = []
        self.lost: list[TopicPartition] = []

    def poll(self, limit: int = 10_000, timeout: float = 0.02) -> Fetched:
        fetched = self.fetcher.fetch(limit, timeout)
        assert sum(len(records) for _, records in fetched.records) <= limit
        for partition, records in fetched.records:
            for it in records:
                offset = it.offset()
                assert (it.topic(), it.partition(), it.value()) == (*partition, value_of(partition, offset))
                assert (it.timestamp(), it.headers()) == ((1, 1_000 + offset), [("h", b"%d" % offset)])
                self.offsets[partition].append(offset)
        self.ends += fetched.ends.items()
        self.lost += fetched.out_of_range
        return fetched

    def until(self, done: Callable[[], object], limit: int = 10_000) -> None:
        give_up = time.monotonic() + 30
        while not done():
            assert time.monotonic() < give_up, (self.offsets, self.ends, self.lost)
            self.poll(limit)

    def until_end(self, *ends: tuple[TopicPartition, int]) -> None:
        self.until(lambda: set(ends) <= set(self.ends))

    def nothing_comes(self) -> None:
        assert not any(self.poll() for _ in range(4))


Start = Callable[..., FetchedBrokers]
Read = Callable[..., Reader]


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (module, broker_connections):
        monkeypatch.setattr(each, "RECONNECT", 0.002)
    monkeypatch.setattr(leaders, "_PAUSE", 0.002)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def start(stack: ExitStack) -> Start:
    """Starts brokers, of which nothing that makes no sense may have been asked when the test ends."""

    def started(topics: dict[str, int], brokers: int = 1, deaf: frozenset[int] = frozenset()) -> FetchedBrokers:
        def end() -> None:
            made.close()
            assert made.broken == []

        made = FetchedBrokers(topics, brokers, deaf)
        stack.callback(end)
        return made

    return started


@pytest.fixture
def read(stack: ExitStack) -> Read:
    """Makes fetchers; they are closed after the test."""

    def made(
        brokers: FetchedBrokers, positions: dict[TopicPartition, int], wakeup: Wakeup | None = None, **more: Any
    ) -> Reader:
        properties = PROPERTIES | {name.replace("_", "."): value for name, value in more.items()}
        assert left_to_librdkafka(properties) is None
        fetcher = Fetcher(data_paths.compiled(), fetch_settings(properties), brokers.list_topics, wakeup)

        def end() -> None:
            fetcher.close()
            assert fetcher.ended

        stack.callback(end)
        fetcher.assign(positions)
        return Reader(fetcher)

    return made


def once(*fates: int) -> Callable[..., int]:
    """Each of them in turn, then nothing."""
    left = list(fates)
    return lambda *asked: left.pop(0) if left else 0


class Expected:
    """What a fetcher is to deliver, by what was assigned, paused and written."""

    def __init__(self, brokers: FetchedBrokers) -> None:
        self._brokers = brokers
        self.next: dict[TopicPartition, int] = {}
        #: Those that were assigned at their end, which moves until the broker has told it.
        self.loose: set[TopicPartition] = set()
        self.paused: set[TopicPartition] = set()
        self.told: set[tuple[TopicPartition, int]] = set()

    def assign(self, partition: TopicPartition, position: int) -> None:
        log = self._brokers.partitions[partition]
        self.next[partition] = {BEGINNING: log.start, END: log.end}.get(position, position)
        if position == END:
            self.loose.add(partition)

    def unassign(self, partition: TopicPartition) -> None:
        del self.next[partition]
        self.loose.discard(partition)
        self.paused.discard(partition)
        self.told = {told for told in self.told if told[0] != partition}

    def check(self, fetched: Fetched) -> None:
        assert fetched.out_of_range == []
        for partition, records in fetched.records:
            self._move(partition, records[0].offset())
            assert [it.offset() for it in records] == self._due(partition, len(records))
            self.next[partition] = records[-1].offset() + 1
        for partition, end in fetched.ends.items():
            self._move(partition, end)
            assert [each for each in self._due(partition, 1) if each < end] == []
            assert (partition, end) not in self.told
            self.told.add((partition, end))
            self.next[partition] = end

    def _due(self, partition: TopicPartition, count: int) -> list[int]:
        return self._brokers.offsets(partition, self.next[partition])[:count]

    def _move(self, partition: TopicPartition, offset: int) -> None:
        assert partition in self.next
        assert partition not in self.paused
        if partition in self.loose:
            self.loose.remove(partition)
            self.next[partition] = max(self.next[partition], offset)


@pytest.mark.seeds(12)
def test_every_record_of_an_assignment_comes_once_and_in_order_while_brokers_fail(
    seed: int, start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"_LATE": 0.02, "_NO_ANSWER": 0.04, "_TRIES": 1000}.items():
        monkeypatch.setattr(module, name, value)
    rng = random.Random(seed)
    brokers = start({"a": 3, "b": 1, "c": 4}, brokers=3)
    names, trouble = list(brokers.partitions), rng.choice([0.0, 0.02, 0.2])

    def write(partition: TopicPartition) -> None:
        for _ in range(rng.randrange(3)):
            brokers.write(partition, rng.randrange(1, 30), codec=rng.choice([0, 0, 1]), skipped=rng.choice([0, 0, 3]))
        if not rng.randrange(5):
            brokers.write(partition, 3, producer=7)
            brokers.end_transaction(partition, 7, committed=True)

    def fate(broker: int, partition: TopicPartition) -> int:
        if rng.random() < trouble / 3:
            brokers.move(partition, rng.randrange(1, 4))
        return rng.choice(PASSING) if rng.random() < trouble else 0

    for each in names:
        brokers.begin_at(each, rng.choice([0, 500]))
        write(each)
    brokers.fate = fate
    brokers.fate_of_offsets = lambda *asked: rng.choice([*MOVED, LOST_REQUEST, CUT]) if rng.random() < trouble else 0
    brokers.fate_of_look_ups = lambda topic: LOST_REQUEST if rng.random() < trouble else 0
    brokers.told_leader = lambda _, leader: rng.choice([-1, 1, 2, 3]) if rng.random() < trouble else leader
    reader = read(brokers, {}, rng.choice([None, Wakeup()]), max_partition_fetch_bytes=rng.choice([1, 3000, 1 << 20]))
    expected, fetcher = Expected(brokers), reader.fetcher

    def assign(partition: TopicPartition) -> None:
        log = brokers.partitions[partition]
        position = rng.choice([BEGINNING, END, log.start, log.end, rng.randrange(log.start, log.end + 1)])
        expected.assign(partition, position)
        fetcher.assign({partition: position})

    for _ in range(200):
        each = rng.choice(names)
        match rng.choice(["write", "assign", "assign", "unassign", "pause", "resume", "resume", "poll", "poll"]):
            case "write":
                write(each)
            case "assign" if each not in expected.next:
                assign(each)
            case "unassign" if each in expected.next:
                fetcher.unassign([each])
                expected.unassign(each)
            case "pause" if each in expected.next:
                fetcher.pause([each])
                expected.paused.add(each)
            case "resume" if each in expected.next:
                fetcher.resume([each])
                expected.paused.discard(each)
        expected.check(reader.poll(rng.choice([1, 7, 100, 2000]), rng.choice([0.0, 0.0, 0.005])))
    trouble = 0.0
    fetcher.resume(expected.paused)
    expected.paused.clear()
    for each in names:
        if each not in expected.next:
            assign(each)
    at_ends = {(each, log.end) for each, log in brokers.partitions.items()}
    give_up = time.monotonic() + 30
    while not at_ends <= expected.told:
        assert time.monotonic() < give_up, (at_ends - expected.told, expected.next)
        expected.check(reader.poll())

    reader.nothing_comes()
    assert {(each, at) for each, at in expected.next.items()} == at_ends


# ---- positions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "troubles", [(), (KafkaError.LEADER_NOT_AVAILABLE, LOST_REQUEST, KafkaError.UNKNOWN, CUT, *MOVED)]
)
@pytest.mark.parametrize(("position", "first"), [(BEGINNING, 40), (END, 50)])
def test_brokers_tell_where_a_partition_begins_and_ends(
    position: int, first: int, troubles: tuple[int, ...], start: Start, read: Read
) -> None:
    brokers = start({"a": 2})
    brokers.begin_at(A, 40)
    for each in (A, A1):
        brokers.write(each, 10)
    brokers.fate_of_offsets = once(*troubles)
    reader = read(brokers, {A: position, A1: 4})
    assert reader.fetcher.watermarks(A) is None
    reader.until(lambda: len(reader.ends) == 2)
    brokers.write(A, 10)
    reader.until(lambda: len(reader.ends) == 3)

    assert reader.offsets == {A: list(range(first, 60)), A1: list(range(4, 10))}
    assert sorted(reader.ends) == [(A, 50), (A, 60), (A1, 10)]
    assert (reader.fetcher.watermarks(A), reader.fetcher.watermarks(A1)) == ((40, 60), (0, 10))


def test_offsets_are_asked_for_again_after_an_answer_that_breaks_off(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    brokers.fate_of_offsets = once(MALFORMED)
    reader = read(brokers, {A: BEGINNING})
    reader.until(lambda: reader.ends)

    assert reader.offsets[A] == list(range(5))


def test_an_offset_that_a_broker_has_not_is_told_once_after_the_records_before_it(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 2000)
    brokers.fate = once(0, KafkaError.OFFSET_OUT_OF_RANGE)
    reader = read(brokers, {A: 0})
    reader.until(lambda: reader.offsets, limit=600)
    assert len(reader.offsets[A]) == 600
    brokers.wait_until(lambda: brokers.answered == 3)  # versions, records, and that there are no more
    for _ in range(2):
        assert reader.poll(600).out_of_range == []
    reader.until(lambda: reader.lost)

    assert (reader.offsets[A], reader.lost) == (list(range(2000)), [A])
    reader.nothing_comes()
    assert len(brokers.asked) == 2
    reader.fetcher.unassign([A])
    reader.fetcher.assign({A: BEGINNING})
    reader.until(lambda: reader.ends)
    assert (reader.offsets[A], reader.lost) == ([*range(2000), *range(2000)], [A])


def test_an_offset_outside_the_log_is_told_and_other_partitions_go_on(start: Start, read: Read) -> None:
    brokers = start({"a": 2, "b": 1})
    for each in (A, A1, B):
        brokers.write(each, 5)
    brokers.begin_at(A, 5)
    reader = read(brokers, {A: 4, A1: 6, B: 0})
    reader.until(lambda: reader.ends and len(reader.lost) == 2)

    assert sorted(reader.lost) == [A, A1]
    assert (reader.offsets, reader.ends) == ({B: list(range(5))}, [(B, 5)])


def test_a_log_that_was_truncated_behind_what_was_read_is_told_as_an_offset_that_is_not_there(
    start: Start, read: Read
) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    brokers.move(A, 1)
    brokers.write(A, 5)
    reader = read(brokers, {A: 0})
    reader.until(lambda: reader.ends)
    reader.poll()
    assert [each.last_fetched_epoch for _, _, each in brokers.fetches()][:2] == [-1, 1]
    brokers.truncate(A, 5)
    brokers.write(A, 8)
    reader.until(lambda: reader.lost)

    reader.nothing_comes()
    assert (reader.lost, reader.offsets[A]) == ([A], list(range(10)))
    reader.fetcher.unassign([A])
    reader.fetcher.assign({A: 5})
    reader.until_end((A, 13))
    assert reader.offsets[A] == [*range(10), *range(5, 13)]


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("code", [0, KafkaError.OFFSET_OUT_OF_RANGE])
def test_a_former_leader_that_answers_late_changes_nothing(
    code: int, returns: bool, start: Start, read: Read, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LATE", 0.01)
    brokers, let_go = start({"a": 2}, 2), Event()
    stack.callback(let_go.set)
    for each in (A, A1):
        brokers.move(each, 1)
        brokers.write(each, 5)

    def fate(broker: int, partition: TopicPartition) -> int:
        if broker == 2:
            return code
        let_go.wait(30)
        brokers.partitions[A].leader = 1  # it does not know of the other one
        return 0

    brokers.fate = fate
    reader = read(brokers, {A: 0, A1: 0})
    reader.until(lambda: brokers.asked)
    brokers.move(A, 2)
    reader.until(lambda: reader.lost or reader.ends)
    if returns:
        brokers.move(A, 1)
        looked_up = len(brokers.looked_up)
        reader.until(lambda: len(brokers.looked_up) > looked_up + 2)
    let_go.set()
    reader.until_end((A1, 5))
    reader.nothing_comes()

    assert reader.lost == ([A] if code else [])
    assert (reader.offsets[A], reader.offsets[A1]) == ([] if code else list(range(5)), list(range(5)))


@pytest.mark.parametrize("ended", [[1, 2], [2, 1]])
def test_records_of_aborted_transactions_do_not_come_in_whichever_order_these_ended(
    ended: list[int], start: Start, read: Read
) -> None:
    brokers = start({"a": 1})
    for producer in (1, 2, 3, 1, 2, 3):
        brokers.write(A, 5, producer=producer)
    for producer in ended:
        brokers.end_transaction(A, producer, committed=False)
    committed, everything = read(brokers, {A: 0}), read(brokers, {A: 0}, isolation_level="read_uncommitted")
    for reader, end in ((committed, 10), (everything, 32)):
        reader.until_end((A, end))
        assert reader.ends == [(A, end)]
    brokers.end_transaction(A, 3, committed=True)
    brokers.write(A, 5)
    committed.until_end((A, 38))

    assert committed.offsets[A] == [*range(10, 15), *range(25, 30), *range(33, 38)]
    assert everything.offsets[A] == list(range(30))


# ---- topics --------------------------------------------------------------------------------------------------------


def test_a_topic_that_may_not_be_read_is_told(start: Start, read: Read) -> None:
    brokers = start({"a": 2, "b": 1})
    brokers.fate = lambda broker, partition: KafkaError.TOPIC_AUTHORIZATION_FAILED if partition == A1 else 0
    reader = read(brokers, {A: 0, A1: 0})
    with pytest.raises(TopicError, match="not authorised to read a-1"):
        reader.until(lambda: False)
    brokers.fate_of_look_ups = lambda topic: KafkaError.TOPIC_AUTHORIZATION_FAILED
    reader = read(brokers, {B: 0})
    with pytest.raises(TopicError, match="not authorised to read b"):
        reader.until(lambda: False)


def test_a_topic_that_is_missing_for_long_is_told(start: Start, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "PROPAGATION", 0.05)
    brokers = start({"a": 1})
    brokers.write(A, 5)
    reader = read(brokers, {A: 0})
    reader.until(lambda: reader.ends)
    del brokers.partitions[A]
    with pytest.raises(TopicError, match="topic a no longer exists"):
        reader.until(lambda: False)
    assert reader.offsets[A] == list(range(5))


def test_a_topic_that_is_missing_for_a_moment_is_read(start: Start, read: Read) -> None:
    brokers = start({"a": 1, "b": 1})
    for each in (A, B):
        brokers.write(each, 5)
    missing = KafkaError.UNKNOWN_TOPIC_OR_PART
    brokers.fate_of_look_ups = once(missing, missing, LOST_REQUEST, KafkaError.LEADER_NOT_AVAILABLE, missing)
    brokers.fate = once(missing)
    reader = read(brokers, {A: 0, B: 0})
    reader.until(lambda: len(reader.ends) == 2)

    assert reader.offsets == {A: list(range(5)), B: list(range(5))}


def test_a_topic_that_was_missing_when_it_was_assigned_before_is_waited_for_again(
    start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaders, "PROPAGATION", 0.5)
    brokers = start({"a": 1})
    brokers.fate_of_look_ups = once(*[KafkaError.UNKNOWN_TOPIC_OR_PART] * 2)
    reader = read(brokers, {A: 0})
    brokers.wait_until(lambda: brokers.looked_up)
    reader.fetcher.unassign([A])
    time.sleep(0.6)
    reader.fetcher.assign({A: 0})
    reader.until(lambda: reader.ends)


def test_what_is_wrong_with_a_topic_is_not_told_after_it_was_unassigned(start: Start, read: Read) -> None:
    brokers = start({"a": 1, "b": 1})
    brokers.fate_of_look_ups = lambda topic: KafkaError.TOPIC_AUTHORIZATION_FAILED if topic == "b" else 0
    reader = read(brokers, {B: 0})
    assert reader.fetcher.ended  # the look-up
    reader.fetcher.unassign([B])
    reader.fetcher.assign({A: 0})
    reader.until(lambda: reader.ends)


def test_a_look_up_that_has_told_that_it_found_nothing_is_soon_made_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is told looks at once: the thread may not have ended."""
    monkeypatch.setattr(leaders, "_PAUSE", 0.5)
    pauses: list[float] = []
    made = leaders.Leaders(start({}).list_topics, lambda: pauses.append(made.look_up({"a"})))
    made.look_up({"a"})

    assert made.close()  # it has ended
    assert len(pauses) == 1
    assert pauses[0] <= 0.5


# ---- what cannot be read -------------------------------------------------------------------------------------------


def test_a_batch_that_was_changed_on_its_way_is_fetched_again(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    brokers.move(A, 1)
    whole, _ = brokers.write(A, 5), brokers.write(A, 5)
    log = brokers.partitions[A].batches
    log[1] = replace(whole, data=whole.data[:-1] + b"?")
    requests: list[int] = []

    def fate(*asked: object) -> int:
        requests.append(1)
        if len(requests) == 3:
            log[1] = whole
        return 0

    brokers.fate = fate
    reader = read(brokers, {A: 2})
    reader.until(lambda: reader.ends)

    assert reader.offsets[A] == list(range(2, 15))
    assert [each.fetch_offset for _, _, each in brokers.fetches()][:3] == [2, 5, 5]


def test_what_is_asked_for_behind_a_batch_that_is_wrong_does_not_come_before_it(start: Start, read: Read) -> None:
    brokers = start({"a": 2})
    brokers.write(A1, 2000)
    size = max(len(brokers.write(A, 5).data) for _ in range(2))
    wrong = once(CORRUPT)
    brokers.fate = lambda broker, partition: wrong() if partition == A else 0
    reader = read(brokers, {A1: 0, A: 0}, max_partition_fetch_bytes=size)
    reader.until(lambda: len(reader.ends) == 2, limit=600)

    assert reader.offsets == {A1: list(range(2000)), A: list(range(10))}
    assert [each.fetch_offset for _, name, each in brokers.fetches() if name == A][:4] == [0, 5, 0, 5]


def test_some_tries_are_made_for_each_batch(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    for _ in range(3):
        brokers.write(A, 5)
    brokers.fate = once(*[CORRUPT, CORRUPT, 0] * 3)
    reader = read(brokers, {A: 0}, max_partition_fetch_bytes=1)
    reader.until(lambda: reader.ends)

    assert reader.offsets[A] == list(range(15))


def test_a_batch_that_is_always_wrong_ends_it_after_some_tries(start: Start, read: Read) -> None:
    brokers = start({"a": 2})
    for each in (A, A1):
        brokers.write(each, 5)
    brokers.fate = lambda broker, partition: CORRUPT if partition == A1 else 0
    reader = read(brokers, {A: 0, A1: 0})
    with pytest.raises(StreamsError, match=r"a-1 cannot be read: .*checksum"):
        reader.until(lambda: False)

    assert reader.offsets == {A: list(range(5))}
    assert len([each for _, each, _ in brokers.fetches() if each == A1]) == 3


def test_checksums_are_not_looked_at_if_the_user_says_so(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    brokers.fate = lambda *asked: CORRUPT
    fetched = read(brokers, {A: 0}, check_crcs=False).fetcher.fetch(100, 20.0)

    assert [it.offset() for _, records in fetched.records for it in records] == list(range(5))


def test_an_answer_of_a_senseless_length_is_asked_for_again(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    brokers.fate = once(SENSELESS)
    reader = read(brokers, {A: 0})
    reader.until(lambda: reader.ends)

    assert reader.offsets[A] == list(range(5))


def test_an_older_format_of_records_is_left_to_librdkafka(start: Start, read: Read) -> None:
    brokers = start({"a": 2})
    brokers.write(A, 5)
    batch = brokers.write(A1, 5)
    brokers.partitions[A1].batches[0] = replace(batch, data=batch.data[:16] + b"\1" + batch.data[17:])
    reader = read(brokers, {A: 0})
    reader.until(lambda: len(reader.offsets[A]) == 3, limit=3)
    reader.fetcher.pause([A])
    reader.fetcher.assign({A1: 0})
    with pytest.raises(NotImplementedError):
        reader.until(lambda: False)

    assert reader.fetcher.close() == ({A: 3, A1: 0}, [A])


def test_records_that_were_taken_are_delivered_before_an_older_format_is_met(start: Start, read: Read) -> None:
    brokers = start({"a": 2})
    for _ in range(2):
        batch = brokers.write(A, 5)
    brokers.partitions[A].batches[1] = replace(batch, data=batch.data[:16] + b"\1" + batch.data[17:])
    brokers.write(A1, 5)
    reader = read(brokers, {A: 0, A1: 0})
    reader.until(lambda: reader.offsets, limit=5)
    with pytest.raises(NotImplementedError):
        reader.until(lambda: False)

    assert reader.offsets[A] == list(range(5))
    assert reader.fetcher.close()[0] == {each: len(reader.offsets[each]) for each in (A, A1)}


# ---- brokers -------------------------------------------------------------------------------------------------------


def test_a_broker_that_keeps_silent_is_left_when_its_partitions_have_moved(
    start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LATE", 0.02)
    monkeypatch.setattr(module, "_NO_ANSWER", ENDLESS)
    brokers = start({"a": 1}, 2)
    brokers.write(A, 5)
    brokers.fate = lambda broker, partition: SILENT if broker == 1 else 0
    reader = read(brokers, {A: 0})
    reader.until(lambda: brokers.asked)
    brokers.move(A, 2)
    reader.until(lambda: reader.ends and not brokers.connections(1))

    assert reader.offsets[A] == list(range(5))
    assert [broker for broker, _ in brokers.asked].count(1) == 1


def test_a_broker_that_does_not_answer_is_asked_anew_over_another_connection(
    start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LATE", 0.01)
    monkeypatch.setattr(module, "_NO_ANSWER", 0.05)
    brokers = start({"a": 1})
    brokers.write(A, 5)
    brokers.fate, brokers.fate_of_offsets = once(SILENT), once(SILENT)
    reader = read(brokers, {A: BEGINNING})
    reader.until(lambda: reader.ends)

    assert reader.offsets[A] == list(range(5))
    assert brokers.accepted[1] >= 3


def test_a_broker_that_accepts_no_connection_is_tried_again_and_others_are_read(start: Start, read: Read) -> None:
    brokers = start({"a": 2}, 2, frozenset({1}))
    for each in (A, A1):
        brokers.write(each, 5)
    reader = read(brokers, {A: 0, A1: 0})
    reader.until(lambda: reader.ends and len(brokers.looked_up) > 3)
    assert reader.offsets == {A1: list(range(5))}
    brokers.listen(1)
    reader.until(lambda: len(reader.ends) == 2)

    assert reader.offsets == {A: list(range(5)), A1: list(range(5))}


@pytest.mark.parametrize("position", [0, BEGINNING])
def test_a_broker_that_wants_to_be_left_alone_is(position: int, start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    brokers.throttle_ms = 60_000
    reader = read(brokers, {A: position})
    reader.until(lambda: brokers.asked)
    for _ in range(5):
        reader.poll()
    assert len(brokers.asked) == 1


def test_a_broker_that_was_left_alone_is_asked_later(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.throttle_ms = 30
    reader = read(brokers, {A: BEGINNING})
    for number in range(3):
        brokers.write(A, 5)
        reader.until_end((A, 5 * number + 5))

    assert reader.offsets[A] == list(range(15))


def at_brokers(brokers: FetchedBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers that are made from now on fetch from them, and ask others for anything else."""
    made: Any = lambda path, settings, _, wakeup: Fetcher(path, settings, brokers.list_topics, wakeup)  # noqa: E731
    monkeypatch.setattr(consumer_module, "Fetcher", made)
    data_paths.take(data_paths.compiled(), monkeypatch)


@pytest.mark.parametrize("lacking", [FetchRequest, ListOffsetsRequest])
def test_a_broker_that_is_too_old_is_left_to_librdkafka(
    lacking: Any, start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = start({"t": 2})
    old.known[lacking.API_KEY] = (0, 4)
    at_brokers(old, monkeypatch)
    home = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1})
    [broker] = home.list_topics("t", 60).brokers.values()
    for number in range(20):
        home.produce("t", b"%d" % (number // 2), partition=number % 2)
    assert home.flush(60) == 0
    first, other = TopicPartition("t", 0), TopicPartition("t", 1)
    offsets: defaultdict[TopicPartition, list[int]] = defaultdict(list)
    properties = PROPERTIES | {"bootstrap.servers": f"{broker.host}:{broker.port}", "group.id": "g"}
    with closing(PartitionConsumer(properties)) as consumer:
        consumer.assign({first: 4, other: BEGINNING})
        consumer.pause([other])
        for wanted in (6, 16):
            while sum(map(len, offsets.values())) < wanted:
                for partition, records in consumer.poll(100, 1.0).records:
                    offsets[partition] += [it.offset() for it in records]
            assert (offsets[first], bool(offsets[other])) == (list(range(4, 10)), wanted == 16)
            consumer.resume([other])
    assert offsets[other] == list(range(10))
    assert old.asked == []
    with pytest.raises(NotImplementedError, match="does not know Fetch"):
        read(old, {first: 0}).until(lambda: False)


def test_a_consumer_that_librdkafka_took_over_is_not_closed_while_leaders_are_looked_up(
    start: Start, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaders, "_REQUEST", -0.99)  # so long, and a second, is waited for it in the end
    old, connected, looked_up = start({"a": 1, "b": 1}), Event(), Event()
    for each in (connected, looked_up):
        stack.callback(each.set)
    old.known.clear()
    old.fate_of_versions = lambda: connected.wait(30)
    old.fate_of_look_ups = lambda topic: int(topic == "b" and not looked_up.wait(30))
    at_brokers(old, monkeypatch)
    consumer = PartitionConsumer(PROPERTIES | {"bootstrap.servers": data_paths.NOBODY, "group.id": "g"})
    with closing(consumer._consumer):
        consumer.assign({A: 0})
        while not old.accepted[1]:
            consumer.poll(10, 0.01)
        consumer.assign({B: 0})
        old.wait_until(lambda: "b" in old.looked_up)
        connected.set()
        while consumer._fetcher is not None:
            consumer.poll(10, 0.01)
        closed: list[bool] = []
        monkeypatch.setattr(consumer, "_consumer", SimpleNamespace(close=lambda: closed.append(True)))
        consumer.close()
        assert closed == []
        looked_up.set()


# ---- memory --------------------------------------------------------------------------------------------------------


def test_each_of_many_partitions_is_asked_for_less(start: Start, read: Read) -> None:
    brokers = start({"a": 64})
    names = list(brokers.partitions)
    reader = read(brokers, dict.fromkeys(names, 0), queued_max_messages_kbytes=4096)
    reader.until(lambda: len(reader.ends) == 64)
    reader.fetcher.unassign(names[1:])
    brokers.write(A, 1)
    reader.until_end((A, 1))
    reader.poll()
    sizes = [{each.partition_max_bytes for topic in it.topics for each in topic.partitions} for _, it in brokers.asked]

    assert sizes[0] == {(4096 << 10) // 128}
    assert sizes[-1] == {1 << 20}


def test_no_more_than_two_answers_of_a_partition_wait_to_be_taken(start: Start, read: Read) -> None:
    brokers = start({"a": 2})
    sizes = {len(brokers.write(each, 600).data) for each in (A, A1) for _ in range(8)}
    reader = read(brokers, {A: 0, A1: 0}, max_partition_fetch_bytes=max(sizes))  # of which nothing else is as large
    while len(reader.offsets[A]) + len(reader.offsets[A1]) < 9600:
        reader.poll(500)
        time.sleep(0.001)  # the broker notes what it is asked
        for _, each, asked in brokers.fetches():
            assert asked.fetch_offset <= len(reader.offsets[each]) + 600
    assert {asked.fetch_offset for _, _, asked in brokers.fetches()} >= set(range(0, 4800, 600))
    paused = read(brokers, {A: 0}, max_partition_fetch_bytes=1)
    paused.fetcher.pause([A])
    asked = len(brokers.asked)
    paused.nothing_comes()
    assert len(brokers.asked) == asked


# ---- waiting, and the end ------------------------------------------------------------------------------------------


class Counted(Wakeup):
    """Counts waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def wait(self, timeout: float) -> bool:
        self.waits += 1
        return super().wait(timeout)


def idle(brokers: FetchedBrokers, reader: Reader) -> None:
    """Until a broker waits for records, for long, and nobody has anything else to tell."""
    reader.until(lambda: len(brokers.asked) == 2)  # for where it begins, and for records
    for thread in threading.enumerate():
        if thread.name.startswith(("connect-", "leaders")):
            thread.join(10)
    reader.nothing_comes()


@pytest.mark.parametrize("early", [False, True])
def test_a_notification_ends_the_wait(early: bool, start: Start, read: Read) -> None:
    brokers, wakeup, told = start({"a": 1}), Wakeup(), Event()
    reader = read(brokers, {A: BEGINNING}, wakeup, fetch_wait_max_ms=60_000)

    def notify() -> None:
        told.set()
        wakeup.notify()

    idle(brokers, reader)
    for _ in range(3):
        if early:
            notify()
        else:
            threading.Timer(0.03, notify).start()
        begin = time.monotonic()
        assert not reader.poll(10, ENDLESS)
        assert told.is_set()
        assert time.monotonic() - begin < 30
        told.clear()


@pytest.mark.parametrize("interrupted", [False, True])
def test_records_end_the_wait(interrupted: bool, start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    reader = read(brokers, {A: BEGINNING}, Wakeup() if interrupted else None, fetch_wait_max_ms=60_000)
    idle(brokers, reader)
    threading.Timer(0.03, brokers.write, (A, 5)).start()
    begin = time.monotonic()

    assert reader.poll(10, ENDLESS)
    assert time.monotonic() - begin < 30
    assert reader.offsets[A] == list(range(5))


def test_without_a_wakeup_nothing_but_records_ends_the_first_wait(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.fate_of_look_ups = once(KafkaError.LEADER_NOT_AVAILABLE, LOST_REQUEST)
    brokers.fate, brokers.fate_of_offsets = once(LOST_REQUEST, *MOVED), once(CUT)
    brokers.write(A, 5)
    reader = read(brokers, {A: BEGINNING})

    assert reader.poll(10, 30.0).records


def test_records_come_to_who_never_waits(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    reader = read(brokers, {A: BEGINNING})
    give_up = time.monotonic() + 10
    while not reader.offsets and time.monotonic() < give_up:
        reader.poll(10, 0.0)
        time.sleep(0.001)

    assert reader.offsets[A] == list(range(5))


def test_a_wait_is_one_even_if_errors_are_met_with_no_pause(start: Start, read: Read) -> None:
    brokers, wakeup = start({"a": 1}), Counted()
    reader = read(brokers, {A: 0}, wakeup, fetch_error_backoff_ms=0)
    reader.until(lambda: reader.ends)
    reader.fetcher.pause([A])
    reader.nothing_comes()
    wakeup.waits = 0
    reader.poll(10, 0.1)

    assert wakeup.waits < 20


def descriptors() -> set[tuple[int, int]]:
    """What is open, each with what tells it from another one of the same number."""
    gc.collect()
    found = set()
    for number in map(int, os.listdir("/dev/fd")):  # noqa: PTH208
        with suppress(OSError):  # that of the folder
            found.add((number, os.fstat(number).st_ino))
    return found


@pytest.mark.parametrize("polls", [0, 1, 2, 3, 50])
def test_what_is_open_is_closed_at_the_end_also_while_it_connects(polls: int, start: Start, read: Read) -> None:
    brokers, wakeup = start({"a": 3}, 3), Wakeup()
    for each in brokers.partitions:
        brokers.write(each, 5)
    before = descriptors()
    reader = read(brokers, dict.fromkeys(brokers.partitions, BEGINNING), wakeup)
    for _ in range(polls):
        reader.poll(10, 0.001)
    if polls == 50:
        reader.until(lambda: len(reader.ends) == 3)
        assert len(descriptors() - before) == 6  # both ends of each
    positions, paused = reader.fetcher.close()

    assert positions.keys() == brokers.partitions.keys()
    assert (paused, reader.fetcher.ended) == ([], True)
    give_up = time.monotonic() + 20
    while (left := descriptors() - before) and time.monotonic() < give_up:
        time.sleep(0.01)
    assert left == set()

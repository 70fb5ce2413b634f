"""A fetcher delivers every record once and in order, whatever brokers answer, or stops and says so. The brokers are
scripted, the sockets real."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from dataclasses import replace
from threading import Event

import pytest
from confluent_kafka import KafkaError

from fetched_brokers import (
    CORRUPT,
    CUT,
    FAILED,
    LOST_REQUEST,
    MALFORMED,
    OF_ANOTHER,
    SENSELESS,
    SILENT,
    FetchedBrokers,
)
from fetching_parts import (
    A1,
    ENDLESS,
    MOVED,
    PASSING,
    A,
    B,
    Read,
    Start,
    once,
)
from streamsapp import TopicPartition
from streamsapp.errors import StreamsError
from streamsapp.kafka.consumer import BEGINNING, END
from streamsapp.kafka.fetching import answers as module
from streamsapp.kafka.fetching.broker import TooOldError
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.wakeup import Wakeup


class Expected:
    """The records that a fetcher is to deliver, by what was assigned, paused and written."""

    def __init__(self, brokers: FetchedBrokers) -> None:
        self._brokers = brokers
        self.next: dict[TopicPartition, int] = {}
        #: Partitions that were assigned at their end, which moves until the broker has answered it.
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
            codec, skipped = rng.choice(["none", "none", "gzip"]), rng.choice([0, 0, 3])
            brokers.write(partition, rng.randrange(1, 30), codec=codec, skipped=skipped)
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
    brokers.fate = once(0, *[KafkaError.OFFSET_OUT_OF_RANGE] * 2)
    reader = read(brokers, {A: 0})
    reader.until(lambda: reader.offsets, limit=600)
    assert len(reader.offsets[A]) == 600
    brokers.wait_until(lambda: brokers.answered == 3)  # versions, records, and that there are no more
    for _ in range(2):
        assert reader.poll(600).out_of_range == []
    reader.until(lambda: reader.lost)

    assert (reader.offsets[A], reader.lost) == (list(range(2000)), [A])
    reader.nothing_comes()
    assert len(brokers.asked) == 3
    reader.ends.clear()  # that of the records before it, if they were all taken before it was known to be gone
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
    reader.until(lambda: len(brokers.asked) > 1)  # the broker notes what it is asked
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
    with pytest.raises(StreamsError, match=r"a-1 cannot be read: .*checksum.* broker 1 at 127\.0\.0\.1:\d+ sent it 5 "):
        reader.until(lambda: False)

    assert reader.offsets == {A: list(range(5))}
    assert len([each for _, each, _ in brokers.fetches() if each == A1]) == 5


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


@pytest.mark.parametrize("fate", [FAILED, OF_ANOTHER])
def test_who_answers_something_else_is_asked_anew_over_another_connection(fate: int, start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    brokers.fate = once(fate)
    reader = read(brokers, {A: 0})
    reader.until(lambda: reader.ends)

    assert (reader.offsets[A], brokers.accepted[1]) == (list(range(5)), 2)


def test_all_that_brokers_have_is_told_at_once_also_if_it_is_nothing(start: Start, read: Read) -> None:
    brokers = start({"a": 3}, brokers=3)
    reader = read(brokers, {TopicPartition("a", number): 0 for number in range(3)}, fetch_wait_max_ms=60_000)
    reader.until(lambda: len(brokers.asked) == 3)
    brokers.wait_until(lambda: brokers.answered == 3)  # which versions they know
    brokers.write(A, 5)
    brokers.write(A1, 2)
    brokers.wait_until(lambda: brokers.answered == 5)
    reader.until(lambda: reader.offsets)

    # The third one has been asked, and waits for records; the others have answered, and both answers were taken.
    assert set(reader.offsets) == {A, A1}
    for _ in range(3):
        asked = len(brokers.asked)
        fetched = reader.fetcher.fetch(100, ENDLESS, at_once=True)
        assert len(brokers.asked) == asked + 2
        assert not fetched.records
        assert not fetched.more
    brokers.write(A, 3)
    brokers.write(A1, 4)
    fetched = reader.fetcher.fetch(100, ENDLESS, at_once=True)
    assert sorted((name.partition, len(records)) for name, records in fetched.records) == [(0, 3), (1, 4)]
    assert not fetched.more


def test_more_is_said_to_be_there_if_a_broker_does_not_answer_or_less_was_taken(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    reader = read(brokers, {A: 0})
    brokers.write(A, 5)
    reader.until(lambda: len(reader.offsets[A]) == 5)
    brokers.write(A, 5)
    assert reader.fetcher.fetch(3, ENDLESS, at_once=True).more
    assert not reader.fetcher.fetch(3, ENDLESS, at_once=True).more
    brokers.fate = lambda broker, partition: SILENT
    assert reader.fetcher.fetch(3, 0.01, at_once=True).more


def test_an_older_format_of_records_is_an_error_that_names_librdkafka(start: Start, read: Read) -> None:
    brokers = start({"a": 2})
    brokers.write(A, 5)
    batch = brokers.write(A1, 5)
    brokers.partitions[A1].batches[0] = replace(batch, data=batch.data[:16] + b"\1" + batch.data[17:])
    reader = read(brokers, {A: 0})
    reader.until(lambda: len(reader.offsets[A]) == 3, limit=3)
    reader.fetcher.pause([A])
    reader.fetcher.assign({A1: 0})
    for _ in range(2):
        with pytest.raises(TooOldError, match=rf"^{A1}, offset 0: records are in version 1 .* client: librdkafka"):
            reader.until(lambda: False)


def test_records_that_were_taken_are_delivered_before_an_older_format_is_met(start: Start, read: Read) -> None:
    brokers = start({"a": 2})
    for _ in range(2):
        batch = brokers.write(A, 5)
    brokers.partitions[A].batches[1] = replace(batch, data=batch.data[:16] + b"\1" + batch.data[17:])
    brokers.write(A1, 5)
    reader = read(brokers, {A: 0, A1: 0})
    reader.until(lambda: reader.offsets, limit=5)
    with pytest.raises(TooOldError):
        reader.until(lambda: False)

    assert reader.offsets[A] == list(range(5))

"""A fetcher, topics that are not there, and brokers that are silent, away, busy or too old; memory, waits, and the end.
The brokers are scripted, the sockets real."""

from __future__ import annotations

import gc
import os
import socket
import stat
import threading
import time
from contextlib import suppress
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaError

from fetched_brokers import (
    CUT,
    LOST_REQUEST,
    SILENT,
    FetchedBrokers,
)
from fetching_parts import (
    A1,
    ENDLESS,
    MOVED,
    A,
    B,
    Read,
    Reader,
    Start,
    Threads,
    once,
)
from instances import eventually
from messages_by_hand.fetch import FetchRequest
from streamsapp import TopicPartition
from streamsapp.brokers import link
from streamsapp.brokers.messages.list_offsets import ListOffsetsRequest
from streamsapp.brokers.opening import OpenConnection, open_connection
from streamsapp.errors import TopicError
from streamsapp.kafka.consumer import BEGINNING
from streamsapp.kafka.fetching import answers as module, broker_connections, leaders
from streamsapp.kafka.fetching.broker import TooOldError
from streamsapp.kafka.wakeup import Wakeup

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


def test_a_partition_that_is_missing_for_long_is_told(
    start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaders, "PROPAGATION", 0.05)
    brokers = start({"a": 2, "b": 1})
    brokers.write(A, 5)
    reader = read(brokers, {A: 0, A1: 0, B: 0})
    reader.until_end((A, 5), (A1, 0), (B, 0))
    added = brokers.partitions.pop(A1)
    with pytest.raises(TopicError, match="topic a has no partition 1, and 1 in all"):
        reader.until(lambda: False)
    reader.fetcher.unassign([A1])
    brokers.move(A, 1)
    brokers.write(A, 2)
    reader.until_end((A, 7))
    brokers.partitions[A1] = added
    reader.fetcher.assign({A1: 0})
    reader.until(lambda: reader.ends.count((A1, 0)) == 2)


def test_a_partition_that_is_missing_for_a_moment_is_read(start: Start, read: Read) -> None:
    brokers = start({"a": 2})
    brokers.write(A1, 5)
    added = brokers.partitions.pop(A1)
    reader = read(brokers, {A: 0, A1: 0})
    reader.until_end((A, 0))
    brokers.wait_until(lambda: len(brokers.looked_up) > 1)
    # Another dictionary: a look-up may be going through the one that was there.
    brokers.partitions = {**brokers.partitions, A1: added}
    reader.until_end((A1, 5))


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


def test_what_is_wrong_with_a_topic_is_not_told_after_it_was_unassigned(start: Start, read: Read) -> None:
    brokers = start({"a": 1, "b": 1})
    brokers.fate_of_look_ups = lambda topic: KafkaError.TOPIC_AUTHORIZATION_FAILED if topic == "b" else 0
    reader = read(brokers, {B: 0})
    reader.threads.end()  # the look-up's
    reader.fetcher.unassign([B])
    reader.fetcher.assign({A: 0})
    reader.until_end((A, 0))
    brokers.fate_of_look_ups = once()
    reader.fetcher.assign({B: 0})
    reader.until_end((B, 0))


def test_a_look_up_that_has_told_that_it_found_nothing_is_soon_made_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The callback looks up again at once: the thread may not have ended."""
    # So long that the pause is not over when the callback looks up, however late that is.
    monkeypatch.setattr(leaders, "_PAUSE", 3600.0)
    monkeypatch.setattr(leaders, "_LONGEST_PAUSE", 7200.0)
    pauses: list[float] = []
    brokers = start({})
    threads = Threads()
    made = leaders.Leaders(brokers.describe, lambda: pauses.append(made.look_up({A})), time.monotonic, threads)
    made.look_up({A})

    threads.end()
    assert len(pauses) == 1
    assert pauses[0] <= 3600.0


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


def test_a_broker_that_waits_longer_as_it_had_nothing_is_not_late(
    start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_LATE", "_NO_ANSWER"):
        monkeypatch.setattr(module, name, 1.5)
    brokers = start({"a": 1})
    reader = read(brokers, {A: 0}, fetch_wait_max_ms=2500)
    reader.until(lambda: len(brokers.asked) > 1)

    assert brokers.accepted[1] == 1


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


@pytest.mark.parametrize("lacking", [FetchRequest, ListOffsetsRequest])
def test_a_broker_that_is_too_old_is_an_error_that_names_it_and_librdkafka(
    lacking: Any, start: Start, read: Read
) -> None:
    old = start({"t": 2})
    old.known[lacking.API_KEY] = (0, 4)
    with pytest.raises(TooOldError, match=r"^broker 127\.0\.0\.1:\d+ does not know Fetch .* client: librdkafka"):
        read(old, {TopicPartition("t", 0): 0}).until(lambda: False)
    assert old.asked == []


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
    reader = read(brokers, {A: 0, A1: 0}, max_partition_fetch_bytes=max(sizes))  # nothing else of them is as large
    while len(reader.offsets[A]) + len(reader.offsets[A1]) < 9600:
        reader.poll(500)
        time.sleep(0.001)  # the broker notes what it is asked
        for _, each, asked in brokers.fetches():
            assert asked.fetch_offset <= len(reader.offsets[each]) + 600
    assert {asked.fetch_offset for _, _, asked in brokers.fetches()} >= set(range(0, 4800, 600))
    # One partition may be read to its end before the other: a wait after an answer without records may be longer.
    requests, waits = [it for _, it in brokers.asked], {True: set[int](), False: set[int]()}
    brought = [any(each.fetch_offset < 4800 for topic in it.topics for each in topic.partitions) for it in requests]
    for it, before in zip(requests, [True, *brought], strict=False):
        waits[before].add(it.max_wait_ms)
    assert waits[True] == {10, 5}  # less while something is here
    assert waits[False] <= {20, 5}
    paused = read(brokers, {A: 0}, max_partition_fetch_bytes=1)
    paused.fetcher.pause([A])
    paused.nothing_comes()
    # The first one's last request may be noted meanwhile.
    assert not [each for _, _, each in brokers.fetches() if each.partition_max_bytes == 1]


def test_a_partition_that_is_expected_does_not_wait_for_the_answer_to_what_was_asked_before(
    start: Start, read: Read
) -> None:
    brokers = start({"a": 2})
    brokers.write(A1, 3)
    reader = read(brokers, {A: 0}, fetch_wait_max_ms=60_000)
    reader.fetcher.expect_partitions(3600)
    reader.until(lambda: len(brokers.asked) > 3)
    reader.fetcher.assign({A1: 0})
    reader.until(lambda: reader.offsets[A1])

    assert {it.max_wait_ms for _, it in brokers.asked} == {5}


def test_no_partition_waits_until_the_others_are_read(start: Start, read: Read) -> None:
    brokers = start({"a": 4})
    for each in brokers.partitions:
        for _ in range(8):
            brokers.write(each, 5)
    reader = read(brokers, dict.fromkeys(brokers.partitions, 0), fetch_max_bytes=1)  # a batch in each answer
    while sum(map(len, reader.offsets.values())) < 4 * 15:
        reader.poll()

    assert len(reader.offsets) == 4


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
    """Until a broker waits for records, for long, and no other news is left."""
    reader.until(lambda: len(brokers.asked) == 2)  # for where it begins, and for records
    reader.threads.end()
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
    give_up = time.monotonic() + 60
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


def connections(brokers: FetchedBrokers) -> int:
    """Both ends of what is connected to brokers; other threads of this process may open sockets, too."""
    gc.collect()
    found = 0
    for number in map(int, os.listdir("/dev/fd")):  # noqa: PTH208
        with suppress(OSError):  # it is the folder's, or not connected
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as each:
                    if each.family == socket.AF_INET:
                        ends = {each.getsockname()[1], each.getpeername()[1]}
                        found += not ends.isdisjoint(brokers.ports)
    return found


@pytest.mark.parametrize("polls", [0, 1, 2, 3, 50])
def test_what_is_open_is_closed_at_the_end_also_while_it_connects(polls: int, start: Start, read: Read) -> None:
    brokers, wakeup = start({"a": 3}, 3), Wakeup()
    for each in brokers.partitions:
        brokers.write(each, 5)
    reader = read(brokers, dict.fromkeys(brokers.partitions, BEGINNING), wakeup)
    for _ in range(polls):
        reader.poll(10, 0.001)
    if polls == 50:
        reader.until(lambda: len(reader.ends) == 3)
        eventually(lambda: connections(brokers) == 6)
    reader.fetcher.close()

    reader.threads.end()
    eventually(lambda: connections(brokers) == 0)


def test_another_connection_takes_the_place_of_one_whose_session_ends_after_its_last_answer(
    start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers, let_go = start({"a": 1}), Event()
    brokers.write(A, 5)

    def ends_soon(*given: Any) -> OpenConnection:
        return replace(open_connection(*given), renew_at=0.0)

    monkeypatch.setattr(broker_connections, "open_connection", ends_soon)
    monkeypatch.setattr(link, "_SHORTEST_SESSION", 0.0)
    brokers.fate = lambda *asked: let_go.wait(30) and 0
    reader = read(brokers, {A: 0})
    reader.until(lambda: brokers.asked and brokers.accepted[1] == 2)
    reader.nothing_comes()
    assert brokers.connections(1) == 2
    let_go.set()
    reader.until_end((A, 5))
    reader.until(lambda: brokers.accepted[1] > 3)

    assert reader.offsets[A] == list(range(5))
    assert [each.fetch_offset for _, _, each in brokers.fetches()].count(0) == 1, "its answer was taken"
    reader.threads.end()
    brokers.wait_until(lambda: brokers.connections(1) <= 2)

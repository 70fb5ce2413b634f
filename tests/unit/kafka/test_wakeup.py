"""The wait of the polling thread, and the events that end it. Waits are practically endless: a missed notification
hangs the test until its time limit."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import Producer

from data_paths import mock_brokers, take_client
from streamsapp import TopicPartition
from streamsapp.kafka import rest as rest_module
from streamsapp.kafka.consumer import BEGINNING, PartitionConsumer
from streamsapp.kafka.wakeup import Wakeup

ENDLESS = 3600.0


def test_a_notification_of_another_thread_ends_the_wait() -> None:
    wakeup = Wakeup()
    for _ in range(3):
        threading.Timer(0.01, wakeup.notify).start()
        wakeup.wait(ENDLESS)


def test_a_notification_that_nobody_waited_for_ends_the_next_wait() -> None:
    wakeup = Wakeup()
    wakeup.notify()
    wakeup.notify()
    wakeup.wait(ENDLESS)


def test_nothing_that_threads_publish_is_missed_however_they_race() -> None:
    wakeup, rounds, threads = Wakeup(), 2000, 3
    published = [0] * threads

    def publish(number: int) -> None:
        for _ in range(rounds):
            published[number] += 1
            wakeup.notify()

    for number in range(threads):
        threading.Thread(target=publish, args=(number,), daemon=True).start()
    while sum(published) < rounds * threads:
        wakeup.wait(ENDLESS)


def test_the_pipe_is_closed_when_nobody_has_the_wakeup_any_more() -> None:
    wakeup = Wakeup()
    ends = (wakeup._reader, wakeup._writer)
    pipes = [os.fstat(end) for end in ends]
    del wakeup
    gc.collect()

    assert not any(map(is_still, ends, pipes))


def is_still(descriptor: int, file: os.stat_result) -> bool:
    """Say if the descriptor is that of the file. A closed one's number may be another file's: threads that earlier
    tests left behind open sockets at any time."""
    try:
        return os.path.samestat(os.fstat(descriptor), file)
    except OSError:
        return False


@pytest.fixture(autouse=True, params=["streamsapp", "librdkafka"])
def fetching(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    take_client(request.param, monkeypatch)
    mock_brokers(monkeypatch)


@pytest.fixture
def home() -> Iterator[Producer]:
    """A producer with a broker of its own."""
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": f"mock-{os.getpid()}", "linger.ms": 0})
    yield producer
    producer.close()


@contextmanager
def reading(home: Producer, wakeup: Wakeup, rest: float = 0.0) -> Iterator[PartitionConsumer]:
    [broker] = home.list_topics(timeout=60).brokers.values()
    properties = {"bootstrap.servers": f"{broker.host}:{broker.port}", "group.id": "g", "auto.offset.reset": "error"}
    with closing(PartitionConsumer({**properties, "enable.auto.commit": False}, wakeup=wakeup, rest=rest)) as consumer:
        yield consumer


def values(consumer: PartitionConsumer, limit: int, timeout: float) -> list[bytes | None]:
    return [record.value() for _, records in consumer.poll(limit, timeout).records for record in records]


def test_records_and_notifications_end_the_wait_of_a_consumer(home: Producer) -> None:
    wakeup = Wakeup()
    with reading(home, wakeup) as consumer:
        consumer.assign({TopicPartition("in", 0): BEGINNING})
        seen: list[bytes | None] = []
        for number in range(3):
            home.produce("in", b"%d" % number, partition=0)
            while len(seen) <= number:
                seen += values(consumer, 10, ENDLESS)
            threading.Timer(0.01, wakeup.notify).start()
            assert not consumer.poll(10, ENDLESS)
        assert seen == [b"0", b"1", b"2"]


def test_records_that_were_too_many_for_a_fetch_are_not_waited_for(home: Producer) -> None:
    with reading(home, Wakeup()) as consumer:
        consumer.assign({TopicPartition("in", 0): BEGINNING})
        seen: list[bytes | None] = []
        for number in range(40):
            home.produce("in", b"%d" % number, partition=0)
            if number % 7 == 0:
                seen += values(consumer, 3, 0)
        home.flush()
        while len(seen) < 40:
            seen += values(consumer, 3, ENDLESS)
        assert seen == [b"%d" % number for number in range(40)]


def test_a_notification_is_forgotten_by_a_fetch_that_does_not_wait(home: Producer) -> None:
    wakeup = Wakeup()
    with reading(home, wakeup) as consumer:
        wakeup.notify()
        assert not consumer.poll(10, 0)
        assert not wakeup.wait(0)


def test_a_notification_before_the_first_fetch_ends_its_wait(home: Producer) -> None:
    wakeup = Wakeup()
    with reading(home, wakeup) as consumer:
        wakeup.notify()
        consumer.poll(10, ENDLESS)


def fetched(consumer: PartitionConsumer, count: int) -> list[bytes | None]:
    """The next records, until they are so many; fewer never come."""
    seen: list[bytes | None] = []
    while len(seen) < count:
        seen += values(consumer, count - len(seen), ENDLESS)
    return seen


def put(home: Producer, *numbers: int) -> None:
    for number in numbers:
        home.produce("in", b"%d" % number, partition=0)
    home.flush()


@contextmanager
def resting(home: Producer, wakeup: Wakeup) -> Iterator[PartitionConsumer]:
    """A consumer that rests after its first record."""
    with reading(home, wakeup, rest=ENDLESS) as consumer:
        consumer.assign({TopicPartition("in", 0): BEGINNING})
        put(home, 0)
        assert fetched(consumer, 1) == [b"0"]
        yield consumer


def test_a_consumer_rests_after_few_records_whatever_comes_until_it_is_told_otherwise(home: Producer) -> None:
    with resting(home, Wakeup()) as consumer:
        for number in range(1, 4):
            put(home, number)
            assert consumer.rests
            assert not consumer.poll(10, 0.2).records
            assert not consumer.poll(10, 0).records
            consumer.end_rest()
            assert fetched(consumer, 1) == [b"%d" % number]


def test_all_that_brokers_have_is_looked_for_while_a_consumer_rests(home: Producer) -> None:
    with resting(home, Wakeup()) as consumer:
        for number in range(1, 4):
            put(home, number)
            assert consumer.rests
            records = consumer.poll_all(10, ENDLESS).records
            found = [record.value() for _, some in records for record in some]
            # Librdkafka's consumer does not ask anew.
            assert (found or fetched(consumer, 1)) == [b"%d" % number]


def test_a_notification_ends_the_wait_of_a_consumer_that_rests(home: Producer) -> None:
    wakeup = Wakeup()
    with resting(home, wakeup) as consumer:
        put(home, 1)
        for _ in range(3):
            threading.Timer(0.01, wakeup.notify).start()
            assert not consumer.poll(10, ENDLESS).records
        assert consumer.rests


def test_records_that_came_during_a_rest_end_the_wait_after_it(home: Producer) -> None:
    wakeup = Wakeup()
    with reading(home, wakeup, rest=0.05) as consumer:
        consumer.assign({TopicPartition("in", 0): BEGINNING})
        for number in range(5):
            put(home, number)
            assert fetched(consumer, 1) == [b"%d" % number]
        put(home, *range(5, 50))
        assert fetched(consumer, 45) == [b"%d" % number for number in range(5, 50)]


def test_a_consumer_that_gets_many_records_does_not_rest(home: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    wakeup = Wakeup()
    monkeypatch.setattr(rest_module, "FEW", 20)
    with reading(home, wakeup, rest=ENDLESS) as consumer:
        put(home, *range(40))
        consumer.assign({TopicPartition("in", 0): BEGINNING})
        while not (records := values(consumer, 20, ENDLESS)):
            pass
        assert consumer.rests == (len(records) < 20)
        consumer.end_rest()
        assert not consumer.rests

"""The wait of the polling thread, and whatever ends it. Waits are practically endless: a notification that is missed
hangs the test until its time limit."""

from __future__ import annotations

import gc
import os
import threading
from contextlib import closing

import pytest
from confluent_kafka import Producer

from streamsapp import TopicPartition
from streamsapp.kafka import wakeup as wakeup_module
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
    del wakeup
    gc.collect()

    for end in ends:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors that librdkafka was told to write to."""
    told: list[int] = []
    enable = wakeup_module._library.rd_kafka_queue_io_event_enable

    def tell(queue: int, descriptor: int, payload: bytes, size: int) -> None:
        told.append(descriptor)
        enable(queue, descriptor, payload, size)

    monkeypatch.setattr(wakeup_module._library, "rd_kafka_queue_io_event_enable", tell)
    return told


def test_the_pipe_that_librdkafka_writes_to_stays_open_if_its_consumer_is_never_closed(written: list[int]) -> None:
    consumer = PartitionConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, wakeup=Wakeup())
    pipe = os.fstat(written[0])
    del consumer
    gc.collect()

    assert os.path.samestat(os.fstat(written[0]), pipe)
    os.close(written[0])


def test_the_pipe_that_librdkafka_writes_to_is_closed_with_its_consumer(written: list[int]) -> None:
    consumer = PartitionConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, wakeup=Wakeup())
    consumer.close()
    consumer.close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(written[0])


def test_records_and_notifications_end_the_wait_of_a_consumer() -> None:
    home = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": f"mock-{os.getpid()}", "linger.ms": 0})
    [broker] = home.list_topics(timeout=60).brokers.values()
    wakeup = Wakeup()
    properties = {"bootstrap.servers": f"{broker.host}:{broker.port}", "group.id": "g", "auto.offset.reset": "error"}
    with closing(PartitionConsumer({**properties}, wakeup=wakeup)) as consumer:
        consumer.assign({TopicPartition("in", 0): BEGINNING})
        seen: list[bytes | None] = []
        for number in range(3):
            home.produce("in", b"%d" % number, partition=0)
            while len(seen) <= number:
                for _, records in consumer.poll(10, ENDLESS).records:
                    seen += [record.value() for record in records]
            threading.Timer(0.01, wakeup.notify).start()
            assert not consumer.poll(10, ENDLESS)
        assert seen == [b"0", b"1", b"2"]
    home.close()

"""Producers of batches, as tests make and feed them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import KafkaError

from scripted_brokers import PROPERTIES, ScriptedBrokers, ScriptedConnection, VirtualCondition
from streamsapp.kafka.producing.client import BatchProducer
from streamsapp.outgoing import OutputRecord
from streamsapp.record import InputRecord

Make = Callable[..., BatchProducer]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes producers for brokers, in virtual time; they are closed after the test."""
    with ExitStack() as stack:

        def made(
            brokers: ScriptedBrokers, *, may_write: Callable[[], bool] = lambda: True, **more: Any
        ) -> BatchProducer:
            connection = ScriptedConnection(brokers)
            properties = PROPERTIES | {name.replace("_", "."): value for name, value in more.items()}
            changed = VirtualCondition(connection.loop)
            producer = BatchProducer(properties, None, may_write, connection, changed)
            stack.callback(producer.purge)
            return producer

        yield made


def record(key: bytes, partition: int = 0, topic: str = "t", value: bytes = b"v") -> OutputRecord:
    return (topic, value, key, partition, None, None, 1, None)


def send(producer: BatchProducer, records: list[OutputRecord], refused: list[Any] | None = None) -> None:
    def note(error: KafkaError, record: InputRecord) -> None:
        assert refused is not None, error
        refused.append((error.code(), record.key()))

    left = records
    while left:
        assert not producer._sender.failed, producer.take_failures()
        left = producer.send(left, note)
    producer.poll(0)


def pass_time(producer: BatchProducer, seconds: float) -> None:
    """So many seconds pass, in which the producer does what it has to do."""
    assert isinstance(producer._connection, ScriptedConnection)
    producer._connection.loop.after(seconds)


def now(producer: BatchProducer) -> float:
    """The producer's time."""
    return producer._connection.now()


def flush(producer: BatchProducer) -> None:
    while producer.flush(1):
        assert not producer._sender.failed, producer.take_failures()

"""Clients of Kafka that a test makes, of both kinds: both are tested in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import ModuleType
from typing import Any

import pytest

from streamsapp import TopicPartition, native
from streamsapp.brokers.encoding import Reader
from streamsapp.config.client_properties import ClientProperties, chosen
from streamsapp.kafka import consumer, producer
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.producer import RecordProducer
from streamsapp.outgoing import OutputRecord
from streamsapp.record import InputRecord

PARTITIONS = 4
NOBODY = "127.0.0.1:1"


def compiled() -> ModuleType:
    """The compiled part."""
    return native


def mock_brokers(patch: pytest.MonkeyPatch) -> None:
    """Lets clients use librdkafka's mock brokers, whose answers about topics' ids have a byte that no broker sends."""
    patch.setattr(Reader, "end", lambda self: None)


def take_client(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that are made from now on are of this kind, whatever their properties say."""
    for module in (consumer, producer):
        monkeypatch.setattr(module, "chosen", lambda properties: (client, chosen(properties)[1]))


def fetched(path: ModuleType, record: InputRecord) -> InputRecord:
    """A record as it is fetched in C."""
    return native.Record(
        topic=record.topic(),
        partition=record.partition(),
        offset=record.offset(),
        key=record.key(),
        value=record.value(),
        timestamp=record.timestamp()[1],
        headers=record.headers(),
    )


@contextmanager
def producing(broker: str, failed: list[Any] | None = None, **more: str | int) -> Iterator[RecordProducer]:
    properties: ClientProperties = {
        "bootstrap.servers": broker,
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "delivery.report.only.error": True,
        "message.max.bytes": 1_000_000,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    told = [] if failed is None else failed
    made = RecordProducer(properties, lambda error, *record: told.append((error.code(), error.str(), *record)))
    with closing(made):
        yield made


def send_all(producer: RecordProducer, records: list[OutputRecord]) -> None:
    """Send records, those again that come back: a topic that is just being made may not be known yet."""
    left = records
    while left:
        left = producer.send(left)


@contextmanager
def consuming(broker: str) -> Iterator[PartitionConsumer]:
    properties: ClientProperties = {
        "bootstrap.servers": broker,
        "group.id": "readers",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "allow.auto.create.topics": False,
    }
    with closing(PartitionConsumer(properties)) as made:
        yield made


def fetched_until(reader: PartitionConsumer, done: Callable[[Fetched], object], limit: int = 100) -> list[Fetched]:
    """Returns what comes until ``done``; the test's own time limit ends it otherwise."""
    answers = [reader.poll(limit, 1.0)]
    while not done(answers[-1]):
        answers.append(reader.poll(limit, 1.0))
    return answers


def everything(broker: str, topic: str) -> tuple[dict[TopicPartition, list[Any]], dict[TopicPartition, int]]:
    """All records of a topic, with all that tasks can ask of them, and where its partitions end."""
    found: dict[TopicPartition, list[Any]] = {TopicPartition(topic, number): [] for number in range(PARTITIONS)}
    ends: dict[TopicPartition, int] = {}
    with consuming(broker) as reader:
        reader.assign(dict.fromkeys(found, 0))
        for answer in fetched_until(reader, lambda answer: ends.update(answer.ends) or len(ends) == PARTITIONS):
            for partition, records in answer.records:
                found[partition] += [
                    (
                        it.topic(),
                        it.partition(),
                        it.offset(),
                        it.timestamp(),
                        it.key(),
                        it.value(),
                        it.headers(),
                        len(it),
                    )
                    for it in records
                ]
    return found, ends

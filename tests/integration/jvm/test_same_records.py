"""The same program on the same input, by streamsapp and by Kafka Streams, writes the same records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from confluent_kafka import Message

from instances import Instances, eventually, produce
from jvm import Jvm, Topics, output_topics, topology
from kafka_cluster import Kafka
from streamsapp import StreamsConfig
from streamsapp.record import Headers

#: Out of order, with ties, empty lines, keys without text and lines without a key.
LINES: list[tuple[bytes | None, bytes | None, int]] = [
    (
        key,
        b" ".join([b"w%d" % (at * 7 % 11), b"w%d" % (at % 5), key or b"none"]) if at % 9 else b"",
        1000 + at * 37 % 250,
    )
    for at, key in enumerate([b"a", b"b", None, b"", b"long-key", b"a"] * 20)
]


def run_both(
    kafka: Kafka, instances: Instances, start_jvm: Callable[[Topics, StreamsConfig], Jvm], partitions: int
) -> list[tuple[str, str]]:
    """Pairs of topics that must be equal, ours and theirs: outputs first, then changelogs."""
    source = kafka.create_topic("lines", partitions)
    ours, theirs = Topics(source, *output_topics(kafka)), Topics(source, *output_topics(kafka))
    headers: Headers = [("trace", b"\x00\x01"), ("empty", b""), ("null", None)]
    produce(kafka, source, LINES, headers)
    our_config, their_config = instances.config(), instances.config()
    instance = instances.start(topology(ours, emit="update"), our_config)
    jvm = start_jvm(theirs, their_config)
    words = sum(len((line or b"").split(b" ")) for _, line, _ in LINES)
    both = (ours.counts, theirs.counts)
    eventually(lambda: jvm.assert_running() and all(len(kafka.read(topic)) == words for topic in both))
    # Beside equal to each other: before the first sum they are equal, too.
    eventually(lambda: last_values(kafka.read(ours.parities)) == sums())
    eventually(lambda: final(kafka.read(ours.parities)) == final(kafka.read(theirs.parities)))
    assert instance.close()
    jvm.close()
    changelogs = [
        (f"{our_config.application_id}-{store}-changelog", f"{their_config.application_id}-{store}-changelog")
        for store in ("lengths", "parities", "counts")
    ]
    return [*zip(ours[1:], theirs[1:], strict=True), *changelogs]


def last_values(messages: Iterable[Message]) -> dict[bytes | None, bytes | None]:
    """The last value of each key. There are nulls before it: the first length of a key takes 0, the initial one, from
    the other parity, which may have no sum yet (Kafka Streams, ``KTableReduce``)."""
    return {message.key(): message.value() for message in messages}


def sums() -> dict[bytes | None, bytes | None]:
    """The sum of the keys' lengths by parity, as it is written once every line has been counted."""
    lengths: Counter[bytes] = Counter()
    for key, line, _ in LINES:
        if key is not None:
            lengths[key] += len(line or b"")
    by_parity: Counter[bytes] = Counter()
    for length in lengths.values():
        by_parity[b"odd" if length % 2 else b"even"] += length
    return {parity: total.to_bytes(8, "big") for parity, total in by_parity.items()}


def records(messages: Iterable[Message]) -> list[Any]:
    """All of every record but its offset, which transaction markers shift."""
    return [(m.partition(), m.key(), m.value(), m.timestamp(), m.headers()) for m in messages]


def final(messages: Iterable[Message]) -> dict[Any, Any]:
    """Returns the records that compaction would leave."""
    return {(m.partition(), m.key()): (m.value(), m.timestamp()) for m in messages}


def test_every_record_of_every_partition_is_the_same_in_the_same_order(
    kafka: Kafka, instances: Instances, start_jvm: Callable[[Topics, StreamsConfig], Jvm]
) -> None:
    pairs = run_both(kafka, instances, start_jvm, partitions=1)
    outputs, changelogs = pairs[:3], pairs[3:]
    for our_topic, their_topic in outputs:
        assert records(kafka.read(our_topic)) == records(kafka.read(their_topic))
    for our_topic, their_topic in changelogs:
        assert final(kafka.read(our_topic)) == final(kafka.read(their_topic))


@pytest.mark.long
def test_outputs_and_changelogs_compact_to_the_same_where_tasks_race(
    kafka: Kafka, instances: Instances, start_jvm: Callable[[Topics, StreamsConfig], Jvm]
) -> None:
    for our_topic, their_topic in run_both(kafka, instances, start_jvm, partitions=3):
        assert final(kafka.read(our_topic)) == final(kafka.read(their_topic))

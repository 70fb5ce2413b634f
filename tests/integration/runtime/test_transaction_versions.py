"""Exactly once with both ways to have partitions and offsets admitted to a transaction. The cluster's agreed version of
transactions decides which way is used (KIP-890)."""

from __future__ import annotations

from collections import Counter

import pytest
from kafka import KafkaAdminClient

from batch_producers import flush, send
from instances import Instances, counts_per_key, end_offsets, eventually, produce
from kafka_cluster import Kafka
from killable import word_count
from streamsapp import TopicPartition
from streamsapp.config.client_properties import ClientProperties
from streamsapp.kafka.producing.client import BatchProducer
from streamsapp.local.broker import EmbeddedBroker

EXPLICIT, IMPLICIT = 1, 2


def agree_on(version: int, broker: EmbeddedBroker) -> None:
    """The cluster goes over to a version of transactions, which may be an older one."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        kind = "safe_downgrade" if version == EXPLICIT else "upgrade"
        assert admin.update_features({"transaction.version": (kind, version)}) == {"transaction.version": "OK"}
        eventually(lambda: admin.describe_features()["transaction.version"]["finalized"][1] == version)
    finally:
        admin.close()


def transactional(broker: EmbeddedBroker) -> BatchProducer:
    properties: ClientProperties = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "id"}
    return BatchProducer(properties)


def test_instances_go_on_while_their_cluster_goes_over_to_another_version_and_back(
    own_broker: EmbeddedBroker, there: Instances
) -> None:
    agree_on(EXPLICIT, own_broker)
    kafka = there.kafka
    source, sink = kafka.create_topic("words", partitions=2), kafka.create_topic("counts", partitions=2)
    config = there.config(processing_guarantee="exactly_once")
    truth = Counter[bytes]()

    def count(number: int) -> None:
        words = [b"word%d" % (each % 700) for each in range(number)]
        truth.update(words)
        produce(kafka, source, [(None, word, 1000) for word in words])
        eventually(lambda: sum(map(len, counts_per_key(kafka.read(sink)).values())) == truth.total())

    first = there.start(word_count(source, sink), config)
    count(3_000)
    agree_on(IMPLICIT, own_broker)
    count(3_000)
    assert first.close()
    second = there.start(word_count(source, sink), config)
    count(3_000)
    agree_on(EXPLICIT, own_broker)
    count(3_000)
    assert second.close()

    updates = counts_per_key(kafka.read(sink))
    assert all(counts == list(range(1, truth[key] + 1)) for key, counts in updates.items())
    assert updates.keys() == truth.keys()


@pytest.mark.long
@pytest.mark.timeout(900)  # so many answers take minutes on a machine that has other work
def test_an_identity_whose_epochs_are_used_up_is_followed_by_another(own_broker: EmbeddedBroker) -> None:
    """Each transaction takes one of 32,767."""
    topic = Kafka(own_broker.bootstrap_servers).create_topic("out", partitions=1)
    producer = transactional(own_broker)
    written = []
    try:
        producer.init_transactions(30)
        identity = producer._transaction.producer.id
        for number in range(33_000):
            producer.begin_transaction()
            producer._transaction._partitions.add((topic, 0))  # aborted without a record: that takes no time
            if number % 1_000 and producer._transaction.producer.epoch not in (0, 32_766):
                producer.abort_transaction(30)
                continue
            written.append(b"%d" % number)
            send(producer, [(topic, written[-1], b"k", 0, None, None, 1, None)])
            flush(producer)
            producer.commit_transaction(30)
        assert producer._transaction.producer.id != identity
    finally:
        producer.purge()

    assert [message.value() for message in Kafka(own_broker.bootstrap_servers).read(topic)] == written


@pytest.mark.parametrize("version", [EXPLICIT, IMPLICIT])
def test_a_broker_takes_every_way_to_end_a_transaction(version: int, own_broker: EmbeddedBroker) -> None:
    agree_on(version, own_broker)
    kafka = Kafka(own_broker.bootstrap_servers)
    topic = kafka.create_topic("out", partitions=1)
    producer, ends = transactional(own_broker), dict[bytes, int | None]()
    try:
        producer.init_transactions(30)
        assert producer._transaction.implicit is (version == IMPLICIT)
        for text, committed in ((b"1", True), (b"2", False), (b"", False), (b"", True), (b"3", True)):
            producer.begin_transaction()
            send(producer, [(topic, text, text, 0, None, None, 1, None)] if text else [])
            flush(producer)
            ends[text] = producer.end_of(TopicPartition(topic, 0))
            producer._transaction._partitions.add((topic, 0))  # also where nothing was written in the end
            if committed and (text or version == IMPLICIT):
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
    finally:
        producer.purge()

    # A commit is answered before the broker has written its markers.
    eventually(lambda: [message.value() for message in kafka.read(topic)] == [b"1", b"3"])
    assert end_offsets(kafka, topic) > 2
    # The mark of a transaction takes an offset, too.
    assert ends[b"2"] == 3
    assert [(message.offset() or 0) + 1 for message in kafka.read(topic)] == [ends[b"1"], ends[b"3"]]

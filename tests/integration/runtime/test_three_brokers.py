"""Partitions have leaders on three real brokers, which are killed in turn under load: every record counts once, over
plain connections and over SASL_SSL. `make test` has a soak of that."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from instances import TIMEOUT, Instances, counts_per_key, eventually, last_counts
from killable import word_count
from streamsapp import ClientState, TopicPartition
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.kafka.wakeup import Wakeup
from streamsapp.runtime.changelog_positions import ends
from three_brokers import SteadyWriter, ThreeBrokers

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

PARTITIONS = 6
#: The brokers that the test kills, one after the other.
KILLED = (2, 3, 2)
WELL = (ClientState.RUNNING, ClientState.REBALANCING)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    with ThreeBrokers(tmp_path_factory.mktemp("brokers")) as three:
        yield three


def moved(three: ThreeBrokers, topic: str) -> bool:
    return any(len(leaders - {-1}) > 1 for name, leaders in three.leaders.items() if name.topic == topic)


def test_a_consumer_gets_every_record_once_and_in_order_while_leaders_move(three: ThreeBrokers) -> None:
    topic = three.kafka.create_topic("numbers", PARTITIONS, replicas=3)
    consumer = PartitionConsumer(
        {
            "bootstrap.servers": three.kafka.bootstrap_servers,
            "group.id": "numbers",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
        },
        wakeup=Wakeup(),
    )
    consumer.assign({TopicPartition(topic, each): 0 for each in range(PARTITIONS)})
    got: defaultdict[int, list[int]] = defaultdict(list)

    def poll() -> None:
        fetched = consumer.poll(1000, 0.1)
        assert fetched.out_of_range == []
        for partition, records in fetched.records:
            got[partition.partition] += [int(it.value() or b"") for it in records]

    def numbered(number: int) -> tuple[None, bytes, int]:
        return None, b"%d" % number, number % PARTITIONS

    with SteadyWriter(three.kafka, topic, numbered) as writer, ThreadPoolExecutor(1) as others:
        for broker in KILLED:
            replaced = others.submit(three.replace, broker, topic)
            while not replaced.done():
                poll()
            replaced.result()

    def all_there() -> bool:
        poll()
        return sum(map(len, got.values())) >= writer.written

    eventually(all_there)
    consumer.close()

    assert moved(three, topic)
    assert got == {each: list(range(each, writer.written, PARTITIONS)) for each in range(PARTITIONS)}


def test_changelogs_end_where_those_who_lead_them_now_say(three: ThreeBrokers) -> None:
    kafka = three.kafka
    topic = kafka.create_topic("changelog", PARTITIONS, replicas=3)
    admin = TopicAdmin({"bootstrap.servers": kafka.bootstrap_servers})
    changelogs = [TopicPartition(topic, each) for each in range(PARTITIONS)]
    for each in range(PARTITIONS):
        kafka.produce(topic, [(None, b"")], each)
    assert ends(admin, changelogs)[1] == dict.fromkeys(changelogs, 1)

    with ThreadPoolExecutor(1) as others:
        with three.frozen(2, topic):
            for each in range(PARTITIONS):
                kafka.produce(topic, [(None, b"")], each)
            found = others.submit(ends, admin, changelogs)
            wait([found], 5)
        # A request to the broker that stood still is answered by it now.
        assert found.result(TIMEOUT)[1] == dict.fromkeys(changelogs, 2)
    admin.close()


@pytest.mark.parametrize(
    ("guarantee", "secured", "client"),
    [
        ("exactly_once", False, "streamsapp"),
        ("at_least_once", False, "streamsapp"),
        ("exactly_once", True, "streamsapp"),
        ("at_least_once", True, "streamsapp"),
        ("exactly_once", True, "librdkafka"),
    ],
)
def test_counts_are_right_while_leaders_move(
    guarantee: str, secured: bool, client: str, three: ThreeBrokers, tmp_path: Path
) -> None:
    kafka = three.kafka
    source, sink = (kafka.create_topic(name, PARTITIONS, replicas=3) for name in ("words", "counts"))
    instances = Instances(kafka, tmp_path)
    connection: dict[str, Any] = {}
    if secured:
        connection = {"bootstrap_servers": three.secured_servers, "kafka": three.secured()}
    config = instances.config(threads=2, processing_guarantee=guarantee, client=client, **connection)
    instance = instances.start(word_count(source, sink), config)

    def word(number: int) -> bytes:
        return b"word%d" % (number * 7919 % 1000)

    with SteadyWriter(kafka, source, lambda number: (None, word(number), number % PARTITIONS)) as writer:
        for broker in KILLED:
            three.replace(broker, source)
            assert instance.state in WELL
            time.sleep(2)
    truth = Counter(map(word, range(writer.written)))

    def counted() -> bool:
        assert instance.state in WELL, instance.wait(0)
        counts = last_counts(kafka.read(sink))
        return all(counts.get(each, 0) >= count for each, count in truth.items())

    eventually(counted)
    assert instance.close()
    instances.close()
    final = last_counts(kafka.read(sink))
    assert moved(three, source)
    # Each broker writes the markers of a transaction by itself: the changelog's may come later than the results'.
    eventually(lambda: last_counts(kafka.read(f"{config.application_id}-counts-changelog")) == final)
    if guarantee == "exactly_once":
        assert final == truth
        assert all(counts == list(range(1, truth[key] + 1)) for key, counts in counts_per_key(kafka.read(sink)).items())

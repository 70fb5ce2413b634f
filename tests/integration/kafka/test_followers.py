"""Three real brokers in racks: a consumer reads from the one in its own (KIP-392), also while that one goes and comes,
and leaders move with their epochs (KIP-320)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from instances import eventually
from streamsapp import TopicPartition
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.fetching.fetcher import Fetcher
from streamsapp.kafka.fetching.partition import FetchedPartition
from streamsapp.kafka.wakeup import Wakeup
from three_brokers import SteadyWriter, ThreeBrokers

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

PARTITIONS = 6
#: The broker in the consumer's rack.
NEAREST = 3


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    with ThreeBrokers(tmp_path_factory.mktemp("brokers")) as three:
        yield three


class Reading:
    """A consumer in a rack, and the numbers that it got of each partition."""

    def __init__(self, three: ThreeBrokers, topic: str, rack: str, *, secured: bool = False) -> None:
        plain = {"bootstrap.servers": three.kafka.bootstrap_servers}
        by_tls = {"bootstrap.servers": three.secured_servers, **three.secured()}
        self.consumer = PartitionConsumer(
            {
                **(by_tls if secured else plain),
                "group.id": topic,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
                "client.rack": rack,
            },
            wakeup=Wakeup(),
        )
        self.consumer.assign({TopicPartition(topic, each): 0 for each in range(PARTITIONS)})
        self.got: defaultdict[int, list[int]] = defaultdict(list)

    def poll(self) -> None:
        fetched = self.consumer.poll(1000, 0.1)
        assert fetched.out_of_range == []
        for partition, records in fetched.records:
            self.got[partition.partition] += [int(it.value() or b"") for it in records]

    @property
    def partitions(self) -> Collection[FetchedPartition]:
        assert isinstance(self.consumer._client, Fetcher)
        return self.consumer._client._assignment.partitions.values()

    def asks(self, brokers: set[int]) -> bool:
        """Poll, and return whether these brokers are asked for all partitions."""
        self.poll()
        return {each.source for each in self.partitions} == brokers

    def has(self, count: int) -> bool:
        self.poll()
        return sum(map(len, self.got.values())) >= count


def numbered(number: int) -> tuple[None, bytes, int]:
    return None, b"%d" % number, number % PARTITIONS


@pytest.mark.parametrize("secured", [False, True], ids=["plaintext", "sasl-ssl"])
def test_records_come_from_the_broker_in_the_rack_once_and_in_order_while_brokers_go_and_come(
    secured: bool, three: ThreeBrokers
) -> None:
    topic = three.kafka.create_topic("numbers", PARTITIONS, replicas=3)
    reading = Reading(three, topic, f"rack{NEAREST}", secured=secured)
    with SteadyWriter(three.kafka, topic, numbered) as writer, ThreadPoolExecutor(1) as others:
        eventually(lambda: reading.asks({NEAREST}), "the broker in the rack is asked")
        for broker in (NEAREST, 2):
            replaced = others.submit(three.replace, broker, topic)
            while not replaced.done():
                reading.poll()
            replaced.result()
            eventually(lambda: reading.asks({NEAREST}), "the broker in the rack is asked again")

    eventually(lambda: reading.has(writer.written), "all records")
    reading.consumer.close()

    assert any(len(leaders - {-1}) > 1 for name, leaders in three.leaders.items() if name.topic == topic)
    assert reading.got == {each: list(range(each, writer.written, PARTITIONS)) for each in range(PARTITIONS)}


def test_a_rack_without_a_broker_has_leaders_asked(three: ThreeBrokers) -> None:
    topic = three.kafka.create_topic("elsewhere", PARTITIONS, replicas=3)
    reading = Reading(three, topic, "rack9")
    with SteadyWriter(three.kafka, topic, numbered) as writer:
        eventually(lambda: reading.has(100), "some records")
    eventually(lambda: reading.has(writer.written), "all records")
    leaders = {each.leader for each in reading.partitions}
    assert reading.asks(leaders)
    reading.consumer.close()

"""Three real brokers, so that partitions have leaders that move, and a writer that does not mind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import PartitionMetadata

from continuous_input import Repeated
from kafka_cluster import START_TIMEOUT, Kafka
from secured_broker import by_scram, introduce, key_store, logins
from streamsapp import TopicPartition
from streamsapp.kafka.admin import Admin
from streamsapp.local.broker import EmbeddedBroker, free_port

_HOST = "127.0.0.1"
_COUNT = 3
#: Of brokers that keep three copies of everything.
REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "3000",
    # The controller stays, while the registration of a broker that was killed is to expire soon.
    "broker.session.timeout.ms": "2000",
    # A client that has a rack is sent to the broker there (KIP-392).
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
_PATIENCE = 60.0


def placed(number: int, listeners: str, controller: int) -> dict[str, str]:
    """A broker's settings for its place in a cluster; the first one is the controller too, on a port of its own."""
    own = {"node.id": f"{number}", "controller.quorum.voters": f"1@{_HOST}:{controller}"}
    if number == 1:
        return own | {"listeners": f"{listeners},CONTROLLER://{_HOST}:{controller}"}
    return own | {"listeners": listeners, "process.roles": "broker"}


class ThreeBrokers:
    """A context: a controller that is a broker as well, and two more brokers that may go and come, each in a rack."""

    def __init__(self, directory: Path) -> None:
        controller = free_port()
        directory.mkdir(parents=True, exist_ok=True)
        self._certificate = directory / "broker.pem"
        secured = {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            **logins("sasl_ssl"),
            **key_store(directory, self._certificate),
        }
        secured_ports = [free_port() for _ in range(_COUNT)]
        settings = REPLICATED | secured
        self.brokers: dict[int, EmbeddedBroker] = {}
        for number in range(1, 1 + _COUNT):
            port = free_port()
            both = f"PLAINTEXT://{_HOST}:{port},SASL_SSL://{_HOST}:{secured_ports[number - 1]}"
            own = placed(number, both, controller) | {"advertised.listeners": both, "broker.rack": f"rack{number}"}
            self.brokers[number] = EmbeddedBroker(
                directory / f"{number}", port, properties=settings | own, start_timeout=START_TIMEOUT
            )
        self.kafka = Kafka(",".join(each.bootstrap_servers for each in self.brokers.values()))
        # It turns to another broker as soon as a question to one that stands still was given up.
        self._asking = Admin({"bootstrap.servers": self.kafka.bootstrap_servers, "socket.timeout.ms": "2000"})
        #: By SASL_SSL, with the properties of ``secured``.
        self.secured_servers = ",".join(f"{_HOST}:{port}" for port in secured_ports)
        #: Every leader that each partition was seen to have.
        self.leaders: dict[TopicPartition, set[int]] = {}

    def __enter__(self) -> ThreeBrokers:
        with ExitStack() as stack, ThreadPoolExecutor(_COUNT) as starting:
            for each in self.brokers.values():
                stack.callback(each.stop)
            list(starting.map(EmbeddedBroker.start, self.brokers.values()))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def secured(self) -> dict[str, str]:
        """A client's properties for the connection by SASL_SSL to ``secured_servers``."""
        introduce(self.kafka.bootstrap_servers, "anna", "secret")
        return by_scram(self._certificate)

    def replace(self, number: int, topic: str) -> None:
        """Kill a broker, let the others lead its partitions, and start it again until it has all of a topic."""
        self.brokers[number].kill()
        self._until(topic, lambda leader, in_sync: leader not in (-1, number))
        self.brokers[number].start()
        self._until(topic, lambda leader, in_sync: len(in_sync) == _COUNT)

    @contextmanager
    def frozen(self, number: int, topic: str) -> Iterator[None]:
        """Have a broker stand still, and the others lead its partitions of a topic, until the context ends."""
        pid = self.brokers[number].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            self._until(topic, lambda leader, in_sync: leader not in (-1, number))
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def _until(self, topic: str, holds: Callable[[int, list[int]], bool]) -> None:
        give_up = time.monotonic() + _PATIENCE
        while True:
            found: dict[int, PartitionMetadata] = {}
            with suppress(KafkaException):  # a broker was asked that does not answer
                found = self._asking.list_topics(topic, timeout=5).topics[topic].partitions
            for partition, each in found.items():
                self.leaders.setdefault(TopicPartition(topic, partition), set()).add(each.leader)
            if found and all(holds(each.leader, each.isrs) for each in found.values()):
                return
            assert time.monotonic() < give_up, found
            time.sleep(0.1)


class SteadyWriter(Repeated):
    """Records are written, each once and those of a partition in their order."""

    def __init__(self, kafka: Kafka, topic: str, record: Callable[[int], tuple[bytes | None, bytes, int]]) -> None:
        """Takes the function that makes the key, the value and the partition of a record from its number."""
        super().__init__(self._some, 0.005)
        # With one request on its way: see tests/soak/load.py.
        self._producer = Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True, "max.in.flight": 1}
        )
        self._topic = topic
        self._record = record
        self._errors: list[object] = []
        self.written = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        assert self._producer.flush(_PATIENCE) == 0
        assert self._errors == []

    def _some(self) -> None:
        for _ in range(20):
            key, value, partition = self._record(self.written)
            self._producer.produce(self._topic, value, key, partition, on_delivery=self._delivered)
            self.written += 1
        self._producer.poll(0)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self._errors.append(error)

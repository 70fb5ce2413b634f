"""Each kind of connection to a secured broker, and a consumer that reads a partition over it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from confluent_kafka import Producer

from kafka_cluster import Kafka
from secured_broker import SecuredBroker
from streamsapp import TopicPartition
from streamsapp.config.client_properties import ClientProperties
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.fetching.fetcher import Fetcher

#: Longer than anything takes that works, in seconds.
TIMEOUT = 100.0
PROPERTIES: ClientProperties = {"auto.offset.reset": "error", "enable.auto.commit": False, "group.id": "g"}

Properties: TypeAlias = dict[str, str]
Way: TypeAlias = Callable[[SecuredBroker, Path], Properties]


def plaintext(broker: SecuredBroker, folder: Path) -> Properties:
    return {"bootstrap.servers": broker.bootstrap_servers}


def tls(broker: SecuredBroker, folder: Path) -> Properties:
    return {
        "bootstrap.servers": f"127.0.0.1:{broker.tls_port}",
        "security.protocol": "SSL",
        "ssl.ca.location": str(broker.certificate),
    }


def mutual(broker: SecuredBroker, folder: Path) -> Properties:
    issued = broker.client_authority.issue_cert("anna")
    issued.private_key_and_cert_chain_pem.write_to_path(str(folder / "anna.pem"))
    shown = dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), str(folder / "anna.pem"))
    return {**tls(broker, folder), **shown, "bootstrap.servers": f"127.0.0.1:{broker.mutual_port}"}


def login(mechanism: str, *, secured: bool = True) -> Way:
    def way(broker: SecuredBroker, folder: Path) -> Properties:
        port = broker.sasl_tls_port if secured else broker.sasl_port
        return {
            **(tls(broker, folder) if secured else {}),
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_SSL" if secured else "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            **(TOKEN if mechanism == "OAUTHBEARER" else {"sasl.username": "anna", "sasl.password": "secret"}),
        }

    return way


TOKEN = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=anna"}
WAYS: dict[str, Way] = {
    "plaintext": plaintext,
    "tls": tls,
    "mutual-tls": mutual,
    "plain": login("PLAIN"),
    "scram-256": login("SCRAM-SHA-256"),
    "scram-512": login("SCRAM-SHA-512"),
    "scram-512-without-tls": login("SCRAM-SHA-512", secured=False),
    "oauthbearer": login("OAUTHBEARER"),
}


class Reading:
    """A consumer, and the offsets that it has delivered."""

    def __init__(self, topic: str, properties: Properties) -> None:
        self.consumer = PartitionConsumer({**PROPERTIES, **properties})
        self.consumer.assign({TopicPartition(topic, 0): 0})
        self.offsets: list[int] = []

    @property
    def fetches_itself(self) -> bool:
        return isinstance(self.consumer._client, Fetcher)

    def until(self, count: int) -> None:
        give_up = time.monotonic() + TIMEOUT
        while len(self.offsets) < count:
            assert time.monotonic() < give_up, f"{len(self.offsets)} of {count} records came"
            fetched = self.consumer.poll(1000, 1.0)
            told = (each.offset() for _, records in fetched.records for each in records)
            self.offsets += [offset for offset in told if offset is not None]


Begin: TypeAlias = Callable[[str, Properties], Reading]


def write(kafka: Kafka, topic: str, count: int, size: int = 1000) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, bytes([number % 256]) * size)
    assert producer.flush(TIMEOUT) == 0

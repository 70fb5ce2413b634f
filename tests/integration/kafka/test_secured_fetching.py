"""Records fetched over each kind of connection, by the project's own fetcher."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from confluent_kafka import Producer

from kafka_cluster import Kafka
from secured_broker import SESSION, SecuredBroker
from streamsapp import TopicPartition
from streamsapp.brokers.errors import NotSentError, RefusedError, RefusedTlsError
from streamsapp.brokers.opening import open_connection
from streamsapp.brokers.security import Security
from streamsapp.config.client_properties import ClientProperties
from streamsapp.kafka.consumer import PartitionConsumer

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
        return self.consumer._fetching is self.consumer._fetcher

    def until(self, count: int) -> None:
        give_up = time.monotonic() + TIMEOUT
        while len(self.offsets) < count:
            assert time.monotonic() < give_up, f"{len(self.offsets)} of {count} records came"
            fetched = self.consumer.poll(1000, 1.0)
            told = (each.offset() for _, records in fetched.records for each in records)
            self.offsets += [offset for offset in told if offset is not None]


@pytest.fixture
def reading() -> Iterator[Callable[[str, Properties], Reading]]:
    """Makes consumers that are closed after the test."""
    made: list[Reading] = []

    def begin(topic: str, properties: Properties) -> Reading:
        made.append(Reading(topic, properties))
        return made[-1]

    yield begin
    for each in made:
        each.consumer.close()


Begin: TypeAlias = Callable[[str, Properties], Reading]


def write(kafka: Kafka, topic: str, count: int, size: int = 1000) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, bytes([number % 256]) * size)
    assert producer.flush(TIMEOUT) == 0


@pytest.mark.parametrize("way", WAYS)
def test_each_record_is_fetched_once_over_every_connection(
    kafka: Kafka, broker: SecuredBroker, reading: Begin, tmp_path: Path, way: str
) -> None:
    topic = kafka.create_topic()
    write(kafka, topic, 3000)
    one = reading(topic, WAYS[way](broker, tmp_path))

    one.until(3000)

    assert one.offsets == list(range(3000))
    assert one.fetches_itself


def test_a_login_that_ends_is_renewed_before_and_nothing_is_lost(
    kafka: Kafka, broker: SecuredBroker, reading: Begin, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka.create_topic()
    one = reading(topic, WAYS["scram-256"](broker, tmp_path))
    write(kafka, topic, 10)
    one.until(10)
    assert one.consumer._fetcher is not None
    (first,) = one.consumer._fetcher._connections._brokers.values()
    caplog.clear()

    end = time.monotonic() + 2 * SESSION / 1000
    while time.monotonic() < end:
        write(kafka, topic, 1)
        one.until(len(one.offsets) + 1)

    assert one.offsets == list(range(len(one.offsets)))
    assert first not in one.consumer._fetcher._connections._brokers.values()
    assert [each for each in caplog.messages if "goes on by itself" in each] == []


@pytest.mark.parametrize(
    ("way", "changed", "kind", "said"),
    [
        ("tls", {"ssl.ca.location": "probe"}, RefusedTlsError, r"not believed.*ssl\.ca\.location"),
        ("plaintext", {"security.protocol": "SSL"}, NotSentError, r"without TLS: check security\.protocol"),
        ("tls", {"security.protocol": "PLAINTEXT"}, NotSentError, r"TLS.*security\.protocol"),
        ("mutual-tls", {"ssl.certificate.location": "", "ssl.key.location": ""}, NotSentError, r"ssl\.certificate"),
        ("plain", {"sasl.password": "wrong"}, RefusedError, r"refuses the credentials.*sasl\.password"),
        ("scram-512", {"sasl.password": "wrong"}, RefusedError, r"refuses the credentials.*sasl\.password"),
        ("scram-512", {"sasl.username": "berta"}, RefusedError, r"refuses the credentials.*sasl\.username"),
        ("oauthbearer", {"sasl.oauthbearer.config": "principal=anna lifeSeconds=-900"}, RefusedError, r"oauthbearer"),
        ("plaintext", {"security.protocol": "SASL_PLAINTEXT", **TOKEN}, RefusedError, r"wants no SASL"),
    ],
)
def test_a_connection_that_is_refused_says_why(
    broker: SecuredBroker, tmp_path: Path, way: str, changed: Properties, kind: type[Exception], said: str
) -> None:
    changed = {"sasl.mechanism": "OAUTHBEARER", **changed} if way == "plaintext" else changed
    properties = {key: value for key, value in {**WAYS[way](broker, tmp_path), **changed}.items() if value}
    host, _, port = properties["bootstrap.servers"].rpartition(":")

    with pytest.raises(kind, match=said):
        open_connection((host, int(port)), Security.of({**properties}), "me", TIMEOUT)

"""Records fetched over each kind of connection, by the project's own fetcher."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kafka_cluster import Kafka
from secured_broker import SESSION, SecuredBroker
from secured_reading import TIMEOUT, TOKEN, WAYS, Begin, Properties, write
from streamsapp.brokers.errors import NotSentError, RefusedError, RefusedTlsError
from streamsapp.brokers.opening import open_connection
from streamsapp.brokers.security import Security
from streamsapp.kafka.fetching.fetcher import Fetcher


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
    assert isinstance(one.consumer._client, Fetcher)
    connections = one.consumer._client._connections
    (first,) = connections._asked.values()
    caplog.clear()

    end = time.monotonic() + 2 * SESSION / 1000
    while time.monotonic() < end:
        write(kafka, topic, 1)
        one.until(len(one.offsets) + 1)

    assert one.offsets == list(range(len(one.offsets)))
    assert first not in connections._asked.values()
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

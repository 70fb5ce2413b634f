"""Which of librdkafka's properties a fetcher knows, what it makes of them, and what leaves fetching to librdkafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamsapp.brokers.security import Security
from streamsapp.config import StreamsConfig, client_properties
from streamsapp.config.client_properties import ClientProperties
from streamsapp.kafka.fetching.settings import FetchSettings, fetch_settings, left_to_librdkafka

DEFAULTS = FetchSettings(
    client_id="rdkafka",
    security=Security("PLAINTEXT"),
    committed_only=True,
    tells_ends=False,
    checked=True,
    wait=0.5,
    least=1,
    backoff=0.5,
    answer=4 << 20,
    partition=1 << 20,
    queue=64 << 20,
    most=100_000_000,
    has_handler=False,
)
#: Properties that change nothing: others answer to them.
OF_OTHERS: ClientProperties = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "bootstrap.servers": "b:1",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "fetch.queue.backoff.ms": 10,
    "group.id": "g",
    "group.instance.id": "i",
    "heartbeat.interval.ms": 100,
    "max.poll.interval.ms": 1000,
    "queued.min.messages": 7,
    "security.protocol": "plaintext",
    "session.timeout.ms": 1000,
}
#: Without them librdkafka goes on at other offsets, and commits, by itself.
NEEDED: ClientProperties = {"auto.offset.reset": "error", "enable.auto.commit": False}


def changed(properties: ClientProperties) -> dict[str, Any]:
    """The settings that are not the defaults."""
    settings = fetch_settings(properties)
    return {name: value for name, value in vars(settings).items() if value != getattr(DEFAULTS, name)}


def test_defaults_are_those_of_librdkafka() -> None:
    assert fetch_settings({}) == DEFAULTS
    assert left_to_librdkafka(NEEDED) is None


@pytest.mark.parametrize("key", NEEDED)
def test_what_librdkafka_does_unless_it_is_told_otherwise_leaves_fetching_to_it(key: str) -> None:
    assert left_to_librdkafka({other: value for other, value in NEEDED.items() if other != key}) == key


@pytest.mark.parametrize(
    ("key", "value", "setting"),
    [
        ("client.id", "me", {"client_id": "me"}),
        ("isolation.level", "read_uncommitted", {"committed_only": False}),
        ("isolation.level", "READ_UNCOMMITTED", {"committed_only": False}),
        ("isolation.level", "Read_Committed", {}),
        ("check.crcs", True, {}),
        ("check.crcs", False, {"checked": False}),
        ("check.crcs", "FALSE", {"checked": False}),
        ("enable.partition.eof", True, {"tells_ends": True}),
        ("enable.partition.eof", "true", {"tells_ends": True}),
        ("enable.partition.eof", "False", {}),
        ("fetch.wait.max.ms", 20, {"wait": 0.02}),
        ("fetch.wait.max.ms", "0", {"wait": 0.0}),
        ("fetch.min.bytes", "1000", {"least": 1000}),
        ("fetch.error.backoff.ms", 7, {"backoff": 0.007}),
        ("fetch.max.bytes", 1000, {"answer": 1000}),
        ("fetch.max.bytes", 2**31 - 1, {}),
        ("fetch.message.max.bytes", "5", {"partition": 5}),
        ("max.partition.fetch.bytes", 6, {"partition": 6}),
        ("queued.max.messages.kbytes", 3, {"queue": 3072}),
        ("receive.message.max.bytes", 1000, {"most": 1000}),
    ],
)
def test_a_known_property_is_a_setting(key: str, value: str | int, setting: dict[str, Any]) -> None:
    assert left_to_librdkafka(NEEDED | {key: value}) is None
    assert changed({key: value}) == setting


@pytest.mark.parametrize("key", OF_OTHERS)
def test_what_is_for_others_leaves_fetching_here_and_changes_nothing(key: str) -> None:
    assert left_to_librdkafka(NEEDED | {key: OF_OTHERS[key]}) is None
    assert changed({key: OF_OTHERS[key]}) == {}


def test_the_older_name_comes_first_in_any_order() -> None:
    properties: ClientProperties = {"max.partition.fetch.bytes": 6, "fetch.message.max.bytes": 5}

    assert changed(properties) == changed(dict(reversed(properties.items()))) == {"partition": 5}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("auto.offset.reset", "earliest"),
        ("check.crcs", "1"),
        ("client.rack", "r"),
        ("debug", "fetch"),
        ("enable.auto.commit", True),
        ("enable.partition.eof", "yes"),
        ("fetch.error.backoff.ms", -1),
        ("fetch.error.backoff.ms", 300_001),
        ("fetch.max.bytes", -1),
        ("fetch.max.bytes", 2**31),
        ("fetch.message.max.bytes", 0),
        ("fetch.message.max.bytes", 1_000_000_001),
        ("fetch.min.bytes", 0),
        ("fetch.min.bytes", 100_000_001),
        ("fetch.min.bytes", "many"),
        ("fetch.min.bytes", ""),
        ("fetch.wait.max.ms", -1),
        ("fetch.wait.max.ms", 300_001),
        ("fetch.wait.max.ms", "0.5"),
        ("interceptor.classes", "C"),
        ("isolation.level", "serializable"),
        ("max.partition.fetch.bytes", 0),
        ("max.partition.fetch.bytes", 1_000_000_001),
        ("metadata.max.age.ms", 1000),
        ("queued.max.messages.kbytes", 0),
        ("queued.max.messages.kbytes", 2_097_152),
        ("receive.message.max.bytes", 999),
        ("receive.message.max.bytes", 2**31),
        ("socket.timeout.ms", 1000),
        ("sasl.kerberos.keytab", "/keytab"),
        ("sasl.mechanism", "GSSAPI"),
        ("sasl.oauthbearer.assertion.algorithm", "RS256"),
        ("security.protocol", "tls"),
        ("ssl.engine.id", "dynamic"),
        ("ssl.keystore.location", "/store.p12"),
        ("statistics.interval.ms", 1000),
    ],
)
def test_any_other_property_or_value_leaves_fetching_to_librdkafka(key: str, value: str | int) -> None:
    assert left_to_librdkafka(OF_OTHERS | {key: value}) == key


@pytest.mark.parametrize("protocol", ["ssl", "SSL", "sasl_ssl", "SASL_PLAINTEXT"])
def test_connections_that_are_secured_are_made_here(protocol: str) -> None:
    properties: ClientProperties = {
        "security.protocol": protocol,
        "enable.ssl.certificate.verification": True,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "p",
    }

    assert left_to_librdkafka(NEEDED | properties) is None
    security = fetch_settings(properties).security
    assert security.protocol == protocol.upper()
    assert (security.tls is not None) == protocol.upper().endswith("SSL")
    assert (security.login is not None) == protocol.upper().startswith("SASL")


@pytest.mark.parametrize(
    ("key", "least", "greatest"),
    [
        ("fetch.error.backoff.ms", 0, 300_000),
        ("fetch.max.bytes", 0, 2**31 - 1),
        ("fetch.message.max.bytes", 1, 1_000_000_000),
        ("fetch.min.bytes", 1, 100_000_000),
        ("fetch.wait.max.ms", 0, 300_000),
        ("max.partition.fetch.bytes", 1, 1_000_000_000),
        ("queued.max.messages.kbytes", 1, 2_097_151),
        ("receive.message.max.bytes", 1_000, 2**31 - 1),
    ],
)
def test_the_limits_of_numbers_are_known(key: str, least: int, greatest: int) -> None:
    assert left_to_librdkafka(NEEDED | {key: least}) is None
    assert left_to_librdkafka(NEEDED | {key: str(greatest)}) is None


@pytest.mark.parametrize(
    "of", [client_properties.main_consumer, client_properties.restore_consumer, client_properties.global_consumer]
)
def test_consumers_of_an_instance_fetch_here_unless_the_user_sets_something_else(
    of: Callable[[StreamsConfig], ClientProperties],
) -> None:
    def left(kafka: dict[str, Any]) -> str | None:
        return left_to_librdkafka(of(StreamsConfig(application_id="a", bootstrap_servers="b:1", kafka=kafka)))

    assert left({}) is None
    assert left({"fetch.min.bytes": 100, "producer.debug": "msg"}) is None
    assert left({"consumer.client.rack": "r"}) == "client.rack"


@pytest.mark.parametrize(
    ("partitions", "each"),
    [
        (0, 1 << 20),
        (1, 1 << 20),
        (32, 1 << 20),
        (33, (64 << 20) // 66),
        (64, 1 << 19),
        (2048, 1 << 14),
        (9999, 1 << 14),
    ],
)
def test_each_of_many_partitions_is_asked_for_less(partitions: int, each: int) -> None:
    assert DEFAULTS.of_each(partitions) == each


def test_a_partition_is_not_asked_for_more_than_it_was_set_to() -> None:
    settings = fetch_settings({"fetch.message.max.bytes": 1000})

    assert [settings.of_each(partitions) for partitions in (1, 64, 9999)] == [1000] * 3

"""Which of librdkafka's properties a fetcher knows, and what it makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from streamsapp.brokers.reaching import Reaching
from streamsapp.brokers.security import Security
from streamsapp.config.client_properties import ClientProperties
from streamsapp.kafka.fetching.settings import FetchSettings, fetch_settings

DEFAULTS = FetchSettings(
    client_id="rdkafka",
    security=Security("PLAINTEXT"),
    committed_only=True,
    rack="",
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
    reaching=Reaching(),
    metadata_age=300.0,
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


def changed(properties: ClientProperties) -> dict[str, Any]:
    """The settings that are not the defaults."""
    settings = fetch_settings(properties)
    return {name: value for name, value in vars(settings).items() if value != getattr(DEFAULTS, name)}


def test_defaults_are_those_of_librdkafka() -> None:
    assert fetch_settings({}) == DEFAULTS


@pytest.mark.parametrize(
    ("key", "value", "setting"),
    [
        ("client.id", "me", {"client_id": "me"}),
        ("client.rack", "eu-1", {"rack": "eu-1"}),
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
    assert changed({key: value}) == setting


@pytest.mark.parametrize("key", OF_OTHERS)
def test_what_is_for_others_changes_nothing(key: str) -> None:
    assert changed({key: OF_OTHERS[key]}) == {}


def test_the_older_name_comes_first_in_any_order() -> None:
    properties: ClientProperties = {"max.partition.fetch.bytes": 6, "fetch.message.max.bytes": 5}

    assert changed(properties) == changed(dict(reversed(properties.items()))) == {"partition": 5}


@pytest.mark.parametrize("protocol", ["ssl", "SSL", "sasl_ssl", "SASL_PLAINTEXT"])
def test_connections_that_are_secured_are_made_here(protocol: str) -> None:
    properties: ClientProperties = {
        "security.protocol": protocol,
        "enable.ssl.certificate.verification": True,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "p",
    }

    security = fetch_settings(properties).security
    assert security.protocol == protocol.upper()
    assert (security.tls is not None) == protocol.upper().endswith("SSL")
    assert (security.login is not None) == protocol.upper().startswith("SASL")


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

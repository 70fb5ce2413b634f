"""``StreamsConfig``: defaults, what it refuses, and what it shows."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

import pytest

from streamsapp.config import StreamsConfig
from streamsapp.errors import ConfigError
from streamsapp.processor.handlers import Response, dead_letter, log_and_continue


def config(**settings: Any) -> StreamsConfig:
    return StreamsConfig(**{"application_id": "app", "bootstrap_servers": "kafka:9092"} | settings)


@pytest.mark.parametrize(("guarantee", "interval"), [("exactly_once", 100), ("at_least_once", 30_000)])
def test_commit_interval_follows_from_the_guarantee(guarantee: str, interval: int) -> None:
    assert config(processing_guarantee=guarantee).commit_interval_ms == interval


def test_a_commit_interval_that_is_set_wins() -> None:
    assert config(commit_interval_ms=7).commit_interval_ms == 7


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("application_id", "two words"),
        ("application_id", ".."),
        ("application_id", ""),
        ("bootstrap_servers", " "),
        ("processing_guarantee", "at_most_once"),
        ("threads", 0),
        ("threads", True),
        ("threads", "2"),
        ("commit_interval_ms", -2),
        ("commit_interval_ms", None),
        ("memory_bytes", 1024),
        ("max_poll_interval_ms", 0),
        ("replication_factor", 0),
        ("dead_letter_queue_topic", "a topic"),
        ("processing_exception_handler", "ignore"),
        ("deserialization_exception_handler", 3),
    ],
)
def test_refuses_an_unusable_value_and_names_its_key(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^{key}: "):
        config(**{key: value})


@pytest.mark.parametrize("kind", ["deserialization", "processing", "production"])
def test_dead_letters_need_a_topic(kind: str) -> None:
    with pytest.raises(ConfigError, match="set dead_letter_queue_topic"):
        config(**{f"{kind}_exception_handler": "dead_letter"})


def test_exception_handlers_are_functions_or_names() -> None:
    made = config(
        processing_exception_handler="continue",
        production_exception_handler=lambda _context, _error: Response.CONTINUE,
        deserialization_exception_handler="dead_letter",
        dead_letter_queue_topic="dead",
    )
    assert made.on_processing_error is log_and_continue
    assert made.on_deserialization_error is dead_letter
    assert made.on_production_error is made.production_exception_handler


def test_no_secret_shows_in_the_text_of_a_configuration() -> None:
    secrets = {
        "sasl.password": "hunter2",
        "sasl.oauthbearer.client.secret": "hunter2",
        "consumer.sasl.username": "hunter2",
        "ssl.key.password": "hunter2",
        "ssl.key.pem": "hunter2",
        "admin.ssl.keystore.password": "hunter2",
        "ssl.certificate.pem": "hunter2",
    }
    shown = repr(config(kafka=secrets | {"ssl.ca.location": "eu-1"}))
    assert "hunter2" not in shown
    assert "eu-1" in shown


def test_what_was_passed_in_cannot_change_a_configuration_later() -> None:
    properties = {"ssl.ca.location": "a"}
    made = config(kafka=properties)
    properties["ssl.ca.location"] = "b"
    assert made.kafka["ssl.ca.location"] == "a"
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.threads = 3  # type: ignore[misc]


def test_reads_kafka_streams_own_names() -> None:
    made = StreamsConfig.from_properties({
        "application.id": "app",
        "bootstrap.servers": "kafka:9092",
        "processing.guarantee": "exactly_once_v2",
        "num.stream.threads": "3",
        "commit.interval.ms": "250",
        "topic.retention.ms": "1000",
        "main.consumer.fetch.min.bytes": "9",
    })  # fmt: skip
    assert (made.processing_guarantee, made.threads, made.commit_interval_ms) == ("exactly_once", 3, 250)
    assert dict(made.topic_properties) == {"retention.ms": "1000"}
    assert dict(made.kafka) == {"main.consumer.fetch.min.bytes": "9"}


def test_text_that_should_be_a_number_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"^num\.stream\.threads: .*'many'"):
        StreamsConfig.from_properties({"application.id": "a", "bootstrap.servers": "b:1", "num.stream.threads": "many"})


class App(str, Enum):  # noqa: UP042 - prints as something else than its text, as a StrEnum does not
    ORDERS = "orders"


def test_members_of_enumerations_become_the_text_that_they_are() -> None:
    it = config(
        application_id=App.ORDERS,
        group_instance_id=App.ORDERS,
        dead_letter_queue_topic=App.ORDERS,
        host_id=App.ORDERS,
        client_tags={App.ORDERS: App.ORDERS},
        topic_properties={App.ORDERS: App.ORDERS},
        kafka={"ssl.ca.location": App.ORDERS},
    )

    texts = [it.application_id, it.client_id, it.group_instance_id, it.dead_letter_queue_topic, it.host_id]
    texts += [part for each in (it.client_tags, it.topic_properties) for tag in each.items() for part in tag]
    texts += it.kafka.values()
    assert {(each, type(each)) for each in texts} == {("orders", str)}
    assert f"{it.application_id}".encode() == b"orders"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("fd00::5:8080", "[fd00::5]:8080"),  # $(POD_IP):8080 of a pod with an IPv6 address
        ("fd00:0:0:0:1:2:3:4:8080", "[fd00:0:0:0:1:2:3:4]:8080"),
        ("[fd00::5]:8080", "[fd00::5]:8080"),
        ("10.0.0.5:8080", "10.0.0.5:8080"),
        ("pod-0.app:8080", "pod-0.app:8080"),
    ],
)
def test_an_ipv6_address_gets_the_brackets_that_an_endpoint_needs(given: str, kept: str) -> None:
    assert (
        StreamsConfig(application_id="app", bootstrap_servers="b:9092", application_server=given).application_server
        == kept
    )


@pytest.mark.parametrize("given", ["fd00::5", "fe80::1%eth0:8080", "[fd00::5]", "a:b:8080", "fd00::5:99999"])
def test_an_address_without_a_port_or_with_a_scope_is_no_endpoint(given: str) -> None:
    with pytest.raises(ConfigError, match="application_server: expected host:port"):
        StreamsConfig(application_id="app", bootstrap_servers="b:9092", application_server=given)

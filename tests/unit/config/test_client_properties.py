"""The clients' final properties: some pass through, the runtime owns some, a client refuses some."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from streamsapp.config import StreamsConfig, client_properties
from streamsapp.config.client_keys import OWNED
from streamsapp.errors import ConfigError


def config(kafka: dict[str, Any] | None = None, **settings: Any) -> StreamsConfig:
    return StreamsConfig(application_id="app", bootstrap_servers="127.0.0.1:1", kafka=kafka or {}, **settings)


@pytest.mark.parametrize("prefix", ["", "consumer.", "main.consumer.", "restore.consumer.", "producer.", "admin."])
@pytest.mark.parametrize("key", sorted(OWNED))
def test_a_key_the_runtime_owns_is_refused_by_name_whatever_its_prefix(key: str, prefix: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config({prefix + key: "x"})
    assert repr(prefix + key) in str(raised.value)
    assert str(raised.value).endswith(OWNED[key][1])


def test_security_reaches_every_client_from_one_place() -> None:
    made = config({"security.protocol": "SASL_SSL", "sasl.password": "p"})
    everywhere = [
        client_properties.main_consumer(made),
        client_properties.restore_consumer(made),
        client_properties.producer(made),
        client_properties.admin(made),
    ]
    assert [(one["security.protocol"], one["sasl.password"]) for one in everywhere] == [("SASL_SSL", "p")] * 4


def test_the_more_specific_prefix_wins_whatever_the_order() -> None:
    made = config({
        "restore.consumer.fetch.min.bytes": "3",
        "consumer.fetch.min.bytes": "2",
        "fetch.min.bytes": "1",
    })  # fmt: skip
    assert client_properties.main_consumer(made)["fetch.min.bytes"] == "2"
    assert client_properties.restore_consumer(made)["fetch.min.bytes"] == "3"


def test_a_bare_key_goes_only_to_the_clients_that_read_it() -> None:
    made = config({"linger.ms": "1", "session.timeout.ms": "7000"})
    assert client_properties.producer(made)["linger.ms"] == "1"
    assert "session.timeout.ms" not in client_properties.producer(made)
    assert "linger.ms" not in client_properties.main_consumer(made)
    assert not {"linger.ms", "session.timeout.ms"} & client_properties.admin(made).keys()


@pytest.mark.parametrize(
    ("guarantee", "level"), [("exactly_once", "read_committed"), ("at_least_once", "read_uncommitted")]
)
def test_isolation_follows_from_the_guarantee(guarantee: str, level: str) -> None:
    made = config(processing_guarantee=guarantee)
    assert client_properties.main_consumer(made)["isolation.level"] == level
    assert client_properties.restore_consumer(made)["isolation.level"] == level


def test_partitions_keys_as_java_clients_do() -> None:
    assert client_properties.producer(config())["partitioner"] == "murmur2_random"


@pytest.mark.parametrize(("transactional_id", "longest"), [(None, 10), ("app-1-0", 20)])
def test_a_result_waits_for_others_for_a_moment_only(transactional_id: str | None, longest: int) -> None:
    assert int(client_properties.producer(config(), transactional_id)["linger.ms"]) <= longest


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 0.005),
        ({"linger.ms": "4"}, 0.002),
        ({"producer.queue.buffering.max.ms": 0.5}, 0.00025),
        ({"linger.ms": 0}, 0.0),
        ({"linger.ms": 1000}, 0.005),
    ],
)
def test_records_that_arrive_wait_for_others_half_as_long_as_results_do_and_no_longer(
    given: dict[str, Any], seconds: float
) -> None:
    assert client_properties.input_rest(config(given)) == seconds


def test_what_is_no_number_is_refused_by_librdkafka_where_that_is_the_client() -> None:
    assert client_properties.input_rest(config({"linger.ms": "soon"}, client="librdkafka")) == 0.0


def test_the_clients_accept_what_is_made_for_them() -> None:
    made = config(client="librdkafka")
    for of in (client_properties.main_consumer, client_properties.restore_consumer, client_properties.global_consumer):
        client, properties = client_properties.chosen(of(made))
        assert client == "librdkafka"
        Consumer(properties).close()
    for transactional_id in ("app-1-0", None):
        client, properties = client_properties.chosen(client_properties.producer(made, transactional_id))
        assert client == "librdkafka"
        Producer(properties)


def test_librdkafka_has_one_request_on_its_way_where_no_transaction_guards_the_first_batch() -> None:
    name = "max.in.flight.requests.per.connection"

    assert client_properties.producer(config(client="librdkafka"))[name] == 1
    assert name not in client_properties.producer(config(client="librdkafka"), "id")
    assert name not in client_properties.producer(config())


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("linger.mss", "1", "'linger.mss' is not known to the client: did you mean 'linger.ms'?"),
        ("enable.ssl.certificate.verification", "maybe", "'enable.ssl.certificate.verification' was refused"),
        ("linger.ms", "soon", "(also called linger.ms) was refused"),
        ("ssl.ca.location", "/does/not/exist", "'ssl.ca.location' was refused"),
    ],
)
def test_tells_what_to_do_about_a_property_the_client_refuses(key: str, value: str, expected: str) -> None:
    made = config({"security.protocol": "SSL", key: value}, client="librdkafka")
    _, properties = client_properties.chosen(client_properties.producer(made))
    with pytest.raises(Exception, match="_INVALID_ARG") as raised:
        Producer(properties)
    error = client_properties.client_error(raised.value)
    assert expected in str(error)


def test_a_key_that_only_java_clients_know_is_told_with_its_other_name() -> None:
    with pytest.raises(ConfigError, match=r"'consumer\.fetch\.max\.wait\.ms' .* use fetch\.wait\.max\.ms"):
        config({"consumer.fetch.max.wait.ms": "10"})


def test_leaves_errors_alone_that_are_not_about_properties() -> None:
    assert client_properties.client_error(TimeoutError("slow")) is None

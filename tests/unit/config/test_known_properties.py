"""Which properties the runtime's own client knows, and what is said of the others: nothing is left out in silence."""

from __future__ import annotations

import dataclasses

import pytest

from streamsapp.brokers.sasl.login import LOGIN_PROPERTIES, MECHANISMS
from streamsapp.brokers.security import PROTOCOLS
from streamsapp.brokers.settings import connection_settings
from streamsapp.brokers.tls import TLS_PROPERTIES
from streamsapp.config import StreamsConfig, client_properties, known_properties
from streamsapp.config.known_properties import LIBRDKAFKA, OWN, property_fault
from streamsapp.errors import ConfigError
from streamsapp.kafka.fetching.settings import fetch_settings
from streamsapp.kafka.producing.settings import batch_settings
from streamsapp.kafka.property_check import refused_properties
from streamsapp.membership.settings import group_settings


def config(client: str = OWN, **kafka: str) -> StreamsConfig:
    given = {name.replace("_", "."): value for name, value in kafka.items()}
    return StreamsConfig(application_id="a", bootstrap_servers="b:1", client=client, kafka=given)


@pytest.mark.parametrize("client", [OWN, LIBRDKAFKA])
def test_a_client_is_chosen_by_its_name(client: str) -> None:
    assert config(client).client == client


def test_the_runtimes_own_is_the_default_and_properties_of_java_choose_another_one() -> None:
    given = {"application.id": "a", "bootstrap.servers": "b:1"}
    assert StreamsConfig.from_properties(given).client == OWN
    assert StreamsConfig.from_properties(given | {"client": LIBRDKAFKA}).client == LIBRDKAFKA


@pytest.mark.parametrize("client", ["kafka-python", "", "Librdkafka", None, 3])
def test_no_other_client_is_taken(client: object) -> None:
    with pytest.raises(ConfigError, match=r"^client: expected 'streamsapp' or 'librdkafka', got "):
        config(client)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("debug", "broker", "is known to librdkafka only; leave it out, or set client: librdkafka"),
        ("consumer.queuing.strategy", "lifo", "is known to librdkafka only; leave it out, or set client: librdkafka"),
        (
            "compression.type",
            "brotli",
            "expected gzip or lz4 or none or snappy or zstd, got 'brotli'; correct it, leave",
        ),
        ("socket.nagle.disable", "false", "expected true, got 'false'; correct it, leave it out, or set client: lib"),
        ("fetch.min.bytes", "many", "expected a number from 1 to 100000000, got 'many'"),
        ("fetch.min.bytes", "0", "expected a number from 1 to 100000000, got '0'"),
        ("fetch.wait.max.ms", "0.5", "expected a number from 0 to 300000, got '0.5'"),
        ("producer.linger.ms", "-1", "expected a number from 0 to 900000, got '-1'"),
        ("linger.ms", "nan", "expected a number from 0 to 900000, got 'nan'"),
        ("linger.mss", "1", "is not known to the client: did you mean 'linger.ms'?"),
        (
            "some.interceptor",
            "C",
            "is not known to the client: correct it or leave it out, or set client: librdkafka if ",
        ),
        # Also with librdkafka the membership in the group has a connection of the runtime's.
        (
            "sasl.mechanism",
            "GSSAPI",
            "expected oauthbearer or plain or scram-sha-256 or scram-sha-512, got 'GSSAPI'; c",
        ),
        (
            "ssl.keystore.location",
            "/k",
            "is not known to the runtime's connections: convert it to PEM and set ssl.cert",
        ),
        ("sasl.kerberos.keytab", "/k", "is not known to the runtime's connections: "),
    ],
)
def test_what_the_own_client_does_not_know_is_refused_with_the_remedy(key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        StreamsConfig(application_id="a", bootstrap_servers="b:1", kafka={key: value})
    assert str(refused.value).startswith(f"kafka property {key!r}: {says}")


@pytest.mark.parametrize("key", ["ssl.keystore.location", "sasl.kerberos.keytab"])
def test_a_connections_property_is_not_said_to_be_librdkafkas(key: str) -> None:
    assert "librdkafka" not in (property_fault(OWN, key, "x") or "")


@pytest.mark.parametrize("key", ["debug", "consumer.queuing.strategy", "some.interceptor"])
def test_librdkafka_looks_at_its_properties_itself(key: str) -> None:
    assert property_fault(LIBRDKAFKA, key, "x") is None


def test_the_client_that_creates_topics_is_librdkafkas_in_any_case() -> None:
    assert property_fault(OWN, "admin.debug", "admin") is None


def seen(kafka: dict[str, str]) -> list[object]:
    """All that an instance makes of its properties."""
    made = StreamsConfig(application_id="a", bootstrap_servers="b:1", kafka=kafka)
    consumer, producer = client_properties.main_consumer(made), client_properties.producer(made)
    fetching, connection = fetch_settings(consumer), connection_settings(producer, "me")
    tls, login = connection.security.tls, connection.security.login
    return [
        *(getattr(fetching, each.name) for each in dataclasses.fields(fetching) if each.name != "security"),
        *(connection.reaching, batch_settings(producer), group_settings(made, consumer), made.session_timeout_ms),
        *(connection.security.protocol, tls and tls.current().checks_names, login and login.mechanism),
        client_properties.metadata_max_age(made),
    ]


#: Two values of each number whose other values may not fit to the other properties.
_PAIRS = {
    "delivery.timeout.ms": ("5000", "6000"),
    "heartbeat.interval.ms": ("70", "80"),
    "message.timeout.ms": ("5000", "6000"),
    "session.timeout.ms": ("8000", "9000"),
    "socket.timeout.ms": ("5000", "6000"),
    "reconnect.backoff.max.ms": ("200", "300"),
}


@pytest.mark.parametrize(("key", "bounds"), known_properties._NUMBERS.items())
def test_each_number_that_is_taken_has_its_effect(key: str, bounds: tuple[float, float]) -> None:
    least = max(1, int(bounds[0]))
    one, other = _PAIRS.get(key, (f"{2 * least}", f"{3 * least}"))
    assert seen({key: one}) != seen({key: other}), "it is taken and changes nothing"


#: Given with a property, so that it matters.
_SECURED = {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
#: Logins with tokens are tested by themselves, as are all texts of connections.
_OF_LOGINS = {"sasl.oauthbearer.method", "enable.sasl.oauthbearer.unsecure.jwt"}


@pytest.mark.parametrize(
    "key", [key for key, values in known_properties._VALUES.items() if len(values) > 1 and key not in _OF_LOGINS]
)
def test_each_value_that_is_taken_has_its_effect(key: str) -> None:
    one, other = sorted(known_properties._VALUES[key] - {"oauthbearer"})[:2]
    secured = (
        {} if key.startswith(("compression", "check")) else {each: of for each, of in _SECURED.items() if each != key}
    )
    if key == "sasl.mechanisms":
        del secured["sasl.mechanism"]
    assert seen(secured | {key: one}) != seen(secured | {key: other}), "it is taken and changes nothing"


def test_texts_are_those_of_connections_which_read_each_and_the_rack() -> None:
    assert (known_properties._TEXTS | _OF_LOGINS) - {"client.rack"} <= TLS_PROPERTIES | LOGIN_PROPERTIES


@pytest.mark.parametrize("key", sorted(known_properties._OF_LIBRDKAFKA - {"max.poll.interval.ms"}))
def test_what_would_change_nothing_is_refused_with_the_remedy(key: str) -> None:
    with pytest.raises(ConfigError, match=r"is known to librdkafka only; .*or set client: librdkafka"):
        StreamsConfig(application_id="a", bootstrap_servers="b:1", kafka={key: "3"})


@pytest.mark.parametrize(("key", "value"), [("retries", "3"), ("enable.metrics.push", "true")])
def test_the_one_value_that_the_own_client_has_is_taken(key: str, value: str) -> None:
    (known,) = known_properties._VALUES[key]
    assert property_fault(OWN, key, known) is None
    assert f"expected {known}, got '{value}'; correct it, leave it out, or set client" in (
        property_fault(OWN, key, value) or ""
    )


@pytest.mark.parametrize(("key", "bounds"), known_properties._NUMBERS.items())
def test_numbers_have_librdkafkas_bounds(key: str, bounds: tuple[float, float]) -> None:
    for bound in bounds:
        assert property_fault(OWN, key, f"{bound:.0f}") is None
        assert list(refused_properties({key: f"{bound:.0f}"})) == []
    for beyond in (bounds[0] - 1, bounds[1] + 1):
        assert property_fault(OWN, key, f"{beyond:.0f}") is not None


def test_all_that_connections_are_secured_by_is_known() -> None:
    assert frozenset(TLS_PROPERTIES) | LOGIN_PROPERTIES <= known_properties._KNOWN
    assert frozenset(map(str.lower, MECHANISMS)) == known_properties._MECHANISMS
    assert known_properties._VALUES["security.protocol"] == frozenset(map(str.lower, PROTOCOLS))


def test_every_name_is_librdkafkas() -> None:
    names = known_properties._KNOWN | known_properties._OF_LIBRDKAFKA
    values = {key: min(known_properties._VALUES.get(key, {""})) for key in names}
    unknown = [key for key, fault in refused_properties(values) if "is not known to the client" in fault]
    assert unknown == []

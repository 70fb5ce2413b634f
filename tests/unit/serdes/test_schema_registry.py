"""Serdes of a schema registry, with the client's own registry in memory: subjects, wire format, whose fault it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protobuf_messages import order_class
from streamsapp import Consumed, Grouped, Materialized, Produced, SchemaRegistry, Serdes, StreamsBuilder, StreamsConfig
from streamsapp.errors import ConfigError, SchemaRegistryUnavailableError
from streamsapp.processor.handlers import ErrorContext, Response
from streamsapp.serdes.api import AnySerde
from streamsapp.testing import TopologyTestDriver
from streamsapp.topology.builder import Topology

TEXT = Serdes.string()
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "string"}, {"name": "cents", "type": "long", "default": 0}],
    }
)
JSON_ORDER = json.dumps(
    {"title": "Order", "type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
)
Message = order_class()


@pytest.fixture
def registry() -> SchemaRegistry:
    return SchemaRegistry("mock://tests")


def subjects(registry: SchemaRegistry) -> set[str]:
    return set(registry._connected().get_subjects())


KINDS: dict[str, tuple[Any, Any]] = {
    "avro": (lambda registry: registry.avro(ORDER), {"id": "a", "cents": 5}),
    "json": (lambda registry: registry.json_schema(JSON_ORDER), {"id": "a", "more": [1]}),
    "protobuf": (lambda registry: registry.protobuf(Message), Message(id="a", cents=5)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_written_in_confluents_format_and_come_back(kind: str, registry: SchemaRegistry) -> None:
    made, value = KINDS[kind]
    serde = made(registry).bind("orders", is_key=False)
    data = serde.serialize(value)
    assert data[0] == 0, "the magic byte"
    assert int.from_bytes(data[1:5], "big") == registry._connected().get_latest_version("orders-value").schema_id
    assert serde.deserialize(data) == value
    assert serde.from_plain(json.loads(json.dumps(serde.to_plain(value)))) == value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [b"", b"hello", b"\0\0\0\0\x63abc", b"\1\0\0\0\1ab"])
def test_bytes_of_no_registry_are_the_records_fault(kind: str, data: bytes, registry: SchemaRegistry) -> None:
    made, value = KINDS[kind]
    serde = made(registry).bind("orders", is_key=False)
    serde.serialize(value)
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - its text is looked at
        serde.deserialize(data)
    assert str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("kind", "bad"), [("avro", {"cents": 1}), ("json", {"id": 1}), ("protobuf", {"id": "a"})])
def test_values_that_do_not_fit_the_schema_are_not_written(kind: str, bad: Any, registry: SchemaRegistry) -> None:
    with pytest.raises(ValueError, match=r"id|dict|1 is not of type 'string'"):
        KINDS[kind][0](registry).bind("orders", is_key=False).serialize(bad)


def test_the_readers_schema_fills_in_what_the_writers_had_not(registry: SchemaRegistry) -> None:
    older = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
    data = registry.avro(older).bind("orders", is_key=False).serialize({"id": "a"})
    assert registry.avro(ORDER).bind("orders", is_key=False).deserialize(data) == {"id": "a", "cents": 0}
    assert registry.avro().bind("orders", is_key=False).deserialize(data) == {"id": "a"}


def test_without_a_schema_the_newest_of_the_subject_writes(registry: SchemaRegistry) -> None:
    generic = registry.avro().bind("orders", is_key=False)
    with pytest.raises(ValueError, match=r"the schema of orders-value: .*404"):
        generic.serialize({"id": "a", "cents": 1})
    written = registry.avro(ORDER).bind("orders", is_key=False).serialize({"id": "a", "cents": 1})
    assert registry.avro().bind("orders", is_key=False).serialize({"id": "a", "cents": 1}) == written


def test_a_serde_without_topic_says_that_it_needs_one(registry: SchemaRegistry) -> None:
    with pytest.raises(TypeError, match="belongs to a topic"):
        registry.avro(ORDER).serialize({"id": "a"})


def joined(value: AnySerde, key: AnySerde) -> Topology:
    """Orders by customer and their sums, and by foreign key: every kind of topic of one's own."""
    builder = StreamsBuilder()
    orders = builder.table("orders", Consumed(key, value), Materialized("orders-store", key, value))
    customers = builder.table("customers", Consumed(key, value))
    named = orders.join(customers, lambda order: order["id"], lambda order, _: order)
    named.to_stream().to("named", Produced(key, value))
    grouped = orders.group_by(lambda _, order: (order["id"], order), Grouped("by-id", key, value))
    grouped.reduce(lambda _, new: new, lambda total, _: total, Materialized("sums", key, value))
    return builder.build()


def test_subjects_are_named_as_kafka_streams_names_them(registry: SchemaRegistry) -> None:
    text = json.dumps("string")
    value, key = registry.avro(ORDER), registry.avro(text)
    config = StreamsConfig(application_id="shop", bootstrap_servers="b:1")
    with TopologyTestDriver(joined(value, key), config) as driver:
        driver.create_input_topic("customers", key, value).pipe_input("c", {"id": "c", "cents": 0})
        driver.create_input_topic("orders", key, value).pipe_input("o", {"id": "c", "cents": 1})
        assert driver.create_output_topic("named", key, value).read_key_values() == [("o", {"id": "c", "cents": 1})]
        assert driver.get_key_value_store("sums").get("c") == {"id": "c", "cents": 1}
    wire = "shop-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000005-topic"
    named = subjects(registry)
    assert {
        "orders-key", "orders-value", "customers-key", "customers-value", "named-key", "named-value",
        "shop-by-id-repartition-key", "shop-by-id-repartition-value",
        "shop-sums-changelog-key", "shop-sums-changelog-value",
    } <= named  # fmt: skip
    foreign = {each for each in named if "SUBSCRIPTION-REGISTRATION" in each}
    assert {each.replace(wire, "T") for each in foreign} == {"T-key", "T-fk-key", "T-pk-key", "T-vh-value"}


def test_a_registry_that_is_away_drops_no_record_whatever_the_handlers_say() -> None:
    asked: list[Exception] = []

    def handler(_: ErrorContext, error: Exception) -> Response:
        asked.append(error)
        return Response.CONTINUE

    away = SchemaRegistry("http://127.0.0.1:9", {"max.retries": 0, "timeout": 1})
    config = StreamsConfig(
        application_id="shop",
        bootstrap_servers="b:1",
        deserialization_exception_handler=handler,
        processing_exception_handler=handler,
        production_exception_handler=handler,
    )
    reading, writing = StreamsBuilder(), StreamsBuilder()
    reading.stream("in", Consumed(TEXT, away.avro(ORDER))).to("out", Produced(TEXT, TEXT))
    writing.stream("in", Consumed(TEXT, TEXT)).map_values(lambda _: {"id": "a", "cents": 1}).to(
        "out", Produced(TEXT, away.avro(ORDER))
    )
    for builder in (reading, writing):
        with TopologyTestDriver(builder.build(), config) as driver:
            source = driver.create_input_topic("in", TEXT, Serdes.bytes())
            with pytest.raises(SchemaRegistryUnavailableError, match="the schema registry does not give"):
                source.pipe_input("a", b"\0\0\0\0\1\2a\2")
    assert asked == []


def test_the_environment_names_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHEMA_REGISTRY_URL", raising=False)
    with pytest.raises(ConfigError, match="SCHEMA_REGISTRY_URL: is not set"):
        SchemaRegistry().avro().bind("orders", is_key=False)
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO", "jane:secret")
    monkeypatch.setenv("SCHEMA_REGISTRY_MAX_RETRIES", "0")
    serde = SchemaRegistry().avro().bind("orders", is_key=False)
    with pytest.raises(SchemaRegistryUnavailableError, match="Connection refused"):
        serde.deserialize(b"\0\0\0\0\1\2a")
    monkeypatch.setenv("SCHEMA_REGISTRY_MAX_RETRIES", "few")
    with pytest.raises(ConfigError, match="SCHEMA_REGISTRY_MAX_RETRIES: expected a number, got 'few'"):
        SchemaRegistry().avro().bind("orders", is_key=False)
    monkeypatch.setenv("SCHEMA_REGISTRY_MAX_RETRIES", "0")
    monkeypatch.setenv("SCHEMA_REGISTRY_COLOUR", "blue")
    with pytest.raises(ConfigError, match="schema registry: Unrecognized properties: colour"):
        SchemaRegistry().avro().bind("orders", is_key=False)

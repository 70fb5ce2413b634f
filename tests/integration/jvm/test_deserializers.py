"""Records that streamsapp writes to output and changelog topics are read by Java's own deserializers."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from instances import Instances, eventually, produce
from kafka_cluster import Kafka
from oracle import Oracle
from streamsapp import Consumed, Materialized, Produced, Serdes, StreamsBuilder
from streamsapp.record import Headers
from streamsapp.serdes.api import AnySerde

_UUID = "123e4567-e89b-12d3-a456-426614174000"


def same(value: Any) -> Any:
    return value


class Kind(NamedTuple):
    """A type of values: its serde on both sides, and values in the form in which the oracle gives them back."""

    serde: AnySerde
    java: str
    values: list[Any]
    from_json: Callable[[Any], Any] = same


KINDS = {
    "string": Kind(Serdes.string(), "string", ["", "text", "äöü 日本語 🙂", "a\x00b"]),
    "long": Kind(Serdes.long(), "long", [0, -1, 2**63 - 1, -(2**63)]),
    "integer": Kind(Serdes.integer(), "integer", [0, -1, 2**31 - 1, -(2**31)]),
    "double": Kind(Serdes.double(), "double", ["0.0", "-2.25", "1.0E300", "4.9E-324"], float),
    "list": Kind(Serdes.list_(Serdes.string()), "list(string)", [[], ["a", None, "ö"]]),
    "uuid": Kind(Serdes.uuid(), "uuid", [_UUID], uuid.UUID),
    "json": Kind(Serdes.json(), "string", [{"a": [1, 2.5, None, True], "ö": "日"}, [], "text"]),
}
HEADERS: Headers = [("trace", b"\x00\x01"), ("empty", b""), ("null", None)]


def test_java_reads_outputs_and_changelogs_with_tombstones_timestamps_and_headers(
    kafka: Kafka, instances: Instances, oracle: Oracle
) -> None:
    source = kafka.create_topic("values", partitions=2)
    sinks = {name: kafka.create_topic(name, partitions=2) for name in KINDS}
    config = instances.config()
    builder = StreamsBuilder()
    values = builder.stream(source, Consumed(Serdes.string(), Serdes.json()))
    for name, kind in KINDS.items():
        typed = values.filter(is_a(name)).map_values(python_value(kind))
        typed.to(sinks[name], Produced(Serdes.string(), kind.serde))
        typed.to_table(Materialized(f"{name}-table", Serdes.string(), kind.serde))

    # Each value under a key of its own, and for each kind a row that is deleted again.
    rows = [(f"{name}-{at}", value) for name, kind in KINDS.items() for at, value in enumerate(kind.values)]
    rows += [(f"{name}-gone", kind.values[0]) for name, kind in KINDS.items()]
    written = [(key, value, 5000 - at) for at, (key, value) in enumerate(rows)]
    written += [(f"{name}-gone", None, 9000) for name in KINDS]
    raw = [(key.encode(), None if value is None else json.dumps(value).encode(), time) for key, value, time in written]
    produce(kafka, source, raw, HEADERS)
    instance = instances.start(builder.build(), config)
    eventually(lambda: sum(len(kafka.read(sink)) for sink in sinks.values()) == len(written))
    assert instance.close()

    for name, kind in KINDS.items():
        expected = [each for each in written if each[0].startswith(name)]
        output = java_records(kafka, oracle, sinks[name], kind)
        assert sorted(output, key=str) == sorted([(*each, HEADERS) for each in expected], key=str)
        changelog = java_records(kafka, oracle, f"{config.application_id}-{name}-table-changelog", kind)
        last = {key: (value, time) for key, value, time in expected}
        assert {key: (value, time) for key, value, time, _ in changelog} == last


def is_a(name: str) -> Callable[[str, Any], bool]:
    return lambda key, _: key.startswith(name)


def python_value(kind: Kind) -> Callable[[Any], Any]:
    return lambda value: None if value is None else kind.from_json(value)


def java_records(kafka: Kafka, oracle: Oracle, topic: str, kind: Kind) -> list[tuple[Any, Any, int, Any]]:
    """Keys, values, timestamps and headers of a topic, deserialized by Java."""
    messages = kafka.read(topic)
    keys = java_values(oracle, "string", [message.key() for message in messages])
    values = java_values(oracle, kind.java, [message.value() for message in messages])
    if kind.java == "string" and kind.serde is Serdes.json():
        values = [None if value is None else json.loads(value) for value in values]
    return [
        (key, value, message.timestamp()[1], message.headers() or [])
        for key, value, message in zip(keys, values, messages, strict=True)
    ]


def java_values(oracle: Oracle, serde: str, data: list[bytes | None]) -> list[Any]:
    encoded = [None if each is None else base64.b64encode(each).decode() for each in data]
    answer = oracle.ask(kind="deserialize", serde=serde, bytes=encoded)
    assert "error" not in answer, answer
    values: list[Any] = answer["values"]
    return values

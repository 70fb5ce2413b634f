"""Avro values that are read with another schema than they were written with: every digit, and Java's branch of a union;
and schemas whose ids are in the headers of records."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from protobuf_messages import order_class
from streamsapp import Consumed, Materialized, Produced, Repartitioned, SchemaRegistry, Serdes, StreamsBuilder
from streamsapp.cli.record_lines import shown_record
from streamsapp.record import RawRecord
from streamsapp.serdes.api import AnySerde
from streamsapp.testing import TopologyTestDriver

TEXT = Serdes.string()
BIG = 9007199254740993
UNION = ["null", "double", "long"]
_DEFAULT: dict[str, dict[str, Any]] = {"w": {"default": None}}


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record", "name": name, "namespace": "shop",
        "fields": [{"name": name, "type": kind, **_DEFAULT.get(name, {})} for name, kind in fields.items()],
    }  # fmt: skip


def reread(writer: Any, value: Any, reader: Any) -> Any:
    registry = SchemaRegistry("mock://resolution")
    data = registry.avro(json.dumps(writer)).bind("t", is_key=False).serialize(value)
    back = registry.avro(json.dumps(reader)).bind("t", is_key=False).deserialize(data)
    registry._connected().delete_subject("t-value")
    return back


INNER = record("Inner", y=["double", "long"])
CASES: list[tuple[Any, Any, Any, Any]] = [
    ("long", BIG, UNION, BIG),
    ("int", 5, UNION, 5.0),
    ("int", 16777217, ["float", "int"], 16777217),
    (["null", "long"], BIG, UNION, BIG),
    (["null", "long", "double"], 1.5, UNION, 1.5),
    ("string", "é", ["null", "bytes", "string"], "é"),
    (record("A", x="bytes"), {"x": b"\xff"}, record("A", x=["null", "string", "bytes"]), {"x": b"\xff"}),
    ({"type": "array", "items": "long"}, [BIG], {"type": "array", "items": UNION}, [BIG]),
    ({"type": "map", "values": "long"}, {"a": BIG}, ["null", {"type": "map", "values": UNION}], {"a": BIG}),
    (record("A", x="long"), {"x": BIG}, record("A", x=UNION, ), {"x": BIG}),
    (record("A", x=["null", record("B", y="long")]), {"x": {"y": BIG}},
     record("A", x=["null", record("B", y=UNION)]), {"x": {"y": BIG}}),
    (record("A", x={"type": "array", "items": INNER}, z="Inner"), {"x": [{"y": 1.5}], "z": {"y": ("long", BIG)}},
     record("A", x={"type": "array", "items": INNER}, z=["null", "Inner"], w=["null", "int"]),
     {"x": [{"y": 1.5}], "z": {"y": BIG}, "w": None}),
    (INNER | {"namespace": "b"}, {"y": 1.5},
     [record("Inner", y=["double", "long"]) | {"namespace": "a"}, INNER | {"namespace": "b"}], {"y": 1.5}),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B",
     {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}, "A"),
]  # fmt: skip


@pytest.mark.parametrize(("writer", "value", "reader", "expected"), CASES)
def test_unions_are_resolved_as_java_resolves_them(writer: Any, value: Any, reader: Any, expected: Any) -> None:
    back = reread(writer, value, reader)
    assert back == expected
    assert type(back) is type(expected)


def test_a_union_that_only_java_can_resolve_is_refused() -> None:
    both = ["null", "string", "bytes"]
    writer, reader = record("A", x=both), record("A", x=["null", "bytes", "string"])
    with pytest.raises(ValueError, match=r"a union of (string and bytes|bytes and string) cannot be read"):
        reread(writer, {"x": "a"}, reader)
    assert reread(writer, {"x": b"a"}, writer) == {"x": b"a"}


def test_a_whole_number_that_a_schema_would_round_is_not_written() -> None:
    serde = SchemaRegistry("mock://tests").avro(json.dumps(record("A", x=UNION, y="double"))).bind("t", is_key=False)
    with pytest.raises(ValueError, match=r"9007199254740993 would be written as .* - at `\$\.x`"):
        serde.serialize({"x": BIG, "y": 1.0})
    with pytest.raises(ValueError, match=r"at `\$\.y`"):
        serde.serialize({"x": None, "y": BIG})
    assert serde.deserialize(serde.serialize({"x": ("long", BIG), "y": 1 << 60})) == {"x": BIG, "y": float(1 << 60)}


ORDER = json.dumps(record("Order", id="string"))
JSON_ORDER = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "string"}}})
Message = order_class()
KINDS: dict[str, tuple[Any, Any]] = {
    "avro": (lambda registry: registry.avro(ORDER), {"id": "a"}),
    "short avro": (lambda registry: registry.avro('"long"'), 5),
    "json": (lambda registry: registry.json_schema(JSON_ORDER), {"id": "a"}),
    "protobuf": (lambda registry: registry.protobuf(Message), Message(id="a", cents=5)),
}


def in_header(registry: SchemaRegistry, serde: AnySerde, value: Any, name: str, by_guid: bool) -> tuple[bytes, Any]:
    """The bytes and the header of a producer that leaves schemas' ids in headers."""
    data = serde.serialize(value)
    size = 5
    if "protobuf" in serde.name:
        size += 1  # the index of the message, which is the first one
    header = data[:size]
    if by_guid:
        schema = registry._connected().get_schema_by_guid
        number = struct.unpack(">I", data[1:5])[0]
        found = registry._connected().get_latest_version("in-key" if "key" in name else "in-value")
        assert schema is not None
        assert found.schema_id == number
        assert found.guid is not None
        header = b"\1" + bytes.fromhex(found.guid.replace("-", "")) + data[5:size]
    return data[size:], (name, header)


@pytest.mark.parametrize("by_guid", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_ids_in_headers_are_read_and_do_not_travel_on(kind: str, by_guid: bool) -> None:
    registry = SchemaRegistry("mock://headers")
    made, value = KINDS[kind]
    serde = made(registry)
    key, key_id = in_header(registry, serde.bind("in", is_key=True), value, "__key_schema_id", by_guid)
    data, value_id = in_header(registry, serde.bind("in", is_key=False), value, "__value_schema_id", by_guid)
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(serde, serde))
    stream.to("out", Produced(serde, serde))
    stream.to_table(Materialized("rows", serde, serde))
    stream.map(lambda key, value: (key, value)).repartition(Repartitioned(serde, serde)).to(
        "later", Produced(serde, serde)
    )
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", Serdes.bytes(), Serdes.bytes())
        source.pipe_input(key, data, headers=[key_id, ("trace", b"1"), value_id])
        for topic in ("out", "later"):
            result = driver.create_output_topic(topic, serde, serde).read_record()
            assert (result.key, result.value, result.headers) == (value, value, [("trace", b"1")])
        rows = driver.get_key_value_store("rows")
        assert rows.get(value) == value
    raw = RawRecord("in", 0, 7, key, data, 5, [key_id, value_id])
    line = json.loads(shown_record(raw, serde.bind("in", is_key=True), serde.bind("in", is_key=False)))
    assert not {"keyError", "valueError"} & line.keys()

"""Serdes of the user's own types: round trips, and what is said of bytes that do not fit."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
import yaml
from google.protobuf import struct_pb2, wrappers_pb2
from hypothesis import given, strategies as st

from streamsapp import Consumed, Materialized, Produced, Serdes, StreamsBuilder, StreamsConfig
from streamsapp.errors import DeserializationError, ManifestError, TopologyError
from streamsapp.manifest import decode
from streamsapp.manifest.entrypoint import load_topology
from streamsapp.processor.handlers import ErrorContext, Response
from streamsapp.serdes.api import AnySerde
from streamsapp.testing import TopologyTestDriver

TEXT = Serdes.string()


@dataclass
class Item:
    price: int
    name: str = ""


@dataclass
class Order:
    id: str
    items: list[Item]


class Struct(msgspec.Struct):
    id: str
    items: list[Item]


class Model(pydantic.BaseModel):
    id: str
    items: list[Item]


class Typed(TypedDict):
    id: str
    items: list[Item]


ITEMS = [Item(1, "tea"), Item(2)]
KINDS: list[tuple[AnySerde, Any]] = [
    (Serdes.json(Order), Order("a", ITEMS)),
    (Serdes.json(Struct), Struct("a", ITEMS)),
    (Serdes.json(Model), Model(id="a", items=ITEMS)),
    (Serdes.json(Typed), {"id": "a", "items": ITEMS}),
    (Serdes.json(list[Item]), ITEMS),
    (Serdes.msgpack(Order), Order("a", ITEMS)),
    (Serdes.msgpack(Struct), Struct("a", ITEMS)),
    (Serdes.msgpack(), {"a": [1, None, b"\xff", {"b": 2.5}]}),
    (Serdes.protobuf(wrappers_pb2.StringValue), wrappers_pb2.StringValue(value="tea")),
]
IDS = [f"{serde.name}-{type(value).__name__}" for serde, value in KINDS]


@pytest.mark.parametrize(("serde", "value"), KINDS, ids=IDS)
def test_values_come_back_as_they_were(serde: AnySerde, value: Any) -> None:
    data = serde.serialize(value)
    assert serde.deserialize(data) == value
    assert type(serde.deserialize(data)) is type(value)
    assert serde.serialize(serde.deserialize(data)) == data


@pytest.mark.parametrize(("serde", "value"), KINDS, ids=IDS)
def test_values_are_shown_and_written_by_hand(serde: AnySerde, value: Any) -> None:
    if isinstance(value, dict) and b"\xff" in value.get("a", ()):
        return  # bytes in JSON are base64, and only the type says so
    assert serde.from_plain(msgspec.json.decode(msgspec.json.encode(serde.to_plain(value)))) == value


@pytest.mark.parametrize(
    ("serde", "data", "told"),
    [
        (Serdes.json(Order), b'{"id":"a","items":[{"price":1},{"price":"x"}]}', "at `$.items[1].price`"),
        (Serdes.json(Struct), b'{"id":"a","items":[{}]}', "missing required field `price` - at `$.items[0]`"),
        (Serdes.json(Model), b'{"id":1,"items":[{"price":"x"}]}', "at `$.id`; Input should be a valid integer"),
        (Serdes.json(Model), b'{"id":1,"items":[{"price":"x"}]}', "at `$.items[0].price`"),
        (Serdes.json(Order), b"{", "truncated"),
        (Serdes.msgpack(Order), b"\x80", "missing required field `id`"),
        (Serdes.msgpack(Order), b"\xc1", "invalid"),
        (Serdes.protobuf(wrappers_pb2.StringValue), b"\x0a\x05abc", "5 bytes are no StringValue"),
    ],
)
def test_bytes_that_do_not_fit_are_refused_with_the_path_of_the_field(serde: AnySerde, data: bytes, told: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - its text is compared
        serde.deserialize(data)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("serde", [Serdes.json(Order), Serdes.json(Model), Serdes.msgpack(Struct),
                                   Serdes.protobuf(wrappers_pb2.StringValue)])  # fmt: skip
def test_values_of_another_type_are_not_written(serde: AnySerde) -> None:
    with pytest.raises(TypeError, match=r"got dict, the serde is (json|msgpack|protobuf)\(\w+\)"):
        serde.serialize({"id": "a"})


def test_a_type_that_nothing_can_be_read_into_is_refused_when_the_serde_is_made() -> None:
    with pytest.raises(TopologyError, match="complex"):
        Serdes.json(dict[str, complex] | dict[str, set[complex]])  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match=r"Serdes\.protobuf: Order is not a class of Protobuf messages"):
        Serdes.protobuf(Order)  # type: ignore[type-var]


def test_equal_messages_have_equal_bytes() -> None:
    serde = Serdes.protobuf(struct_pb2.Struct)
    one, other = struct_pb2.Struct(), struct_pb2.Struct()
    names = [f"field{number}" for number in range(50)]
    one.update(dict.fromkeys(names, 1))
    other.update(dict.fromkeys(reversed(names), 1))
    assert serde.serialize(one) == serde.serialize(other)


@given(st.binary())
def test_no_bytes_do_harm(data: bytes) -> None:
    for serde, _ in KINDS:
        try:
            value = serde.deserialize(data)
        except ValueError:
            continue
        serde.serialize(value)


def test_the_deserialization_handler_is_told_the_path_of_the_field() -> None:
    heard: list[str] = []

    def handler(context: ErrorContext, error: Exception) -> Response:
        heard.append(f"{context.topic} {error}")
        return Response.CONTINUE

    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(TEXT, Serdes.json(Order)))
    totals = orders.map_values(lambda order: sum(item.price for item in order.items))
    totals.to("totals", Produced(TEXT, Serdes.long()))
    config = StreamsConfig(application_id="a", bootstrap_servers="b:1", deserialization_exception_handler=handler)
    with TopologyTestDriver(builder.build(), config) as driver:
        source = driver.create_input_topic("orders", TEXT, Serdes.bytes())
        source.pipe_input("1", b'{"id":"a","items":[{"price":1},{"price":"x"}]}')
        source.pipe_input("2", b'{"id":"a","items":[{"price":1},{"price":2}]}')
        assert driver.create_output_topic("totals", TEXT, Serdes.long()).read_key_values() == [("2", 3)]
    assert heard == ["orders Expected `int`, got `str` - at `$.items[1].price`"]

    failing = StreamsConfig(application_id="a", bootstrap_servers="b:1")
    with TopologyTestDriver(builder.build(), failing) as driver:
        source = driver.create_input_topic("orders", TEXT, Serdes.bytes())
        with pytest.raises(DeserializationError, match=r"at `\$\.id`"):
            source.pipe_input("1", b'{"id":1,"items":[]}')


def test_typed_values_are_kept_in_tables() -> None:
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(TEXT, Serdes.json(Model)))
    orders.group_by_key().reduce(
        lambda total, order: Model(id=order.id, items=[*total.items, *order.items]),
        Materialized("last", TEXT, Serdes.json(Model)),
    )
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("orders", TEXT, Serdes.json(Model))
        source.pipe_input("a", Model(id="1", items=[Item(1)]))
        source.pipe_input("a", Model(id="2", items=[Item(2)]))
        assert driver.get_key_value_store("last").get("a") == Model(id="2", items=[Item(1), Item(2)])


MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {{name: typed}}
spec:
  topology:
    steps:
      - stream: {{topic: orders, keySerde: string, valueSerde: {serde}}}
      - to: {{topic: copies, keySerde: string, valueSerde: {serde}}}
  code:
    files:
      typed_shop.py: |
        from dataclasses import dataclass
        from google.protobuf.wrappers_pb2 import StringValue
        @dataclass
        class Order: id: str
        number = 5
"""


@pytest.mark.parametrize(
    ("serde", "good", "bad"),
    [
        ('{json: "typed_shop:Order"}', b'{"id":"a"}', b'{"id":1}'),
        ('{msgpack: "typed_shop:Order"}', b"\x81\xa2id\xa1a", b"\x80"),
        ('{protobuf: "typed_shop:StringValue"}', b"\n\x01a", b"\n\x05a"),
        ("msgpack", b"\xa1a", b"\xa2a"),
    ],
)
def test_a_manifest_names_serdes_of_its_codes_types(
    serde: str, good: bytes, bad: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "typed_shop", raising=False)
    topology = load_topology(decode(yaml.safe_load(MANIFEST.format(serde=serde))), tmp_path)
    config = StreamsConfig(application_id="a", bootstrap_servers="b:1", deserialization_exception_handler="continue")
    with TopologyTestDriver(topology, config) as driver:
        source = driver.create_input_topic("orders", TEXT, Serdes.bytes())
        source.pipe_key_values([("1", bad), ("2", good)])
        assert driver.create_output_topic("copies", TEXT, Serdes.bytes()).read_key_values() == [("2", good)]


@pytest.mark.parametrize(
    ("serde", "told"),
    [
        ("{json: Order}", "'json' needs module:attribute, got 'Order'"),
        ("protobuf", "'protobuf' needs code: {protobuf: module:attribute}"),
        ('{jsn: "a:B"}', "did you mean 'json'?"),
        ('{json: "typed_shop:Missing"}', "has no attribute 'Missing'"),
        ('{protobuf: "typed_shop:Order"}', "Order is not a class of Protobuf messages"),
        ('{json: "typed_shop:number"}', "5 has no serde"),
    ],
)
def test_a_manifest_that_names_no_type_is_told_where(
    serde: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "typed_shop", raising=False)
    with pytest.raises(ManifestError, match=r"spec\.topology\.steps\[0\]\.stream\.valueSerde") as raised:
        load_topology(decode(yaml.safe_load(MANIFEST.format(serde=serde))), tmp_path)
    assert told in str(raised.value)

"""The columns that a store has by its serdes, and values of these serdes in them."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from pydantic import BaseModel, Field

from streamsapp import Serdes
from streamsapp.errors import ConfigError, StreamsError
from streamsapp.serdes.schema_registry import SchemaRegistry
from streamsapp_spark.tables.columns import StoreColumns, arrow_batches
from streamsapp_spark.tables.types.column import TypedColumn
from streamsapp_spark.tables.types.parts import sql_type

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def stored(column: TypedColumn, *values: Any) -> list[Any]:
    """The values as Arrow has them in the column, which is where Spark takes them from."""
    found: list[Any] = pa.array([column.converted(each) for each in values], column.arrow).to_pylist()
    return found


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Item:
    name: str
    price: float


@dataclass
class Order:
    id: int
    colour: Colour
    size: Literal[1, 2]
    items: list[Item]
    tags: dict[str, int]
    day: date
    at: datetime
    amount: Decimal
    of: UUID
    note: str | None = None
    either: int | str = 0
    data: bytes = b""
    parent: Order | None = None
    any: Any = None
    labels: set[str] = field(default_factory=set)


def test_a_dataclass_is_a_struct_of_its_fields() -> None:
    column = TypedColumn.of(Serdes.json(Order))
    assert sql_type(column.arrow) == (
        "struct<`id`: bigint, `colour`: string, `size`: bigint, "
        "`items`: array<struct<`name`: string, `price`: double>>, `tags`: map<string, bigint>, "
        "`day`: date, `at`: timestamp_ltz, `amount`: string, `of`: string, `note`: string, "
        "`either`: string, `data`: binary, `parent`: string, `any`: string, `labels`: array<string>>"
    )
    of = UUID(int=1)
    one = Order(1, Colour.BLUE, 2, [Item("a", 1.5)], {"x": 1}, NOON.date(), NOON, Decimal("1.10"), of, data=b"\x00\xff")
    both = Order(2, Colour.RED, 1, [], {}, NOON.date(), NOON, Decimal(0), of, "n", "7", b"", one, {"z": [1]}, {"l"})
    serde = Serdes.json(Order)
    first, second, third = stored(column, *(serde.deserialize(serde.serialize(each)) for each in (one, both)), None)
    assert (first["colour"], first["items"], first["tags"]) == ("blue", [{"name": "a", "price": 1.5}], [("x", 1)])
    assert (first["day"], first["at"], first["amount"]) == (NOON.date(), NOON, "1.10")
    assert (first["note"], first["either"], first["data"], first["parent"]) == (None, "0", b"\x00\xff", None)
    # Text of any JSON value: a number and its digits are told apart.
    assert (second["either"], second["any"], second["labels"]) == ('"7"', '{"z":[1]}', ["l"])
    assert json.loads(second["parent"])["id"] == 1
    assert third is None


class Renamed(msgspec.Struct, rename="camel", tag="renamed"):
    first_name: str
    last_seen: int | None = None


class Person(BaseModel):
    name: str = Field(alias="fullName")
    born: date
    items: list[Item]
    friend: Person | None = None


def test_structs_models_and_generic_types_have_the_names_of_their_json() -> None:
    column = TypedColumn.of(Serdes.msgpack(Renamed))
    assert sql_type(column.arrow) == "struct<`firstName`: string, `lastSeen`: bigint>"
    assert stored(column, Renamed("x")) == [{"firstName": "x", "lastSeen": None}]
    model = TypedColumn.of(Serdes.json(Person))
    assert sql_type(model.arrow) == (
        "struct<`fullName`: string, `born`: date, `items`: array<struct<`name`: string, `price`: double>>, "
        "`friend`: string>"
    )
    friend = Person(fullName="f", born=NOON.date(), items=[])
    (found,) = stored(model, Person(fullName="p", born=NOON.date(), items=[Item("o", 3)], friend=friend))
    assert (found["fullName"], found["born"], found["items"]) == ("p", NOON.date(), [{"name": "o", "price": 3.0}])
    assert json.loads(found["friend"]) == {"fullName": "f", "born": "2026-01-31", "items": [], "friend": None}
    assert sql_type(TypedColumn.of(Serdes.json(list[Item])).arrow) == "array<struct<`name`: string, `price`: double>>"
    assert stored(TypedColumn.of(Serdes.json(dict[str, int])), {"a": 1}) == [[("a", 1)]]


SCHEMA = {
    "type": "record",
    "name": "Trade",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "side", "type": {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]}},
        {"name": "other", "type": "Side"},
        {"name": "sizes", "type": {"type": "array", "items": "int"}},
        {"name": "legs", "type": {"type": "map", "values": ["null", "shop.Trade"]}},
        {"name": "either", "type": ["null", "string", "long"]},
    ],
}


def test_an_avro_schema_gives_the_columns() -> None:
    column = TypedColumn.of(SchemaRegistry("http://nobody.invalid").avro(json.dumps(SCHEMA)))
    assert sql_type(column.arrow) == (
        "struct<`id`: bigint, `price`: decimal(9,2), `at`: timestamp_ltz, `local`: timestamp_ntz, `day`: date, "
        "`side`: string, `other`: string, `sizes`: array<int>, `legs`: map<string, string>, `either`: string>"
    )
    trade = {"id": 1, "price": Decimal("1.25"), "at": NOON, "local": None, "day": NOON.date(), "side": "BUY"}
    trade |= {"other": "SELL", "sizes": [1, 2], "legs": {}, "either": 7}
    bytes_ = io.BytesIO()
    parsed = parse_schema(SCHEMA)
    schemaless_writer(bytes_, parsed, {**trade, "legs": {"a": trade, "b": None}, "local": NOON.replace(tzinfo=None)})
    bytes_.seek(0)
    (found,) = stored(column, schemaless_reader(bytes_, parsed, parsed))
    assert (found["price"], found["at"], found["local"]) == (Decimal("1.25"), NOON, NOON.replace(tzinfo=None))
    assert (found["side"], found["sizes"], found["either"]) == ("BUY", [1, 2], "7")
    legs = dict(found["legs"])
    assert legs["b"] is None
    assert json.loads(legs["a"])["id"] == 1


@pytest.mark.parametrize("text", ["{", '{"type": "record"}', '"nothing"', "7", '{"type": 7}'])
def test_what_is_no_avro_schema_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="an Avro schema cannot be read"):
        TypedColumn.of(SchemaRegistry("http://nobody.invalid").avro(text))


def message_class() -> Any:
    """A class as Protobuf's compiler makes it: scalars, an enum, a map, a message within itself, a time."""
    kinds = descriptor_pb2.FieldDescriptorProto
    time = timestamp_pb2.DESCRIPTOR
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3", dependency=[time.name])
    colour = file.enum_type.add(name="Colour")
    colour.value.add(name="NONE", number=0)
    colour.value.add(name="RED", number=1)
    message = file.message_type.add(name="Order")
    entry = message.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT32, label=1)
    message.oneof_decl.add(name="_note")
    message.field.add(name="id", number=1, type=kinds.TYPE_UINT64, label=1)
    message.field.add(name="note", number=2, type=kinds.TYPE_STRING, label=1, oneof_index=0, proto3_optional=True)
    message.field.add(name="colour", number=3, type=kinds.TYPE_ENUM, type_name=".t.Colour", label=1)
    message.field.add(name="sizes", number=4, type=kinds.TYPE_FLOAT, label=3)
    message.field.add(name="counts", number=5, type=kinds.TYPE_MESSAGE, type_name=".t.Order.CountsEntry", label=3)
    message.field.add(name="parent", number=6, type=kinds.TYPE_MESSAGE, type_name=".t.Order", label=1)
    message.field.add(name="at", number=7, type=kinds.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(time.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Order"))


def test_a_protobuf_message_is_a_struct_of_its_fields() -> None:
    kind = message_class()
    serde = Serdes.protobuf(kind)
    column = TypedColumn.of(serde)
    assert sql_type(column.arrow) == (
        "struct<`id`: decimal(20,0), `note`: string, `colour`: string, `sizes`: array<float>, "
        "`counts`: map<string, int>, `parent`: string, `at`: timestamp_ltz>"
    )
    message = kind(id=1 << 63, colour=1, sizes=[1.5], counts={"a": 2}, parent=kind(id=3))
    message.at.FromDatetime(NOON)
    first, second = stored(column, serde.deserialize(serde.serialize(message)), kind(note=""))
    assert (first["id"], first["note"], first["colour"], first["sizes"]) == (Decimal(1 << 63), None, "RED", [1.5])
    assert (first["counts"], json.loads(first["parent"]), first["at"]) == ([("a", 2)], {"id": "3"}, NOON)
    assert (second["note"], second["colour"], second["parent"], second["at"]) == ("", "NONE", None, None)


def test_serdes_that_say_nothing_of_their_values_give_text() -> None:
    assert stored(TypedColumn.of(Serdes.json()), {"a": "ä"}, "x", 1) == ['{"a":"ä"}', '"x"', "1"]
    assert stored(TypedColumn.of(Serdes.msgpack()), {1: b""}) == ['{"1":"b\'\'"}']
    assert stored(TypedColumn.of(Serdes.uuid()), UUID(int=1)) == ["00000000-0000-0000-0000-000000000001"]
    custom = Serdes.of(str.encode, bytes.decode, name="mine")
    assert stored(TypedColumn.of(custom), ("a", 1)) == ["('a', 1)"]


def test_a_value_that_its_column_cannot_have_is_named() -> None:
    columns = StoreColumns(
        "orders", TypedColumn.of(Serdes.string()), TypedColumn.of(Serdes.json(dict[str, int])), False, False
    )
    schema = pa.schema([(name, kind) for name, kind in columns._types.items()])
    rows = [("good", [("a", 1)], 1, "0_0", 5), ("odd", [("a", 1 << 63)], 1, "0_0", 6)]
    with pytest.raises(
        StreamsError, match=r"task 0_0, key 'odd': value is \[\('a', 9223372036854775808\)\], and its col"
    ):
        list(arrow_batches(rows, schema, "0_0", columns))

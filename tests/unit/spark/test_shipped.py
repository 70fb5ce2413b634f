"""Programs that go to Spark's workers keep their serdes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from streamsapp import Consumed, Produced, Serdes, StreamsBuilder
from streamsapp_spark.programs.shipped import PickledProgram
from task_parts import config, raw, sent


@pytest.mark.parametrize("name", ["short", "integer", "long", "double"])
def test_numbers_are_read_and_written_in_workers_as_here(name: str) -> None:
    serde: Any = getattr(Serdes, name)()
    builder = StreamsBuilder()
    builder.stream("in", Consumed(serde, serde)).map_values(lambda value: value + 1).to("out", Produced(serde, serde))

    topology, settings = PickledProgram.of(builder.build(), config(default_key_serde=serde)).load()

    data, more = serde.serialize(7), serde.serialize(8)
    assert [record[:3] for record in sent(topology, raw(0, key=data, value=data))] == [("out", more, data)]
    assert settings.default_key_serde.serialize(8) == more


@dataclass
class Order:
    id: int


class Model(BaseModel):
    id: int


@pytest.mark.parametrize(
    ("serde", "data", "more"),
    [
        (Serdes.json(Order), b'{"id":7}', b'{"id":8}'),
        (Serdes.json(Model), b'{"id":7}', b'{"id":8}'),
        (Serdes.msgpack(Order), b"\x81\xa2id\x07", b"\x81\xa2id\x08"),
        (Serdes.json(), b'{"id":7}', b'{"id":8}'),
        (Serdes.msgpack(), b"\x81\xa2id\x07", b"\x81\xa2id\x08"),
    ],
    ids=["dataclass", "model", "msgpack", "json", "any msgpack"],
)
def test_types_are_read_and_written_in_workers_as_here(serde: Any, data: bytes, more: bytes) -> None:
    def later(value: Any) -> Any:
        if isinstance(value, dict):
            return {"id": value["id"] + 1}
        return type(value)(id=value.id + 1)

    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serdes.string(), serde)).map_values(later).to("out", Produced(Serdes.string(), serde))

    topology, settings = PickledProgram.of(builder.build(), config(default_value_serde=serde)).load()

    assert [record[:3] for record in sent(topology, raw(0, key=b"k", value=data))] == [("out", more, b"k")]
    assert settings.default_value_serde.deserialize(data) == serde.deserialize(data)

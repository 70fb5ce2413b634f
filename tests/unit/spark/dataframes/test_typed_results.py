"""The results of a topic have the types of its serdes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
import pytest

from streamsapp import Consumed, Produced, Serdes, StreamsBuilder, StreamsConfig, Topology
from streamsapp.errors import ConfigError, StreamsError
from streamsapp_spark.dataframes.results import SCHEMA
from streamsapp_spark.dataframes.typed_results import typed, typed_results
from streamsapp_spark.programs.shipped import PickledProgram


@dataclass
class Order:
    id: int
    tags: list[str]


def topology() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("in", Consumed(Serdes.string(), Serdes.json(Order)))
    orders.to("orders", Produced(Serdes.string(), Serdes.json(Order)))
    builder.stream("raw").to("plain")
    return builder.build()


def rows(topic: str, *values: bytes | None) -> list[pa.RecordBatch]:
    headers = [{"key": "h", "value": b"x"}]
    other = {"topic": topic, "key": b"k", "timestamp": datetime(2026, 1, 31, tzinfo=UTC), "headers": headers}
    of = [{**other, "value": value} for value in values]
    return [pa.RecordBatch.from_pylist(of, SCHEMA)]


def read(topic: str, *values: bytes | None) -> list[dict[str, Any]]:
    program = PickledProgram.of(topology(), StreamsConfig(application_id="a", bootstrap_servers="none:1"))
    return [row for batch in typed(program, topic, rows(topic, *values)) for row in batch.to_pylist()]


def test_values_are_structs_of_their_fields_and_the_rest_stays() -> None:
    first, second = read("orders", b'{"id": 1, "tags": ["a"]}', None)
    assert (first["key"], first["value"], second["value"]) == ("k", {"id": 1, "tags": ["a"]}, None)
    assert (first["partition"], first["headers"]) == (None, [{"key": "h", "value": b"x"}])
    assert first["timestamp"] == datetime(2026, 1, 31, tzinfo=UTC)


def test_a_topic_without_serdes_stays_bytes() -> None:
    assert read("plain", b"\x00\xff")[0]["value"] == b"\x00\xff"


def test_what_is_not_written_and_what_cannot_be_read_is_named() -> None:
    with pytest.raises(ConfigError, match="the topology writes no topic 'others'; it writes: orders, plain"):
        typed_results(topology(), cast(Any, None), "others")
    with pytest.raises(StreamsError, match="a value of topic orders is nothing that its column, struct<`id`: bigint, "):
        read("orders", b"[]")

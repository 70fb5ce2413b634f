"""The records that ``local`` prints as samples: those of the project, else made of the types."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import pytest

from streamsapp import Consumed, Serdes, StreamsBuilder, StreamsConfig
from streamsapp.cli.record_lines import read_record
from streamsapp.cli.samples import sample, samples_of
from streamsapp.cli.topic_serdes import TopicRecords
from streamsapp.serdes.api import AnySerde

TEXT, JSON = Serdes.string(), Serdes.json()
CONFIG = StreamsConfig(application_id="app", bootstrap_servers="none:9092")


class Colour(Enum):
    RED = "red"


class Item(NamedTuple):
    name: str
    pieces: int


@dataclass
class Address:
    street: str
    inner: Address | None = None


@dataclass
class Order:
    item: str
    pieces: int
    price: float
    at: datetime
    colour: Colour
    how: Literal["post", "van"]
    address: Address
    tags: list[str] = field(default_factory=list)
    note: str | None = None


class Row(TypedDict):
    name: str


class Tagged(msgspec.Struct, tag="tagged", rename="camel"):
    some_items: tuple[Item, ...]


@pytest.mark.parametrize(
    "serde", [Serdes.json(Order), Serdes.msgpack(Order), Serdes.json(Row), Serdes.json(Tagged), Serdes.json(list[int]),
              TEXT, JSON, Serdes.bytes(), Serdes.long(), Serdes.boolean()],
    ids=lambda serde: serde.name,
)  # fmt: skip
def test_a_sample_of_a_type_is_one_that_its_serde_takes(serde: AnySerde) -> None:
    line = sample(TopicRecords(TEXT, serde))

    assert line is not None
    read = read_record(line.encode(), TEXT, serde)
    assert serde.deserialize(read.value_bytes or b"") == read.value


def test_a_sample_has_the_fields_of_its_type() -> None:
    line = sample(TopicRecords(TEXT, Serdes.json(Order)))

    assert json.loads(line or "")["value"] == {
        "item": "text", "pieces": 1, "price": 1.5, "at": "2026-01-31T12:00:00Z", "colour": "red", "how": "post",
        "address": {"street": "text"}, "tags": ["text"],
    }  # fmt: skip


def test_nobody_knows_what_a_serde_of_the_users_takes() -> None:
    own: Any = Serdes.of(str.encode, bytes.decode)
    assert sample(TopicRecords(TEXT, own)) is None
    assert json.loads(sample(TopicRecords(own, TEXT)) or "") == {"value": "hello"}


def test_the_samples_of_a_project_come_first_in_their_order(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    builder = StreamsBuilder()
    for topic in ("a", "b", "c", "d"):
        builder.stream(topic, Consumed(TEXT, TEXT if topic == "d" else JSON)).foreach(lambda key, value: None)
    (tmp_path / "samples.jsonl").write_text(
        '{"topic": "c", "key": "1", "value": {"n": 1}}\n\n{"topic": "c", "key": "2", "value": {"n": 2}}\n'
        '{"topic": "b", "value": [1]}\n{"topic": "other", "value": 1}\n{"topic": "d", "value": 1}\nno JSON\n'
    )

    assert list(samples_of(builder.build(), CONFIG, tmp_path).items()) == [
        ("c", '{"key": "1", "value": {"n": 1}}'),
        ("b", '{"value": [1]}'),
        ("a", '{"key": "jane", "value": {"hello": "world"}}'),
        ("d", '{"key": "jane", "value": "hello"}'),
    ]
    assert [record.getMessage().split(": ")[0] for record in caplog.records] == [
        f"{tmp_path}/samples.jsonl, line 6", f"{tmp_path}/samples.jsonl, line 7"
    ]  # fmt: skip

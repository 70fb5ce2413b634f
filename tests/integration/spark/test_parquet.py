"""History from files, after Kafka has forgotten it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from pyarrow import parquet

from instances import Instances, produce
from kafka_cluster import Kafka
from spark_apps import App

pytestmark = pytest.mark.timeout(900)

PARTITIONS = 2

PROGRAM = """
from streamsapp import *

TEXT = Serdes.string()

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT))
    words.group_by_key(Grouped(TEXT, TEXT)).count(
        Materialized("counts", key_serde=TEXT, value_serde=Serdes.long()))
    return builder.build()
"""


def archive(kafka: Kafka, topic: str, path: Path) -> int:
    """What a topic holds, as Spark's Kafka connector would write it; how far its partitions go, added up."""
    columns: dict[str, list[Any]] = {name: [] for name in ("topic", "partition", "offset", "key", "value", "timestamp")}
    for message in reversed(kafka.read(topic)):  # in any order
        time = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
        row = (topic, message.partition(), message.offset(), message.key(), message.value(), time)
        for name, value in zip(columns, row, strict=True):
            columns[name].append(value)
    path.mkdir()
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary()),
                        ("value", pa.binary()), ("timestamp", pa.timestamp("us", "UTC"))])  # fmt: skip
    parquet.write_table(pa.table(columns, schema=schema), path / "part.parquet")
    return len(columns["offset"])


def forget(kafka: Kafka, topic: str) -> None:
    """Delete all records."""
    ends: dict[int, int] = {}
    for message in kafka.read(topic):
        ends[message.partition() or 0] = (message.offset() or 0) + 1
    for future in kafka.admin.delete_records([TopicPartition(topic, *each) for each in ends.items()]).values():
        future.result()


def test_files_are_history_and_kafka_goes_on_from_there(instances: Instances, kafka: Kafka, tmp_path: Path) -> None:
    words = kafka.create_topic("words", PARTITIONS)
    app = App(instances, kafka.unique("archived"), PROGRAM.replace("{words}", words))
    first = [f"word{number % 20}" for number in range(400)]
    produce(kafka, words, [(word.encode(), b"x", 1_000 + n) for n, word in enumerate(first)])
    assert archive(kafka, words, tmp_path / "archive") == len(first)
    forget(kafka, words)
    later = [f"word{number % 30}" for number in range(100)]
    produce(kafka, words, [(word.encode(), b"x", 2_000 + n) for n, word in enumerate(later)])

    said = app.bootstrap("--from", f"parquet:{tmp_path / 'archive'}")
    assert f"{len(first)} records ({len(first)} offsets of history)" in said
    instance = app.start()
    app.processed(words)
    instance.close(20)
    counted = {key: value.value for (_, key), value in app.stored()["counts"].items()}
    assert counted == Counter(first + later)

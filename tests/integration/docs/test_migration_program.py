"""The rows about a running application, on the page about Kafka Streams, are a program that runs as it stands."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from instances import Instances, eventually, produce
from kafka_cluster import Kafka
from migration_rows import NAMES, RUNNING, minute, number, rows, text
from streamsapp import (
    Consumed,
    Materialized,
    Produced,
    SessionWindows,
    StreamsBuilder,
    StreamsRuntime,
    TimeWindows,
    Topology,
    Windowed,
)
from streamsapp.errors import StoreNotAvailableError

pytestmark = pytest.mark.long


def counted(source: str, sink: str) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(source, Consumed(text, text)).group_by_key()
    grouped.windowed_by(TimeWindows.of(minute)).count(Materialized("per-minute", retention=timedelta(days=1)))
    grouped.windowed_by(SessionWindows.of(minute)).count(Materialized("sessions"))
    grouped.count(Materialized("counts")).to_stream().to(sink, Produced(text, number))
    return builder.build()


def all_is_counted(streams: StreamsRuntime) -> bool:
    try:
        tables = [dict(streams.query(store)) for store in ("counts", "per-minute", "sessions")]
    except StoreNotAvailableError:
        return False
    return [sum(table.values()) for table in tables] == [3, 3, 3]


def test_the_rows_run_one_after_the_other(kafka: Kafka, instances: Instances) -> None:
    source = kafka.create_topic("in")
    produce(kafka, source, [(b"a", b"x", 1_000), (b"a", b"y", 2_000), (b"b", b"z", 3_000)])
    names: dict[str, Any] = NAMES | {
        "topology": counted(source, kafka.create_topic("out")),
        "config": instances.config(),
    }
    results: dict[str, Any] = {}
    try:
        for row in rows(RUNNING):
            name, expression = row.python.split(" = ") if row.python.startswith("streams = ") else ("", row.python)
            results[row.python] = eval(expression, names)  # noqa: S307 - our own page
            if name:
                names[name] = results[row.python]
            if row.python == "streams.start()":
                eventually(lambda: all_is_counted(names["streams"]), "all records")
    finally:
        names["streams"].close()
    assert results['streams.query("counts", "a")'] == 2
    assert results['dict(streams.query("counts", from_="a", to="m"))'] == {"a": 2, "b": 1}
    windows = results['dict(streams.query("per-minute", "a", from_time=0))']
    assert windows == {Windowed("a", 0, 60_000): 2}
    assert results['dict(streams.query("sessions", "a"))'] == {Windowed("a", 1_000, 2_000): 2}
    assert results["streams.close(timedelta(seconds=30))"] is True

"""Joins with tables beyond Kafka Streams' test driver: mistakes, partitions, updates held for the commit."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from streamsapp import (
    Consumed,
    Joined,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    TableJoined,
)
from streamsapp.dsl.kstream import KStream
from streamsapp.dsl.ktable import KTable
from streamsapp.errors import ProcessingError, TopicError, TopologyError
from streamsapp.record import Headers
from streamsapp.testing import TestInputTopic, TopologyTestDriver
from streamsapp.topology.partitioning import partition_counts

TEXT = Serdes.string()
READ: Consumed[str, str] = Consumed(TEXT, TEXT)
CONFIG = StreamsConfig(application_id="app", bootstrap_servers="unused:9092")


def _both(row: str | None, other: str | None) -> str:
    return f"{row}/{other}"


def test_joined_tables_send_at_the_commit_the_deletion_of_what_they_had_sent() -> None:
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left", READ)
    right: KTable[str, str] = builder.table("right", READ)
    joined = left.join(right, _both, materialized=Materialized("joined", TEXT, TEXT, emit="commit"))
    joined.to_stream().to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        lefts, rights = (driver.create_input_topic(name, TEXT, TEXT) for name in ("left", "right"))
        out = driver.create_output_topic("out", TEXT, TEXT)
        lefts.pipe_input("a", "l", 1)
        rights.pipe_input("a", "r", 2)
        lefts.pipe_input("a", None, 3)
        assert [(record.key, record.value) for record in out.read_records()] == [("a", "l/r"), ("a", None)]


def test_joined_topics_need_equally_many_partitions() -> None:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("table", READ)
    stream = builder.stream("stream", READ)
    stream.join(table, _both).to("out")
    parts = builder.build().sub_topologies()
    assert partition_counts(parts, "app", {"stream": 3, "table": 3}) == {"stream": 3, "table": 3}
    with pytest.raises(TopicError, match=r"stream: 3, table: 4.*repartition"):
        partition_counts(parts, "app", {"stream": 3, "table": 4})


def test_topics_of_a_foreign_key_join_have_the_partitions_of_the_table_that_reads_them() -> None:
    builder = StreamsBuilder()
    orders: KTable[str, str] = builder.table("orders", READ)
    customers: KTable[str, str] = builder.table("customers", READ)
    orders.join(customers, lambda order: order, _both, table_joined=TableJoined(name="j"))
    counts = partition_counts(builder.build().sub_topologies(), "app", {"orders": 2, "customers": 5})
    assert counts["app-j-subscription-registration-topic"] == 5
    assert counts["app-j-subscription-response-topic"] == 2


def test_what_cannot_be_joined_is_told() -> None:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("table", READ)
    stream = builder.stream("stream", READ)
    elsewhere: KTable[str, str] = StreamsBuilder().table("other", READ)
    mistakes: list[tuple[Any, str]] = [
        (lambda: stream.join(table, _both, Joined(grace=5)), "versioned"),
        (lambda: stream.join(elsewhere, _both), "another StreamsBuilder"),
        (lambda: table.join(elsewhere, _both), "another StreamsBuilder"),
        (lambda: table.join(stream, _both), "KTable"),  # type: ignore[call-overload]
        (lambda: table.join(table, lambda: "none"), "left, right"),  # type: ignore[misc, arg-type]
        (lambda: stream.join(table, lambda row: "one"), "row"),
    ]
    for mistake, message in mistakes:
        with pytest.raises(TopologyError, match=message):
            mistake()


#: Of Kafka Streams' guide: side, value, and what an inner, a left and an outer join of tables send then.
_DOCUMENTED: list[tuple[str, str | None, list[str | None], list[str | None], list[str | None]]] = [
    ("left", None, [], [], []),
    ("right", None, [], [], []),
    ("left", "A", [], ["A/None"], ["A/None"]),
    ("right", "a", ["A/a"], ["A/a"], ["A/a"]),
    ("left", "B", ["B/a"], ["B/a"], ["B/a"]),
    ("right", "b", ["B/b"], ["B/b"], ["B/b"]),
    ("left", None, [None], [None], ["None/b"]),
    ("right", None, [], [], [None]),
    ("left", "C", [], ["C/None"], ["C/None"]),
    ("right", "c", ["C/c"], ["C/c"], ["C/c"]),
    ("right", None, [None], ["C/None"], ["C/None"]),
    ("left", None, [], [None], [None]),
    ("right", None, [], [], []),
    ("right", "d", [], [], ["None/d"]),
    ("left", "D", ["D/d"], ["D/d"], ["D/d"]),
]


@pytest.mark.parametrize(("join", "column"), [("join", 2), ("left_join", 3), ("outer_join", 4)])
def test_joins_of_tables_send_what_kafka_streams_documents(join: str, column: int) -> None:
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left", READ)
    right: KTable[str, str] = builder.table("right", READ)
    getattr(left, join)(right, _both).to_stream().to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        inputs = {name: driver.create_input_topic(name, TEXT, TEXT) for name in ("left", "right")}
        out = driver.create_output_topic("out", TEXT, TEXT)
        for at, row in enumerate(_DOCUMENTED):
            inputs[row[0]].pipe_input("key", row[1], at)
            assert [record.value for record in out.read_records()] == row[column], row


@pytest.mark.parametrize(
    ("join", "results"), [("join", ["B/b", "D/b"]), ("left_join", ["A/None", "B/b", "D/b", "E/None"])]
)
def test_a_stream_joined_with_a_table_sends_what_kafka_streams_documents(join: str, results: list[str]) -> None:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("table", READ)
    getattr(builder.stream("stream", READ), join)(table, _both).to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        inputs = {name: driver.create_input_topic(name, TEXT, TEXT) for name in ("stream", "table")}
        out = driver.create_output_topic("out", TEXT, TEXT)
        records = [
            ("stream", "A"),
            ("table", "b"),
            ("stream", "B"),
            ("stream", None),
            ("stream", "D"),
            ("table", None),
            ("stream", "E"),
        ]
        for at, (name, value) in enumerate(records):
            inputs[name].pipe_input("key", value, at)
        assert [record.value for record in out.read_records()] == results


def test_what_joins_and_versioned_tables_leave_out_is_counted() -> None:
    builder = StreamsBuilder()
    versions: KTable[str, str] = builder.table("table", READ, Materialized("versions", versioned=50))
    other: KTable[str, str] = builder.table("other", READ)
    stream = builder.stream("stream", READ)
    stream.join(versions, _both, Joined(grace=5)).to("out")
    versions.join(other, _both).to_stream().to("by-key")
    versions.join(other, lambda row: row, _both).to_stream().to("by-foreign-key")
    with TopologyTestDriver(builder.build()) as driver:
        rows, records = (driver.create_input_topic(name, TEXT, TEXT) for name in ("table", "stream"))

        def dropped(pipe: TestInputTopic, key: str | None, value: str | None, timestamp: int) -> int:
            before = driver._tasks[0].context.dropped_records
            pipe.pipe_input(key, value, timestamp)
            return driver._tasks[0].context.dropped_records - before

        assert dropped(rows, "a", "new", 100) == 0
        assert dropped(rows, "a", "older than the history", 49) == 1
        assert dropped(rows, "a", "late for both joins of tables", 60) == 2
        assert dropped(records, None, "without key", 100) == 1
        assert dropped(records, "a", None, 100) == 1
        assert dropped(records, "a", "waits", 100) == 0


def test_an_answer_for_a_row_that_has_changed_is_counted_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It is a part of normal work: a table that changes often has many."""
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("rows", READ)
    rows = stream.flat_map_values(lambda text: text.split()).to_table(Materialized("kept", TEXT, TEXT))
    other: KTable[str, str] = builder.table("other", READ)
    rows.join(other, lambda row: row[0], _both).to_stream().to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("other", TEXT, TEXT).pipe_key_values([("x", "X"), ("y", "Y")])
        driver.create_input_topic("rows", TEXT, TEXT).pipe_input("a", "x1 y2")  # both are on their way at once

        assert driver.create_output_topic("out", TEXT, TEXT).read_key_values() == [("a", "y2/Y")]
        assert driver._tasks[0].context.dropped_records == 1
    assert caplog.records == []


@pytest.mark.parametrize("left_read", [None, Consumed(Serdes.double(), TEXT)], ids=["undeclared", "left declared"])
def test_rows_of_a_foreign_key_join_travel_by_the_configured_serdes(left_read: Consumed[Any, str] | None) -> None:
    builder = StreamsBuilder()
    left: KTable[Any, str] = builder.table("left", left_read)
    foreign: KTable[int, str] = builder.table("foreign")
    left.join(foreign, lambda row: int(row[0]), _both).to_stream().to("out")
    config = replace(CONFIG, default_key_serde=Serdes.long(), default_value_serde=TEXT)
    key_serde = Serdes.long() if left_read is None else Serdes.double()
    with TopologyTestDriver(builder.build(), config) as driver:
        lefts = driver.create_input_topic("left", key_serde, TEXT)
        foreigns = driver.create_input_topic("foreign", Serdes.long(), TEXT)
        lefts.pipe_input(1, "7a")
        foreigns.pipe_input(7, "x")
        foreigns.pipe_input(8, "z")
        lefts.pipe_input(1, "8b")
        foreigns.pipe_input(8, None)
        found = driver.create_output_topic("out", key_serde, TEXT).read_key_values()
    assert found == [(1, "7a/x"), (1, "8b/z"), (1, None)]


@pytest.mark.parametrize("side", ["partitioner", "other_partitioner"])
def test_a_partitioner_of_a_foreign_key_join_may_see_the_headers_of_what_travels(side: str) -> None:
    told: list[Any] = []

    def partitioner(topic: str, key: str, value: None, headers: Headers, partitions: int) -> int:
        told.append((key, value, headers, partitions))
        return 0

    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left", READ)
    other: KTable[str, str] = builder.table("other", READ)
    options: TableJoined[str, str] = replace(TableJoined(), **{side: partitioner})  # type: ignore[arg-type]
    left.join(other, lambda row: row[0], _both, options).to_stream().to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("other", TEXT, TEXT).pipe_input("x", "X")
        driver.create_input_topic("left", TEXT, TEXT).pipe_input("a", "x1", headers=[("h", b"1")])
    assert told == [("x" if side == "other_partitioner" else "a", None, [("h", b"1")], 1)]


@pytest.mark.parametrize("side", ["partitioner", "other_partitioner"])
def test_a_partitioner_of_a_foreign_key_join_has_to_choose_one_partition(side: str) -> None:
    def joined(chosen: Any) -> list[Any]:
        builder = StreamsBuilder()
        left: KTable[str, str] = builder.table("left", READ)
        other: KTable[str, str] = builder.table("other", READ)
        options: TableJoined[str, str] = replace(TableJoined(), **{side: lambda *asked: chosen})  # type: ignore[arg-type]
        left.join(other, lambda row: row[0], _both, options).to_stream().to("out", Produced(TEXT, TEXT))
        with TopologyTestDriver(builder.build()) as driver:
            driver.create_input_topic("other", TEXT, TEXT).pipe_input("x", "X")
            driver.create_input_topic("left", TEXT, TEXT).pipe_input("a", "x1")
            return driver.create_output_topic("out", TEXT, TEXT).read_key_values()

    assert joined(0) == joined([0]) == joined(None) == [("a", "x1/X")]
    message = r"the partitioner of a foreign-key join has to choose one partition of topic .*-topic, got "
    for chosen in ([], [0, 1]):
        with pytest.raises(ProcessingError, match=message + re.escape(str(chosen))):
            joined(chosen)

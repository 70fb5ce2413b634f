"""The names, parameters, positions and results that users rely on: each is used here as the documentation writes it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from streamsapp import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Named,
    Printed,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Repartitioned,
    Serdes,
    Stores,
    StreamJoined,
    StreamsBuilder,
    StreamsConfig,
    StreamsRuntime,
    TableJoined,
    TaskId,
    TopicPartition,
    Topology,
    Windowed,
)
from streamsapp.errors import TopologyError
from streamsapp.record import InputRecord
from streamsapp.runtime.data_path import ENGINE
from streamsapp.testing import MockClock, TopologyTestDriver

text, number = Serdes.string(), Serdes.long()


def from_value(record: InputRecord, key: Any, value: Any, partition_time_ms: int) -> int:
    return len(value)


def run(topology: Topology, *records: tuple[Any, Any], out: Any = text) -> list[Record]:
    """Returns what comes out of ``out`` for records that go into ``in``, a second apart."""
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("in", text, text, 0, 1000)
        for key, value in records:
            source.pipe_input(key, value)
        return driver.create_output_topic("out", text, out).read_records()


def pairs(records: list[Record]) -> list[tuple[Any, Any]]:
    return [(record.key, record.value) for record in records]


def as_any(option: Any) -> Any:
    """Returns it without its types: a type checker would refuse the call."""
    return option


def partition(topic: str, key: Any, value: Any, partitions: int) -> int:
    return 0


# ---- options -----------------------------------------------------------------------------------------------------


def test_consumed_takes_name_serdes_and_extractor_in_this_order_and_by_name() -> None:
    for consumed in (
        Consumed("reader", text, text, from_value),
        Consumed(key_serde=text, value_serde=text, timestamp_extractor=from_value, name="reader"),
    ):
        builder = StreamsBuilder()
        builder.stream("in", consumed).to("out")
        topology = builder.build()
        assert "Source: reader (topics: [in])" in topology.describe().to_text()
        assert [record.timestamp for record in run(topology, ("k", "abc"))] == [3]


@pytest.mark.parametrize(
    ("option", "values", "field"),
    [
        (Consumed, {"key_serde": text, "value_serde": number, "timestamp_extractor": from_value}, "name"),
        (Produced, {"key_serde": text, "value_serde": number, "partitioner": partition}, "name"),
        (Grouped, {"key_serde": text, "value_serde": number}, "name"),
        (Repartitioned, {"key_serde": text, "value_serde": number}, "name"),
        (Materialized, {"key_serde": text, "value_serde": number}, "store_name"),
        (Joined, {"key_serde": text, "value_serde": number, "other_value_serde": text}, "name"),
        (StreamJoined, {"key_serde": text, "value_serde": number, "other_value_serde": text}, "name"),
        (TableJoined, {"partitioner": partition, "other_partitioner": partition}, "name"),
        (Branched, {"function": str}, "name"),
        (Printed, {}, "label"),
    ],
)
def test_every_option_takes_its_name_first_or_leaves_it_out(option: Any, values: dict[str, Any], field: str) -> None:
    named = option(**{field: "n"}, **values)
    assert option("n", *values.values()) == named
    assert option("n", **values) == named
    assert option(*values.values(), **{field: "n"}) == named
    assert option(*values.values()) == option(**values) == replace(named, **{field: None})
    assert option(None, *values.values()) == option(**values)
    if values:
        with pytest.raises(
            TopologyError, match=rf"name comes first, {option.__name__}\('n', .*, or by name: {field}='n'"
        ):
            option(*values.values(), "n")
    with pytest.raises(TopologyError, match="by position, and all else by name"):
        option("n", *values.values(), True, True)
    with pytest.raises(TopologyError, match=f"{field} is given twice"):
        option("n", **{field: "n"})


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: as_any(Materialized)(name="s"), "Materialized has no 'name'; did you mean store_name"),
        (lambda: as_any(Consumed)(key=text), "Consumed has no 'key'; did you mean key_serde"),
        (
            lambda: as_any(Grouped)(partitions=3),
            "Grouped has no 'partitions'; it has key_serde, value_serde, name, combine",
        ),
    ],
)
def test_an_option_that_is_not_there_is_answered_with_those_that_are(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        make()


def test_materialized_has_these_defaults() -> None:
    default = Materialized[Any, Any]()
    assert (default.store_name, default.store, default.retention) == (None, "rocksdb", None)
    assert (default.key_serde, default.value_serde, default.logging, default.caching) == (None, None, True, True)


# ---- the DSL -----------------------------------------------------------------------------------------------------


def test_functions_of_streams_are_given_what_the_contract_says() -> None:
    seen: list[Any] = []
    builder = StreamsBuilder()
    stream = builder.stream(["in"], Consumed(text, text)).filter(lambda k, v: k != "drop")
    stream = stream.filter_not(lambda k, v: v == "drop").peek(lambda k, v: seen.append((k, v)))
    stream = stream.map(lambda k, v: (k.upper(), v)).map_values(lambda v: v + "!").map_values(lambda k, v: k + v)
    stream = stream.flat_map(lambda k, v: [(k, v), (k, "x")]).flat_map_values(lambda v: [v]).select_key(lambda k, v: v)
    stream.foreach(lambda k, v: seen.append(v))
    stream.to("out", Produced(text, text))

    assert pairs(run(builder.build(), ("a", "1"), ("drop", "2"), ("b", "drop"))) == [("A1!", "A1!"), ("x", "x")]
    assert seen == [("a", "1"), "A1!", "x"]


def test_a_split_gives_its_branches_by_name_and_merges_again() -> None:
    builder = StreamsBuilder()
    branches = builder.stream("in", Consumed(text, text)).split(Named("by-")).branch(lambda k, v: v == "1", "one")
    parts = branches.default_branch("rest")
    parts["by-one"].map_values(lambda v: "one").merge(parts["by-rest"]).to("out", Produced(text, text))

    assert pairs(run(builder.build(), ("k", "1"), ("k", "2"))) == [("k", "one"), ("k", "2")]


def test_groups_count_reduce_and_aggregate() -> None:
    builder = StreamsBuilder()
    source = builder.stream("in", Consumed(text, text)).repartition(Repartitioned("again", text, text))
    source.group_by_key().count(Materialized("counts"))
    source.group_by(lambda k, v: v, Grouped(text, text)).reduce(lambda old, new: old + new, Materialized("joined"))
    source.group_by_key(Grouped(text, text)).aggregate(
        lambda: 0, lambda key, value, total: total + len(key + value), Materialized("sizes", value_serde=number)
    )

    with TopologyTestDriver(builder.build()) as driver:
        source_topic = driver.create_input_topic(topic="in", key_serde=text, value_serde=text)
        for value in ("x", "y", "x"):
            source_topic.pipe_input("k", value)
        assert driver.get_key_value_store("counts").get("k") == 3
        assert driver.get_key_value_store("joined").get("x") == "xx"
        assert driver.get_key_value_store("sizes").get("k") == 6


def test_tables_filter_map_regroup_and_become_streams() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", Consumed(text, text), Materialized("rows"))
    table = table.filter(lambda k, v: v != "no").filter_not(lambda k, v: v == "never").map_values(lambda v: v.upper())
    grouped = table.group_by(lambda k, v: (v, k), Grouped(text, text))
    counts = grouped.count(Materialized("members"))
    grouped.reduce(lambda total, row: total + row, lambda total, row: total.replace(row, ""), Materialized("names"))
    grouped.aggregate(
        lambda: 0, lambda key, row, total: total + 1, lambda key, row, total: total - 1, Materialized("n", text, number)
    )
    counts.to_stream().to("out", Produced(text, number))

    topology = builder.build()
    assert pairs(run(topology, ("a", "x"), ("b", "x"), ("a", "y"), out=number)) == [
        ("X", 1),
        ("X", 2),
        ("X", 1),
        ("Y", 1),
    ]


# ---- topology and processors -------------------------------------------------------------------------------------


class Tally(Processor):
    """Uses all of the context, and a store."""

    def init(self, context: ProcessorContext) -> None:
        self.context, self.store = context, context.get_state_store("tally")
        context.schedule(timedelta(seconds=10), PunctuationType.WALL_CLOCK_TIME, self.tick)
        assert (context.application_id, context.task_id) == ("test", TaskId(0, 0))

    def process(self, record: Record) -> None:
        metadata = self.context.record_metadata
        assert metadata is not None
        self.store.put(record.key, (self.store.get(record.key) or 0) + 1)
        told = f"{metadata.topic}-{metadata.partition}@{metadata.offset} {self.context.current_stream_time_ms}"
        self.context.forward(record.with_value(told), child="sink")
        self.context.commit()

    def tick(self, now_ms: int) -> None:
        assert now_ms == self.context.current_system_time_ms
        self.context.forward(Record("tick", "tock", now_ms))

    def close(self) -> None:
        self.store = None


def tally() -> Topology:
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("tally"), text, number)
    topology = Topology()
    topology.add_source(
        "source",
        "in",
        "more",
        key_deserializer=text,
        value_deserializer=text,
        timestamp_extractor=from_value,
        offset_reset="earliest",
    )
    topology.add_processor("tally", Tally, "source")
    topology.add_state_store(store, "tally")
    topology.connect_processor_and_state_stores("tally", "tally")
    return topology.add_sink(
        "sink", lambda key, value, metadata: "out", "tally", key_serializer=text, value_serializer=text
    )


def test_a_topology_by_hand_runs_a_processor_with_its_context() -> None:
    with TopologyTestDriver(tally(), None, 5000) as driver:
        source = driver.create_input_topic("more", text, text)
        source.pipe_input("k", "four", timestamp_ms=1, headers=[("h", b"1")], partition=2)
        driver.advance_wall_clock_time(timedelta(seconds=10))
        output = driver.create_output_topic("out", text, text)
        assert output.read_record() == Record("k", "more-2@0 4", 4, [("h", b"1")])
        assert output.read_records() == [Record("tick", "tock", 15_000)]
        assert output.is_empty()
        assert driver.get_key_value_store("tally").get("k") == 1


def test_a_key_value_store_has_all_its_methods() -> None:
    with TopologyTestDriver(tally()) as driver:
        store = driver.get_state_store("tally")
        store.put_all([("a", 1), ("b", 2), ("ba", 3), ("c", 4)])
        assert store.put_if_absent("a", 9) == 1
        assert store.put_if_absent("d", 5) is None
        assert store.delete("d") == 5
        assert list(store.range("b", "c")) == [("b", 2), ("ba", 3), ("c", 4)]
        assert list(store.reverse_range("b", None)) == [("c", 4), ("ba", 3), ("b", 2)]
        assert [key for key, _ in store.all()] == ["a", "b", "ba", "c"]
        assert [key for key, _ in store.reverse_all()] == ["c", "ba", "b", "a"]
        assert list(store.prefix_scan("b", text)) == [("b", 2), ("ba", 3)]
        assert store.approximate_num_entries() == 4


# ---- serdes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (Serdes.string(), "a"), (Serdes.bytes(), b"a"), (Serdes.integer(), 1), (Serdes.long(), 1), (Serdes.short(), 1),
        (Serdes.double(), 0.5), (Serdes.float(), 0.5), (Serdes.boolean(), True), (Serdes.uuid(), uuid.UUID(int=1)),
        (Serdes.json(), {"a": [1]}), (Serdes.list_(Serdes.long()), [1, None]),
        (Serdes.time_windowed(Serdes.string(), 10), Windowed("k", 0, 10)),
        (Serdes.session_windowed(Serdes.string()), Windowed("k", 0, 7)),
    ],
)  # fmt: skip
def test_every_serde_gives_back_what_it_was_given(serde: Any, value: Any) -> None:
    assert serde.deserialize(serde.serialize(value)) == value


# ---- the runtime -------------------------------------------------------------------------------------------------


@pytest.fixture
def runtime() -> Iterator[StreamsRuntime]:
    config = StreamsConfig(application_id="app", bootstrap_servers="none:9092")
    made = StreamsRuntime(tally(), config, clock=MockClock(0))
    yield made
    made.close()


def test_a_runtime_that_was_not_started_shows_nothing_and_closes(runtime: StreamsRuntime) -> None:
    told: list[tuple[str, str]] = []
    runtime.set_state_listener(lambda new, old: told.append((old.value, new.value)))

    assert (runtime.state.value, runtime.tasks(), runtime.lags()) == ("CREATED", [], {})
    assert runtime.close(timedelta(seconds=1), True)
    assert runtime.close(timeout=1, leave_group=False)
    assert told == [("CREATED", "PENDING_SHUTDOWN"), ("PENDING_SHUTDOWN", "NOT_RUNNING")]
    assert runtime.status() == {
        "applicationId": "app",
        "instance": "app",
        "state": "NOT_RUNNING",
        "generation": None,
        "tasks": [],
        "handOvers": [],
        "timeAlignment": [],
        "notes": [],
        "ready": False,
        "peers": [],
        "outages": [],
        "objectStore": None,
        "inProcessSeconds": None,
        "usualProcessSeconds": None,
        "hanging": [],
        "subTopologies": [],
        "globalStores": [],
        "client": {
            "name": "streamsapp",
            "security": "PLAINTEXT",
            "mechanism": None,
            "tls": None,
            "compression": "none",
            "engine": ENGINE,
        },
        "dataPath": f"client streamsapp over PLAINTEXT, compression none, engine {ENGINE}",
    }


def test_identifiers_are_written_as_kafka_streams_writes_them() -> None:
    assert str(TaskId(subtopology=0, partition=3)) == "0_3"
    assert TaskId.parse("0_3") == TaskId(0, 3)
    assert str(TopicPartition(topic="in", partition=1)) == "in-1"

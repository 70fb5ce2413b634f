"""Operators beyond Kafka Streams' in a manifest: the same program as in Python, and faults with their fields."""

from __future__ import annotations

from typing import Any

import pytest

from streamsapp import CountWindows, Joined, Late, Materialized, Serdes, StreamsBuilder, Topology, Windowed
from streamsapp.declared.build_steps import build_steps
from streamsapp.declared.functions import field_of_value
from streamsapp.dsl.options import Consumed, Grouped
from streamsapp.dsl.windows import EmitStrategy
from streamsapp.errors import ManifestError
from streamsapp.manifest.entrypoint import UserCode
from streamsapp.serdes.windowed import time_windowed
from streamsapp.testing import TopologyTestDriver

TEXT, JSON = Serdes.string(), Serdes.json()
READ = {"stream": {"topic": "in", "keySerde": "string", "valueSerde": "json"}, "as": "in"}
OTHER = {"stream": {"topic": "others", "keySerde": "string", "valueSerde": "json"}, "as": "others"}


def build(*steps: Any) -> Topology:
    return build_steps([READ, *steps], "steps", UserCode([]))


def described(*steps: Any) -> str:
    return str(build(*steps).describe())


def faults(*steps: Any) -> list[str]:
    with pytest.raises(ManifestError) as raised:
        build(*steps)
    return raised.value.faults


def test_deduplicate_is_the_program_in_python() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(TEXT, JSON))
    by = field_of_value("id")
    stream.deduplicate(lambda value: by(None, value), within=5, grace=7, by_serde=TEXT, late=Late("late"), named="d")
    options = {"withinMs": 5, "graceMs": 7, "by": {"field": "id"}, "bySerde": "string", "late": "late", "name": "d"}
    assert described({"deduplicate": options}) == str(builder.build().describe())
    assert "repartition" not in described({"deduplicate": {"withinMs": 5, "by": {"field": "id"}, "sameKey": True}})
    assert "repartition" not in described({"deduplicate": {"withinMs": 5}})


def test_count_windows_are_the_program_in_python() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, JSON)).group_by_key(Grouped(TEXT, JSON))
    windows = grouped.windowed_by(CountWindows.of(10).advance_by(2)).emit_strategy(EmitStrategy.on_window_update())
    windows.reduce(lambda one, other: other, Materialized("last")).to("out")
    steps = [
        {"groupByKey": {"keySerde": "string", "valueSerde": "json"}},
        {"windowedBy": {"records": 10, "advanceRecords": 2, "emitStrategy": "onWindowUpdate"}},
        {"reduce": {"reducer": "last", "store": "last"}},
        {"to": "out"},
    ]
    assert described(*steps) == str(builder.build().describe())


def test_a_join_as_of_is_the_program_in_python() -> None:
    builder = StreamsBuilder()
    stream, others = (builder.stream(topic, Consumed(TEXT, JSON)) for topic in ("in", "others"))
    stream.left_join_as_of(others, lambda one, other: one, 60, Joined("j", grace=5), late=Late("late")).to("out")
    options = {"with": "others", "joiner": "operator:is_", "withinMs": 60, "graceMs": 5, "name": "j", "late": "late"}
    join = {"from": "in", "leftJoinAsOf": options}
    assert described(OTHER, join, {"to": "out"}) == str(builder.build().describe())


def started(key: str, value: Any, starts: list[int], window: Windowed[str]) -> list[int]:
    return [*starts, window.start_ms]


def test_an_aggregator_may_want_its_window() -> None:
    aggregate = {"initializer": "builtins:list", "aggregator": f"{__name__}:started", "valueSerde": "json"}
    steps = ["groupByKey", {"windowedBy": {"sizeMs": 10}}, {"aggregate": aggregate}, "toStream"]
    topology = build(*steps, {"mapValues": "builtins:str"}, {"to": {"topic": "out", "valueSerde": "string"}})
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("in", TEXT, JSON)
        source.pipe_input("k", 1, 25)
        source.pipe_input("k", 1, 26)
        assert driver.create_output_topic("out", time_windowed(TEXT, 10), TEXT).read_values() == ["[20]", "[20, 20]"]


def test_faults_have_their_fields() -> None:
    assert faults({"deduplicate": {"by": {"field": "id"}}}) == ["steps[1].deduplicate.withinMs: is required"]
    assert (
        "steps[1].deduplicate: deduplicate: within must be at least 1 ms" in faults({"deduplicate": {"withinMs": 0}})[0]
    )
    assert faults("groupByKey", {"windowedBy": {"records": 3, "graceMs": 5}}, "count") == [
        "steps[2].windowedBy: records: windows of a number of records have no times; leave graceMs and advanceMs out"
    ]
    both = faults("groupByKey", {"windowedBy": {"records": 3, "sizeMs": 5}}, "count")
    assert "expected exactly one of sizeMs, differenceMs, gapMs, startMs, records" in both[0]
    advance = faults("groupByKey", {"windowedBy": {"sizeMs": 3, "advanceRecords": 5}}, "count")
    assert "advanceRecords: only windows of a number of records" in advance[0]
    table = faults("groupByKey", {"windowedBy": {"records": 3}}, "count", "suppress")
    assert "a stream has no suppress" in table[0]
    wrong = faults(
        {"toTable": {}, "as": "rows"},
        {"from": "in", "joinAsOf": {"with": "rows", "joiner": "operator:is_", "withinMs": 5}},
    )
    assert "'rows' is a table; make it a stream first" in wrong[0]

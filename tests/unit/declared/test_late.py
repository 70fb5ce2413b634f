"""``late`` and ``lateAs`` in a manifest: where the records go that come too late."""

from __future__ import annotations

from typing import Any

import pytest

from streamsapp import Serdes, Topology
from streamsapp.declared.build_steps import build_steps
from streamsapp.errors import ManifestError
from streamsapp.manifest.entrypoint import UserCode
from streamsapp.testing import TopologyTestDriver

TEXT = Serdes.string()
READ = {"stream": {"topic": "in", "keySerde": "string", "valueSerde": "string"}}


def build(*steps: Any) -> Topology:
    return build_steps([READ, *steps], "steps", UserCode([]))


def faults(*steps: Any) -> list[str]:
    with pytest.raises(ManifestError) as raised:
        build(*steps)
    return raised.value.faults


def late(topology: Topology) -> list[tuple[Any, Any]]:
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        for time in (500_000, 3, 500_001):
            source.pipe_input("k", f"at {time}", time)
        return driver.create_output_topic("late", TEXT, TEXT).read_key_values()


@pytest.mark.parametrize("windows", [{"sizeMs": 10}, {"gapMs": 10}, {"differenceMs": 10}])
def test_late_records_of_windows_go_to_a_topic_or_on_from_a_name(windows: dict[str, int]) -> None:
    to_topic = build("groupByKey", {"windowedBy": {**windows, "late": "late"}}, "count")
    assert late(to_topic) == [("k", "at 3")]
    named = build(
        "groupByKey",
        {"windowedBy": {**windows, "lateAs": "missed"}},
        "count",
        {"from": "missed", "mapValues": "upper"},
        {"to": {"topic": "late", "keySerde": "string", "valueSerde": "string"}},
    )
    assert late(named) == [("k", "AT 3")]


def test_so_do_those_of_joins_and_of_tables_with_versions() -> None:
    table = {"toTable": {"store": "rows", "versionedMs": 10, "keySerde": "string", "valueSerde": "string"}}
    table["toTable"]["late"] = "late"
    assert late(build(table)) == [("k", "at 3")]
    others = {"stream": {"topic": "others", "keySerde": "string", "valueSerde": "string"}, "as": "others"}
    join = {"with": "others", "joiner": "operator:concat", "withinMs": 10, "late": "late"}
    assert late(build({"peek": "operator:eq", "as": "all"}, others, {"from": "all", "join": join})) == [("k", "at 3")]


def test_faults_have_their_fields() -> None:
    windows = {"windowedBy": {"sizeMs": 10, "late": "a topic"}}
    assert "steps[2].windowedBy.late: expected a name" in faults("groupByKey", windows, "count")[0]
    both = {"windowedBy": {"sizeMs": 10, "late": "late", "lateAs": "missed"}}
    assert faults("groupByKey", both, "count") == ["steps[2].windowedBy: late and lateAs: give one of them"]
    named = {"windowedBy": {"sizeMs": 10, "lateAs": "missed"}}
    early = faults("groupByKey", named, {"from": "missed", "mapValues": "upper"})
    (told,) = early
    assert told.startswith("steps[3].mapValues: 'missed' has the late records of windows, which the aggregation of")
    twice = faults("groupByKey", {**named, "as": "w"}, "count", {"from": "w", "count": {"store": "again"}})
    assert twice[0].startswith("steps[4].count: lateAs: 'missed' would have the late records of two operators")
    assert faults("groupByKey", named, "count", {"from": "misssed", "mapValues": "upper"}) == [
        "steps[4].from: no earlier step gives 'misssed'; did you mean 'missed'?"
    ]

"""The names that users give of sub-topologies, and the shares that these have."""

from __future__ import annotations

from typing import Any

import pytest

from streamsapp import Consumed, Scheduling, Serdes, StreamsBuilder, StreamsConfig, StreamsRuntime
from streamsapp.errors import ConfigError
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.topology.nodes import SubTopology
from streamsapp.topology.scheduling import SubTopologyNames, scheduling_fault, shares_of


def builder() -> StreamsBuilder:
    made = StreamsBuilder()
    for topic in ("alerts", "clicks", "archive"):
        made.stream(topic, Consumed(Serdes.string(), Serdes.string())).to(f"{topic}-out")
    return made


def parts() -> tuple[SubTopology, ...]:
    return builder().build().sub_topologies()


def classes(*entries: Scheduling) -> list[str]:
    return [share.scheduling_class for _, share in sorted(shares_of(entries, parts()).items())]


def test_without_entries_there_are_no_shares() -> None:
    assert shares_of([], parts()) == {}


def test_beside_a_latency_class_the_others_are_bulk() -> None:
    assert classes(Scheduling(source="alerts", scheduling_class="latency")) == ["latency", "bulk", "bulk"]


def test_beside_a_bulk_class_alone_the_others_are_of_class_latency() -> None:
    assert classes(Scheduling(source="archive", scheduling_class="bulk")) == ["latency", "latency", "bulk"]


def test_an_entry_without_a_class_is_as_what_has_no_entry() -> None:
    entries = Scheduling(source="alerts", scheduling_class="latency"), Scheduling(source="clicks", weight=3)

    found = shares_of(entries, parts())

    assert (found[1].latency, found[1].weight, found[1].apart) == (False, 3, False)


@pytest.mark.parametrize("name", [2, "2", "Sub-topology: 2", "sub-topology:2"])
def test_a_number_is_taken_as_describe_shows_it(name: int | str) -> None:
    entry = Scheduling(sub_topology=name, scheduling_class="bulk", on_failure="pause")

    assert scheduling_fault([entry], parts()) is None
    assert shares_of([entry], parts())[2].apart


@pytest.mark.parametrize(
    "entry", [Scheduling(source="orders"), Scheduling(sub_topology=3), Scheduling(sub_topology="x")]
)
def test_an_unknown_name_is_refused_with_the_names(entry: Scheduling) -> None:
    fault = scheduling_fault([Scheduling(source="alerts"), entry], parts())

    assert fault is not None
    assert fault[0] == 1
    assert "0 reads alerts; 1 reads clicks; 2 reads archive" in fault[1]


def test_two_entries_for_one_sub_topology_are_refused() -> None:
    fault = scheduling_fault([Scheduling(sub_topology=0), Scheduling(source="alerts")], parts())

    assert fault == (1, "alerts is sub-topology 0, as 0 is: name it in one entry")


def test_a_name_is_a_number_or_a_topic() -> None:
    names = SubTopologyNames(parts())

    assert names.find("1") == names.find("clicks") == 1
    assert names.find("orders") is None


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({}, "either sub_topology or source"),
        ({"source": "a", "sub_topology": 1}, "either sub_topology or source"),
        ({"source": "a", "weight": 0}, "weight: expected an integer from 1 to 1000, got 0"),
        ({"source": "a", "weight": True}, "weight: expected an integer from 1 to 1000, got True"),
        ({"source": "a", "scheduling_class": "fast"}, "scheduling_class: expected 'latency' or 'bulk', got 'fast'"),
        ({"source": "a", "on_failure": "stop"}, "on_failure: expected 'handler' or 'pause', got 'stop'"),
    ],
)
def test_an_entry_that_says_nothing_usable_is_refused(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        Scheduling(**given)


def config(**settings: Any) -> StreamsConfig:
    return StreamsConfig(application_id="app", bootstrap_servers="localhost:9092", **settings)


def test_a_configuration_has_entries_and_nothing_else() -> None:
    with pytest.raises(ConfigError, match="scheduling: expected a list of Scheduling"):
        config(scheduling=[{"source": "alerts"}])


def test_an_instance_refuses_names_that_its_topology_does_not_have() -> None:
    with pytest.raises(ConfigError, match=r"scheduling\[0\]: there is no sub-topology 'orders'"):
        StreamsRuntime(builder().build(), config(scheduling=[Scheduling(source="orders")]))


def test_a_scheduler_and_entries_are_not_given_together() -> None:
    with pytest.raises(ConfigError, match="not both"):
        StreamsRuntime(
            builder().build(), config(scheduling=[Scheduling(source="alerts")]), scheduler=MostBufferedFirst()
        )

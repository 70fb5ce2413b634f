"""The places of a topology's boxes on the console."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from streamsapp import Consumed, Materialized, Serdes, StreamsBuilder, Topology
from streamsapp.http.graph_layout import HEIGHT, WIDEST, WIDTH, graph_document

TEXT = Consumed(Serdes.string(), Serdes.string())


def joined() -> Topology:
    """A topic that two parts read, a join, a part of its own, and a topic that is read again."""
    builder = StreamsBuilder()
    words = builder.stream("words", TEXT)
    words.map_values(str.upper).group_by_key().count().to_stream().to("totals")
    words.join(builder.table("users"), lambda word, user: word + user).to("joined")
    builder.stream("joined").filter(lambda key, value: True).to("words")
    builder.stream("apart").to("elsewhere")
    return builder.build()


@pytest.fixture(scope="module")
def graph() -> dict[str, Any]:
    return graph_document(joined().describe())


def boxes(graph: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {box["name"]: box for box in graph["boxes"]}


def test_every_node_and_topic_has_one_box(graph: dict[str, Any]) -> None:
    names = [box["name"] for box in graph["boxes"]]
    nodes = {node.name for group in joined().describe().groups for node in group.nodes}
    assert sorted(names) == sorted(nodes | {"words", "users", "totals", "joined", "apart", "elsewhere"})


def test_no_box_covers_another_and_all_are_within_the_drawing(graph: dict[str, Any]) -> None:
    for one, other in combinations(graph["boxes"], 2):
        left, right = sorted((one, other), key=lambda box: box["x"])
        upper, lower = sorted((one, other), key=lambda box: box["y"])
        beside = left["x"] + left["width"] <= right["x"] + 0.02  # places are rounded
        assert beside or upper["y"] + upper["height"] <= lower["y"], (one, other)
    assert all(0 <= box["x"] <= graph["width"] - box["width"] + 0.02 for box in graph["boxes"])
    assert all(0 <= box["y"] <= graph["height"] - box["height"] for box in graph["boxes"])


def of_topic(name: str) -> dict[str, dict[str, Any]]:
    builder = StreamsBuilder()
    builder.stream(name, TEXT).group_by_key().count(Materialized(f"{name}-store"))
    return boxes(graph_document(builder.build().describe()))


def test_a_box_has_room_for_its_whole_name_and_its_stores() -> None:
    narrow, wide, long = (of_topic(name)[name] for name in ("w", "w" * 30, "w" * 200))
    assert (narrow["width"], narrow["height"]) == (WIDTH, HEIGHT)
    assert WIDTH < wide["width"] < WIDEST
    assert long["width"] == WIDEST
    assert long["height"] > HEIGHT + 4  # four more lines at least
    nodes = of_topic("w" * 200).values()
    [counted] = [box for box in nodes if box["stores"]]
    assert counted["about"].endswith(f"{'w' * 200}-store")
    assert counted["height"] > HEIGHT + 4


def test_records_flow_downwards_but_for_what_is_read_again(graph: dict[str, Any]) -> None:
    upwards = [line for line in graph["lines"] if line[0][1] > line[-1][1]]
    assert len(upwards) == 1
    words = boxes(graph)["words"]
    assert upwards[0][-1] == [words["x"] + words["width"] / 2, words["y"] + words["height"]]


def test_a_line_leads_from_the_edge_of_one_box_to_the_edge_of_another(graph: dict[str, Any]) -> None:
    middles = {
        (round(box["x"] + box["width"] / 2, 1), round(box["y"] + edge, 1))
        for box in graph["boxes"]
        for edge in (0, box["height"])
    }
    ends = {(round(point[0], 1), round(point[1], 1)) for line in graph["lines"] for point in (line[0], line[-1])}
    assert ends <= middles


def test_a_box_says_which_stores_its_node_has(graph: dict[str, Any]) -> None:
    assert any(box["stores"] for box in graph["boxes"] if box["kind"] == "processor")
    assert all(box["stores"] == [] for box in graph["boxes"] if box["kind"] == "topic")


def test_a_topology_of_hundreds_of_nodes_is_laid_out() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", TEXT)
    for number in range(100):
        stream.map_values(str.upper).filter(lambda key, value: True).to(f"out-{number}")
    assert len(graph_document(builder.build().describe())["boxes"]) == 402

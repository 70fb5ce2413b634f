"""Names of topics are checked where they are written; names that a function chooses at run time, where it does."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamsapp import (
    Consumed,
    Materialized,
    Processor,
    Produced,
    Serdes,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    Topology,
)
from streamsapp.errors import ManifestError, ProcessingError, TopologyError
from streamsapp.manifest import decode
from streamsapp.manifest.entrypoint import load_topology
from streamsapp.processor.handlers import ErrorContext, Response
from streamsapp.testing import TopologyTestDriver

TEXT = Serdes.string()
READ, WRITTEN = Consumed(TEXT, TEXT), Produced(TEXT, TEXT)
BAD: list[Any] = ["bad topic!", "", ".", "..", "a/b", "ü", "a\n", "x" * 250, None, 7, b"in"]


class Topics(StrEnum):
    IN = "in"


def _store() -> Any:
    return Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), TEXT, TEXT)


DSL: dict[str, Callable[[StreamsBuilder, Any], object]] = {
    "stream": lambda builder, topic: builder.stream(topic, READ),
    "stream of several": lambda builder, topic: builder.stream(["in", topic], READ),
    "table": lambda builder, topic: builder.table(topic, READ),
    "global_table": lambda builder, topic: builder.global_table(topic, READ),
    "to": lambda builder, topic: builder.stream("in", READ).to(topic, WRITTEN),
    "add_global_store": lambda builder, topic: builder.add_global_store(_store(), topic, READ, Processor),
    "add_read_only_state_store": lambda builder, topic: builder.add_read_only_state_store(
        _store(), topic, READ, Processor
    ),
}
RAW: dict[str, Callable[[Topology, Any], object]] = {
    "add_source": lambda topology, topic: topology.add_source("a", topic),
    "add_sink": lambda topology, topic: topology.add_source("a", "in").add_sink("b", topic, "a"),
    "add_global_store": lambda topology, topic: topology.add_global_store(_store(), "a", topic, "b", Processor),
    "add_read_only_state_store": lambda topology, topic: topology.add_read_only_state_store(
        _store(), "a", topic, "b", Processor
    ),
}


@pytest.mark.parametrize("topic", BAD, ids=repr)
@pytest.mark.parametrize("operation", DSL)
def test_the_dsl_refuses_it_at_once(operation: str, topic: Any) -> None:
    with pytest.raises(TopologyError, match="is not the name of a topic; use 1 to 249 ASCII letters"):
        DSL[operation](StreamsBuilder(), topic)


@pytest.mark.parametrize("topic", BAD, ids=repr)
@pytest.mark.parametrize("operation", RAW)
def test_a_topology_refuses_it_before_it_runs(operation: str, topic: Any) -> None:
    """Names that are text wait for the whole: Kafka Streams builds and describes such topologies."""

    def validated() -> None:
        topology = Topology()
        RAW[operation](topology, topic)
        assert isinstance(topic, str)
        topology.validate()

    with pytest.raises(TopologyError, match=r"is not the name of a topic; use|topic must be a name or a function"):
        validated()


def test_a_member_of_an_enumeration_is_a_name() -> None:
    builder = StreamsBuilder()
    builder.stream(Topics.IN, READ).to(Topics.IN, WRITTEN)
    topics = [getattr(node, "topics", None) or node.topic for node in builder.build().nodes]  # type: ignore[union-attr]
    assert topics == [("in",), "in"]
    assert type(topics[1]) is str


@pytest.mark.parametrize("topic", ["bad topic!", None, 7, ["out"]])
def test_a_name_that_a_function_chooses_goes_to_the_processing_handler(topic: Any) -> None:
    heard: list[str] = []

    def handler(context: ErrorContext, error: Exception) -> Response:
        heard.append(f"{context.topic}@{context.offset} {error}")
        return Response.CONTINUE

    builder = StreamsBuilder()
    builder.stream("in", READ).to(lambda key, value, metadata: topic if value == "bad" else "out", WRITTEN)
    config = StreamsConfig(application_id="a", bootstrap_servers="b:1", processing_exception_handler=handler)
    with TopologyTestDriver(builder.build(), config) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_key_values([("k", "bad"), ("k", "good")])
        assert driver.create_output_topic("out", TEXT, TEXT).read_key_values() == [("k", "good")]
    assert len(heard) == 1
    assert heard[0].startswith("in@0 ")
    assert "is not the name of a topic" in heard[0]
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(ProcessingError, match="the topic extractor of KSTREAM-SINK-0000000001"):
            source.pipe_input("k", "bad")


STEPS = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {name: named}
spec:
  topology:
    steps:
      - stream: {topic: %s}
      - to: {topic: %s}
"""


@pytest.mark.parametrize(
    ("names", "at"), [(("bad topic!", "out"), r"steps\[0\]"), (("in", "bad topic!"), r"steps\[1\]")]
)
def test_a_manifest_that_names_one_is_refused_with_the_step(names: tuple[str, str], at: str, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=at) as raised:
        load_topology(decode(yaml.safe_load(STEPS % tuple(f'"{name}"' for name in names))), tmp_path)
    assert "bad topic!" in str(raised.value)


def test_suppress_refuses_tables_with_versions_and_those_that_inherit_them() -> None:
    def versioned() -> Any:
        return StreamsBuilder().table("in", READ, Materialized("versions", TEXT, TEXT, versioned=1000))

    for table in (
        versioned(),
        versioned().filter(lambda key, value: True),
        versioned().map_values(lambda value: value).filter_not(lambda key, value: False),
    ):
        with pytest.raises(TopologyError, match=r"suppress\(\) is only supported for non-versioned KTables"):
            table.suppress(Suppressed.until_time_limit(10))
    own = versioned().filter(lambda key, value: True, Materialized("own", TEXT, TEXT))
    own.suppress(Suppressed.until_time_limit(10))

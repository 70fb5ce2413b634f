"""Programs that would fail with their first record, or do nothing that was meant, are refused when they are built."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamsapp import (
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Processor,
    Produced,
    Record,
    Repartitioned,
    Serdes,
    SessionWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from streamsapp.cli.main import main
from streamsapp.errors import TopologyError
from streamsapp.serdes.api import AnySerde

TEXT, LONG, BYTES, JSON, UUID = Serdes.string(), Serdes.long(), Serdes.bytes(), Serdes.json(), Serdes.uuid()
ANY_TEXT: Any = TEXT
ANY_LONG: Any = LONG
OWN: Any = Serdes.of(lambda value: str(value).encode(), bytes.decode, name="string")
WINDOWS = JoinWindows.of(10)
Program = Callable[[StreamsBuilder], object]


class Idle(Processor):
    def process(self, record: Record) -> None: ...


def stream(
    builder: StreamsBuilder, topic: str = "in", key: AnySerde = TEXT, value: AnySerde = TEXT
) -> KStream[Any, Any]:
    return builder.stream(topic, Consumed(key, value))


def table(builder: StreamsBuilder, topic: str, key: AnySerde = TEXT) -> KTable[Any, Any]:
    return builder.table(topic, Consumed(key, TEXT))


def counts(builder: StreamsBuilder, windows: Any = None) -> KStream[Any, Any]:
    grouped = stream(builder).group_by_key()
    return (grouped.count() if windows is None else grouped.windowed_by(windows).count()).to_stream()


def store(name: str = "s") -> Any:
    return Stores.key_value_store_builder(Stores.persistent_key_value_store(name), TEXT, TEXT)


def one_topic(first: AnySerde, second: AnySerde) -> Program:
    def program(builder: StreamsBuilder) -> None:
        stream(builder, "a", value=first).to("c")
        stream(builder, "b", value=second).to("c")

    return program


def joined(left: AnySerde, right: AnySerde) -> Program:
    return lambda b: stream(b, "a", left).join(stream(b, "b", right), lambda one, two: one, WINDOWS)


def read_twice(builder: StreamsBuilder) -> None:
    stream(builder).foreach(lambda key, value: None)
    stream(builder, value=LONG).foreach(lambda key, value: None)


def in_turns(builder: StreamsBuilder) -> None:
    stream(builder, "a").to("b")
    stream(builder, "b").peek(lambda key, value: None).to("a")


def through(builder: StreamsBuilder) -> None:
    stream(builder, "a").to("b")
    stream(builder, "b").to("c")


def unused_store(builder: StreamsBuilder) -> None:
    builder.add_state_store(store())
    stream(builder).process(Idle)


REFUSED: list[tuple[Program, str]] = [
    (lambda b: counts(b).to("out", Produced(TEXT, TEXT)),
     "to('out'): its values are long, which Produced(value_serde=...) cannot write as string; leave value_serde out"),
    (lambda b: counts(b, TimeWindows.of(10)).to("out", Produced(TEXT, LONG)),
     ("to('out'): its keys are time_windowed, which Produced(key_serde=...) cannot write as string; write "
      "Serdes.time_windowed(Serdes.string(), size), leave key_serde out, or give records the key within: "
      "to_stream(lambda w, value: w.key)")),
    (lambda b: counts(b, SessionWindows.of(10)).to("out", Produced(TEXT)), "Serdes.session_windowed(Serdes.string())"),
    (lambda b: counts(b, TimeWindows.of(10)).to("out", Produced(Serdes.time_windowed(LONG, 10))), "its keys are"),
    (lambda b: stream(b).to("out", Produced(value_serde=UUID)), "its values are string"),
    (lambda b: stream(b).group_by(lambda k, v: v, Grouped(TEXT, LONG)).count(), "grouping: its values are string"),
    (lambda b: stream(b).repartition(Repartitioned(LONG)), "repartition: its keys are string"),
    (lambda b: stream(b).group_by_key().count(Materialized("c", value_serde=ANY_TEXT)), "store c: its values are long"),
    (lambda b: b.table("t", Consumed(TEXT, TEXT), Materialized("s", value_serde=ANY_LONG)), "table: its values are"),
    (lambda b: stream(b, "a").join(stream(b, "b"), lambda x, y: x, WINDOWS, StreamJoined(other_value_serde=LONG)),
     "join: its values are string"),
    (lambda b: stream(b, "a").left_join(table(b, "t"), lambda x, y: x, Joined(LONG)), "left_join: its keys are string"),
    (joined(TEXT, LONG), "join: the keys of the left side are string, those of the right side long, so that none"),
    (joined(Serdes.integer(), LONG), "join: the keys of the left side are integer, those of the right side long"),
    (lambda b: stream(b).join(table(b, "t", LONG), lambda x, y: x), "join: the keys of the left side are string"),
    (lambda b: table(b, "t").outer_join(table(b, "u", LONG), lambda x, y: x), "outer_join: the keys of the left side"),
    (lambda b: stream(b, "a").group_by_key().cogroup(lambda k, v, a: a).cogroup(
        stream(b, "b", LONG).group_by_key(), lambda k, v, a: a), "cogroup: the keys of the left side are string"),
    (one_topic(TEXT, LONG), "topic c: sink KSTREAM-SINK-0000000001 (added at "),
    (lambda b: stream(b, "a", value=LONG).filter(lambda k, v: v).map_values(str).to("a", Produced(TEXT, TEXT)),
     "has values of long, and sink KSTREAM-SINK-0000000003"),
    (read_twice, "read the same topics with different value serdes: string and long"),
    (unused_store, "store s (added at "),
    (lambda b: stream(b, "a").map_values(str.upper).to("a"), "every record would go round for ever"),
    (in_turns, "KSTREAM-SINK-0000000001) ends it: every record would go round for ever; write to another topic"),
    (lambda b: b.stream(re.compile("a.*"), Consumed(TEXT, TEXT)).to("abc"), "topic abc: sink"),
    (lambda b: stream(b, "a").group_by(lambda k, v: v, Grouped(TEXT)).count().to_stream().map_values(str).to("a"),
     "every record would go round for ever"),
    (lambda b: table(b, "a").to_stream().to("a"), "every record would go round for ever"),
    (lambda b: stream(b, "a").join(stream(b, "b"), lambda x, y: x),  # type: ignore[call-overload]
     "join: missing a required argument: 'windows'; write join(other, joiner, JoinWindows.of("),
    (lambda b: stream(b, "a").left_join(table(b, "t")),  # type: ignore[call-overload]
     "left_join: missing a required argument: 'joiner'; write left_join(table, joiner)"),
    (lambda b: table(b, "t").join(table(b, "u")),  # type: ignore[call-overload]
     "join: missing a required argument: 'joiner'; write join(table, joiner)"),
]  # fmt: skip


def built(program: Program) -> Topology:
    builder = StreamsBuilder()
    program(builder)
    return builder.build().validate()


@pytest.mark.parametrize(("program", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_known_to_be_wrong_is_refused_with_a_remedy(program: Program, message: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(message)):
        built(program)


ALLOWED: list[Program] = [
    lambda b: counts(b).to("out", Produced(TEXT)),
    lambda b: counts(b).to("out", Produced(TEXT, Serdes.double())),
    lambda b: counts(b).to("out", Produced(TEXT, JSON)),
    lambda b: counts(b).map_values(str).to("out", Produced(TEXT, TEXT)),
    lambda b: counts(b).to("out", Produced(OWN, OWN)),
    lambda b: counts(b, TimeWindows.of(10)).to("out", Produced(Serdes.time_windowed(TEXT, 10))),
    lambda b: counts(b, TimeWindows.of(10)).select_key(lambda w, v: w.key).to("out", Produced(TEXT)),
    joined(TEXT, Serdes.string(errors="replace")),
    joined(TEXT, OWN),
    one_topic(TEXT, JSON),
    one_topic(LONG, BYTES),
    through,
    lambda b: stream(b, "a").filter(lambda key, value: value).to("a"),
    lambda b: stream(b, "a").process_values(Idle).to("a", Produced(TEXT, TEXT)),
    lambda b: b.add_state_store(store()) and stream(b).process(Idle, "s"),
]


@pytest.mark.parametrize("program", ALLOWED, ids=range(len(ALLOWED)))
def test_what_may_be_right_is_built(program: Program) -> None:
    assert list(built(program).nodes)


def test_a_topology_of_nodes_is_looked_at_too() -> None:
    topology = Topology().add_source("in", "a", value_deserializer=LONG).add_sink("out", "a", "in")
    with pytest.raises(TopologyError, match=r"topic a: sink out \(added at .*every record would go round for ever"):
        topology.validate()
    topology = Topology().add_source("in", "a").add_processor("p", Idle, "in").add_state_store(store())
    with pytest.raises(TopologyError, match=r"store s \(added at .*no processor is connected to it"):
        topology.validate()


MANIFEST = """\
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {{name: mine}}
spec:
  topology:
{topology}
"""
STEPS = """\
    steps:
      - stream: {topic: in, keySerde: string, valueSerde: string}
      - groupByKey
      - {windowedBy: {sizeMs: 1000}}
      - count
      - toStream
      - to: {topic: out, keySerde: string}
"""
GRAPH = """\
    graph:
      sources: [{name: in, topics: [a], keySerde: string, valueSerde: string}]
      sinks: [{name: out, topic: a, parents: [in]}]
"""


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        (STEPS, ("spec.topology.steps[5].to: to('out'): its keys are time_windowed, which keySerde cannot write as "
                 "string; leave keySerde out, or give records the key within: {toStream: {mapper: module:function}}")),
        (GRAPH, "spec.topology.graph: topic a: sink out (added at spec.topology.graph) writes what source in"),
    ],
)  # fmt: skip
def test_validate_says_it_in_the_words_of_the_manifest(
    topology: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "app.yaml").write_text(MANIFEST.format(topology=topology), encoding="utf-8")

    assert main(["validate", "-f", str(tmp_path / "app.yaml")]) == 2
    assert f"app.yaml: {message}" in capsys.readouterr().err


def test_windows_of_a_join_are_named_by_the_validating_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "joins_without.py").write_text(
        "from streamsapp import StreamsBuilder\nbuilder = StreamsBuilder()\n"
        "builder.stream('a').join(builder.stream('b'), lambda one, two: one)\n"
    )
    (tmp_path / "app.yaml").write_text(
        MANIFEST.format(topology="    entrypoint: joins_without:builder"), encoding="utf-8"
    )

    assert main(["validate", "-f", str(tmp_path / "app.yaml")]) == 2
    told = capsys.readouterr().err
    assert "join: missing a required argument: 'windows'; write join(other, joiner, JoinWindows.of(" in told
    assert f"{tmp_path}/joins_without.py:3" in told

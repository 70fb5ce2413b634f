"""Programs whose description equals what Kafka Streams prints for the same program (``golden/<name>.txt``)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamsapp.dsl.builder import StreamsBuilder
from streamsapp.dsl.kstream import KStream
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.options import Branched, Consumed, Grouped, Materialized, Named, Produced, Repartitioned
from streamsapp.processor.api import Processor
from streamsapp.record import Record
from streamsapp.serdes.serdes import Serdes
from streamsapp.state.api import StoreBuilder
from streamsapp.state.kinds.key_value import KEY_VALUE

GOLDEN = Path(__file__).parent / "golden"
STRING = Serdes.string()
GROUPED: Grouped[str, str] = Grouped(STRING, STRING)


class Pass(Processor):
    def process(self, record: Record) -> None:
        """Takes no part in a description."""


def stream(builder: StreamsBuilder, topic: str = "in", name: str | None = None) -> KStream[str, str]:
    return builder.stream(topic, Consumed(STRING, STRING, name=name))


def table(builder: StreamsBuilder, name: str | None = None, store: str | None = None) -> KTable[str, str]:
    return builder.table("in", Consumed(STRING, STRING, name=name), Materialized(store))


def anything(key: str, value: str) -> bool:
    return True


def first_letter(key: str, value: str) -> str:
    return value[0]


def row(key: str, value: str) -> tuple[str, str]:
    return value, value


def concat(aggregate: str, value: str) -> str:
    return aggregate + value


def word_count(b: StreamsBuilder) -> None:
    words = stream(b).flat_map_values(str.split)
    words.group_by(lambda k, v: v, GROUPED).count().to_stream().to("out")


def word_count_named(b: StreamsBuilder) -> None:
    words = stream(b, name="lines").flat_map_values(str.split, Named("split"))
    counts = words.group_by(lambda k, v: v, Grouped("words", STRING, STRING)).count("counting", Materialized("counts"))
    counts.to_stream(named="updates").to("out", Produced(name="sink"))


def count_with_unnamed_store(b: StreamsBuilder) -> None:
    stream(b).group_by_key().count(Materialized(store="memory")).to_stream().to("out")


def stateless_chain(b: StreamsBuilder) -> None:
    kept = stream(b).filter(anything).filter_not(anything, "kept")
    changed = kept.map_values(len).peek(print).map(lambda k, v: (v, v))
    changed.flat_map(lambda k, v: [(k, v), (k, v)]).foreach(print)
    kept.to("out")


def key_change_then_two_groups(b: StreamsBuilder) -> None:
    grouped = stream(b).select_key(first_letter).group_by_key(GROUPED)
    counts = grouped.count()
    grouped.reduce(concat)
    counts.to_stream().to("out")


def named_group_shares_topic(b: StreamsBuilder) -> None:
    lines = stream(b)
    grouped = lines.group_by(first_letter, Grouped("letters", STRING, STRING))
    grouped.count()
    texts = lines.map_values(str)
    grouped.reduce(concat)
    texts.to("texts")


def merge_of_changed_keys(b: StreamsBuilder) -> KStream[str, str]:
    one, two = stream(b), stream(b, "in2")
    merged = one.select_key(first_letter).merge(two)
    merged.group_by_key(GROUPED).count().to_stream().to("out")
    return merged


def split_in_three(b: StreamsBuilder) -> None:
    branches = stream(b).split().branch(anything).branch(anything, Branched("-named")).default_branch()
    for branch, topic in zip(branches.values(), ("one", "two", "rest"), strict=True):
        branch.to(topic)


def split_named(b: StreamsBuilder) -> None:
    stream(b).split("by-").branch(anything, "all").no_default_branch()["by-all"].to("one")


def repartition(b: StreamsBuilder) -> None:
    again = stream(b).repartition().repartition(Repartitioned(name="again", partitions=3))
    again.group_by_key().count()


def process_with_store(b: StreamsBuilder) -> None:
    b.add_state_store(StoreBuilder("seen", KEY_VALUE, key_serde=STRING, value_serde=Serdes.long()))
    stream(b).process(Pass, "seen").process_values(Pass, named="values").to("out")


def table_without_store(b: StreamsBuilder) -> None:
    b.table("in", Consumed(STRING, STRING)).to_stream().to("out")


def table_with_store(b: StreamsBuilder) -> None:
    table(b, "rows", "rows-store").to_stream().to("out")


def table_filter_and_map(b: StreamsBuilder) -> None:
    texts = table(b).filter(anything, Materialized()).map_values(str, Materialized("texts"))
    texts.filter_not(anything, Named("kept")).to_stream().to("out")


def table_group_by(b: StreamsBuilder) -> None:
    table(b).filter(anything).group_by(row, GROUPED).count().to_stream().to("out")


def table_named_group_shares_topic(b: StreamsBuilder) -> None:
    grouped = table(b).group_by(row, Grouped("groups", STRING, STRING))
    grouped.count("counting")
    grouped.reduce(concat, concat, Materialized("joined"))


def to_table(b: StreamsBuilder) -> None:
    stream(b).to_table().to_stream().to("out")


def to_table_after_key_change(b: StreamsBuilder) -> None:
    selected = stream(b).select_key(first_letter)
    selected.to_table("latest", Materialized(key_serde=STRING))
    selected.map_values(str).to_table(Materialized("texts", STRING, STRING))


def same_topics_twice(b: StreamsBuilder) -> None:
    one = b.stream(["a", "b"], Consumed(STRING, STRING))
    two = b.stream(["b", "a"], Consumed(STRING, STRING))
    one.merge(two).to("one")
    two.to("two")


def pattern(b: StreamsBuilder) -> None:
    b.stream(re.compile("in-[ab]"), Consumed(STRING, STRING)).to("out")


def to_stream_with_key(b: StreamsBuilder) -> None:
    selected = table(b).to_stream(first_letter, "updates")
    selected.group_by_key(GROUPED).aggregate(lambda: 0, lambda k, v, total: total + 1, Materialized())


def optimized_table_sources(b: StreamsBuilder) -> None:
    table(b, store="rows").to_stream().to("out")


def optimized_repartitions(b: StreamsBuilder) -> None:
    selected = stream(b).select_key(first_letter)
    grouped = selected.group_by_key(GROUPED)
    counts = grouped.count()
    grouped.reduce(concat)
    counts.to_stream().to("out")
    selected.filter(anything).group_by_key(GROUPED).count()


def optimized_merge(b: StreamsBuilder) -> None:
    merge_of_changed_keys(b).group_by_key(GROUPED).reduce(concat)


PROGRAMS: list[Callable[[StreamsBuilder], Any]] = [
    word_count,
    word_count_named,
    count_with_unnamed_store,
    stateless_chain,
    key_change_then_two_groups,
    named_group_shares_topic,
    merge_of_changed_keys,
    split_in_three,
    split_named,
    repartition,
    process_with_store,
    table_without_store,
    table_with_store,
    table_filter_and_map,
    table_group_by,
    table_named_group_shares_topic,
    to_table,
    to_table_after_key_change,
    same_topics_twice,
    pattern,
    to_stream_with_key,
    optimized_table_sources,
    optimized_repartitions,
    optimized_merge,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_description_equals_kafka_streams(program: Callable[[StreamsBuilder], Any]) -> None:
    builder = StreamsBuilder()
    program(builder)
    topology = builder.build(optimize=program.__name__.startswith("optimized"))
    assert str(topology.describe()) == (GOLDEN / f"{program.__name__}.txt").read_text()


def test_every_golden_file_has_its_program() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {program.__name__ for program in PROGRAMS}

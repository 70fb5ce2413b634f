"""Programs that are refused while they are built, and what names and options come to."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from streamsapp.dsl.arity import takes_key
from streamsapp.dsl.builder import StreamsBuilder
from streamsapp.dsl.cogrouped import CogroupedKStream
from streamsapp.dsl.kstream import KStream
from streamsapp.dsl.names import NameGenerator, repartition_names
from streamsapp.dsl.options import Branched, Consumed, Grouped, Materialized, Named, Produced, Repartitioned
from streamsapp.errors import TopologyError
from streamsapp.processor.api import Processor
from streamsapp.record import Record
from streamsapp.serdes.serdes import Serdes
from streamsapp.state.api import StoreBuilder
from streamsapp.state.builders import Stores
from streamsapp.state.kinds.key_value import TIMESTAMPED_KEY_VALUE
from streamsapp.topology.nodes import ProcessorNode, SinkNode, SourceNode
from task_parts import Each, forwards

STRING = Serdes.string()
LONG = Serdes.long()
ANY: Any = object()


def stream(builder: StreamsBuilder | None = None) -> KStream[str, str]:
    return (builder or StreamsBuilder()).stream("in", Consumed(STRING, STRING))


def test_a_name_uses_up_a_number_so_that_it_renames_nothing_else() -> None:
    names = NameGenerator()
    assert names.named("mine", "KSTREAM-MAP-") == "mine"
    assert names.named(None, "KSTREAM-MAP-") == "KSTREAM-MAP-0000000001"
    assert names.store("KSTREAM-REDUCE-") == "KSTREAM-REDUCE-STATE-STORE-0000000002"


def test_repartition_nodes_are_named_after_a_given_name_and_numbered_after_a_generated_one() -> None:
    names = NameGenerator()
    assert repartition_names(names, "counts", given=True).filter == "counts-repartition-filter"
    generated = repartition_names(names, "KSTREAM-AGGREGATE-STATE-STORE-0000000001", given=False)
    assert generated.filter == "KSTREAM-FILTER-0000000004"


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "x" * 250])
def test_illegal_names_are_refused(name: str) -> None:
    with pytest.raises(TopologyError, match="name"):
        Named(name)
    with pytest.raises(TopologyError, match="name"):
        Materialized(store_name=name)


class Names(str, Enum):  # noqa: UP042 - prints as something else than its text, as a StrEnum does not
    IN = "in"
    ROWS = "rows"
    OUT = "out"
    STORE = "kept"
    WORDS = "words"


def test_names_may_be_members_of_enumerations() -> None:
    def built(name: Callable[[Names], str]) -> str:
        builder = StreamsBuilder()
        rows = builder.table(name(Names.ROWS), Consumed(STRING, STRING))
        grouped = builder.stream([name(Names.IN)], Consumed(STRING, STRING)).group_by(
            lambda key, value: value, Grouped(name(Names.WORDS), STRING, STRING)
        )
        counts = grouped.count(Materialized(name(Names.STORE)), named=Named(name(Names.STORE))).to_stream()
        counts.join(rows, lambda count, row: row).to(name(Names.OUT), Produced(STRING, STRING))
        builder.add_state_store(
            Stores.key_value_store_builder(Stores.in_memory_key_value_store(name(Names.OUT)), STRING, STRING)
        )
        return str(builder.build().describe())

    assert built(lambda name: name) == built(lambda name: name.value)


def wrong(function: Callable[..., Any]) -> Any:
    """A function that a type checker would refuse, too."""
    return function


class Pass(Processor):
    def process(self, record: Record) -> None:
        """Never called."""


def combining(name: str | None = None) -> Any:
    return stream().group_by(lambda k, v: v, Grouped(STRING, STRING, name=name, combine=True))


def combine_twice() -> None:
    grouped = combining("words")
    grouped.count()
    grouped.count()


def aggregate_what_is_combined() -> None:
    grouped = combining("words")
    grouped.count()
    grouped.grouping.repartitioned("others")


def cogroup_combined() -> None:
    combining().cogroup(lambda k, v, a: a)


def overlapping() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream(["a", "b"])
    builder.stream("a")
    return builder


def two_resets() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream(re.compile("a.*"), Consumed(offset_reset="earliest"))
    builder.stream(re.compile("a.*"), Consumed(offset_reset="latest"))
    return builder


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: stream().filter(wrong(len)), r"filter calls its function with \(key, value\); len"),
    (lambda: stream().map_values(lambda: 1), r"map_values calls its function with \(value\)"),
    (lambda: stream().map_values(lambda a, b, c: 1), r"map_values calls its function with \(key, value\)"),
    (lambda: stream().map_values(ANY), r"map_values needs a function of \(value\) or \(key, value\)"),
    (lambda: stream().foreach(ANY), r"foreach needs a function of \(key, value\)"),
    (lambda: stream().to(wrong(lambda key: key)), r"to calls its function with \(key, value, metadata\)"),
    (lambda: stream().merge(stream()), "another StreamsBuilder"),
    (lambda: stream().group_by_key().count("a", "b"), "count: 'b' is one option too many"),
    (lambda: stream().process(Pass, Named("a"), named="b"), "named twice, b and a"),
    (lambda: Grouped(ANY), r"Grouped\(key_serde=.*that is not a serde"),
    (lambda: Repartitioned(partitions=0), "at least one partition"),
    (lambda: Materialized(emit=ANY), "use 'update' or 'commit'"),
    (lambda: Materialized(store=ANY), "use 'rocksdb' or 'memory'"),
    (lambda: Branched(function=lambda s: s, consumer=lambda s: None), "not both"),
    (lambda: StreamsBuilder().stream([]), "at least one topic"),
    (lambda: combining().aggregate(int, lambda k, v, a: a), "aggregate cannot combine"),
    (combine_twice, "group the stream again"),
    (aggregate_what_is_combined, "group the stream again"),
    (cogroup_combined, "cogroup cannot combine"),
    (lambda: StreamsBuilder().table("in", Materialized(versioned=-1000)), "versioned=-1000 ms.*must not be negative"),
    (
        lambda: Consumed(timestamp_extractor=wrong(lambda record, time: time)),
        r"\(record, key, value, partition_time_ms",
    ),
    (lambda: overlapping().build(), "not the same topics"),
    (lambda: two_resets().build(), "different offset_reset"),
]


@pytest.mark.parametrize(("program", "message"), REFUSED)
def test_mistakes_are_refused_where_they_are_made(program: Callable[[], object], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        program()


@pytest.mark.parametrize("function", [str.split, len, print, int, lambda v: v, lambda v, other=1: v])
def test_mappers_that_can_do_with_one_argument_get_the_value(function: Callable[..., Any]) -> None:
    assert not takes_key("map_values", function)


def sink(builder: StreamsBuilder) -> SinkNode:
    return next(node for node in builder.build().nodes if isinstance(node, SinkNode))


def test_serdes_are_inherited_until_a_function_changes_the_type() -> None:
    builder = StreamsBuilder()
    stream(builder).filter(lambda k, v: True).to("out")
    assert (sink(builder).key_serde, sink(builder).value_serde) == (STRING, STRING)
    builder = StreamsBuilder()
    stream(builder).map_values(len).to("out", Produced(value_serde=LONG))
    assert (sink(builder).key_serde, sink(builder).value_serde) == (STRING, LONG)
    builder = StreamsBuilder()
    stream(builder).map(lambda k, v: (v, k)).to("out")
    assert (sink(builder).key_serde, sink(builder).value_serde) == (None, None)


def test_a_group_inherits_the_serdes_that_its_options_leave_out() -> None:
    builder = StreamsBuilder()
    stream(builder).group_by(lambda k, v: len(v), Grouped(LONG, name="lengths")).count()
    repartition = sink(builder)
    assert (repartition.topic, repartition.key_serde, repartition.value_serde) == ("lengths-repartition", LONG, STRING)


def test_combining_sends_partial_counts_as_longs() -> None:
    builder = StreamsBuilder()
    stream(builder).group_by(lambda k, v: v, Grouped(STRING, STRING, combine=True)).count()
    assert sink(builder).value_serde == LONG
    source = [node for node in builder.build().nodes if isinstance(node, SourceNode)][1]
    assert source.value_serde == LONG


def test_combining_changes_nothing_where_no_repartition_topic_is_needed() -> None:
    def described(combine: bool) -> str:
        builder = StreamsBuilder()
        grouped = stream(builder).group_by_key(Grouped(STRING, STRING, combine=combine))
        grouped.aggregate(int, lambda key, value, total: total)
        return str(builder.build().describe())

    assert described(True) == described(False)


def test_building_twice_gives_the_same_topology() -> None:
    builder = StreamsBuilder()
    grouped = stream(builder).select_key(lambda k, v: v).group_by_key(Grouped(STRING, STRING))
    grouped.count()
    grouped.count(Materialized("again"))
    assert str(builder.build().describe()) == str(builder.build().describe())
    assert str(builder.build(optimize=True).describe()) == str(builder.build(optimize=True).describe())


def same_store_twice(builder: StreamsBuilder) -> None:
    grouped = stream(builder).group_by_key(Grouped(STRING, STRING))
    options = Materialized[str, int]("c")
    grouped.count(options)
    grouped.count(options)


def same_store_as_a_table(builder: StreamsBuilder) -> None:
    builder.table("rows", Materialized("c", key_serde=STRING, value_serde=STRING))
    stream(builder).group_by_key(Grouped(STRING, STRING)).count(Materialized("c"))


def same_store_as_one_of_a_processor(builder: StreamsBuilder) -> None:
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("c")))
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("c")))


@pytest.mark.parametrize("program", [same_store_twice, same_store_as_a_table, same_store_as_one_of_a_processor])
def test_two_stores_of_one_name_are_refused(program: Callable[[StreamsBuilder], None]) -> None:
    builder = StreamsBuilder()
    program(builder)
    with pytest.raises(TopologyError, match="a different state store has already been added with the name c; give"):
        builder.build()


class Sharing(Pass):
    """Brings a store along that all processors of the kind share."""

    STORE = Stores.key_value_store_builder(Stores.persistent_key_value_store("shared"), STRING, STRING)

    @staticmethod
    def stores() -> list[StoreBuilder]:
        return [Sharing.STORE]


def test_the_same_builder_serves_several_processors() -> None:
    builder = StreamsBuilder()
    builder.add_state_store(Sharing.STORE).add_state_store(Sharing.STORE)
    stream(builder).process(Sharing, named=Named("first"))
    builder.stream("other", Consumed(STRING, STRING)).process(Sharing, named=Named("second"))
    nodes = {node.name: node for node in builder.build().nodes if isinstance(node, ProcessorNode)}
    assert nodes["first"].stores == nodes["second"].stores == ("shared",)


def test_a_table_keeps_its_one_store_however_many_operators_use_it() -> None:
    builder = StreamsBuilder()
    table = builder.table("rows", Materialized("rows", key_serde=STRING, value_serde=STRING))
    table.filter(lambda key, value: True).to_stream().to("kept")
    table.map_values(str.upper, Materialized("upper", key_serde=STRING, value_serde=STRING)).to_stream().to("upper")
    table.group_by(lambda key, value: (value, key), Grouped(STRING, STRING)).count(Materialized("c"))
    stores = [store.name for part in builder.build().sub_topologies() for store in part.stores]
    assert sorted(stores) == ["c", "rows", "upper"]


def test_a_table_that_emits_at_the_commit_gets_a_store() -> None:
    builder = StreamsBuilder()
    builder.table("in", Consumed(STRING, STRING), Materialized(emit="commit")).to_stream().to("out")
    (sub_topology,) = builder.build().sub_topologies()
    assert [store.name for store in sub_topology.stores] == ["in-STATE-STORE-0000000000"]


def test_a_global_table_has_a_store_that_its_topic_restores_without_the_operator() -> None:
    builder = StreamsBuilder()
    named = builder.global_table("rates", Materialized("rates", key_serde=STRING, value_serde=LONG))
    unnamed = builder.global_table("names", Consumed(STRING, STRING, name="read-names"))

    first, second = builder.build().global_stores()

    assert named.queryable_store_name == first.store.name == "rates"
    assert unnamed.queryable_store_name == second.store.name == "names-STATE-STORE-0000000002"
    assert (second.source.name, second.processor.name) == ("read-names-source", "read-names")
    assert (first.source.value_serde, second.source.value_serde) == (LONG, STRING)
    assert not first.reprocess_on_restore
    assert first.store.type is TIMESTAMPED_KEY_VALUE


def test_a_processor_that_fills_a_global_store_sees_what_restores_it() -> None:
    builder = StreamsBuilder()
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("kept"))
    builder.add_global_store(store, "names", Consumed(), lambda: Each(forwards))

    (kept,) = builder.build().global_stores()

    assert kept.reprocess_on_restore


def test_a_read_only_store_takes_the_name_of_what_reads_its_topic_and_uses_up_no_number() -> None:
    builder = StreamsBuilder()
    for name, consumed in (("one", Consumed(STRING, LONG)), ("two", Consumed(name="fill", offset_reset="earliest"))):
        store = Stores.key_value_store_builder(Stores.persistent_key_value_store(name), STRING, LONG)
        builder.add_read_only_state_store(store, f"{name}-in", consumed, lambda: Each(forwards))
    stream(builder).process(lambda: Each(forwards), "one", named=Named("reads"))

    topology = builder.build()

    assert [node.name for node in topology.nodes] == [
        *("one-source", "one-processor", "fill-source", "fill", "KSTREAM-SOURCE-0000000000", "reads"),
    ]
    first, second = topology.sub_topologies()
    assert [store.changelog_topic for store in (*first.stores, *second.stores)] == ["one-in", "two-in"]
    with pytest.raises(
        TopologyError, match=r"^add_read_only_state_store\('two'\): its topic is read from the beginning"
    ):
        builder.add_read_only_state_store(store, "in", Consumed(offset_reset="latest"), lambda: Each(forwards))
    configured = store.with_logging_enabled({"min.insync.replicas": "2"})
    with pytest.raises(TopologyError, match=r"^add_read_only_state_store\('two'\): .*leave .* out \(log_config"):
        builder.add_read_only_state_store(configured, "in", Consumed(), lambda: Each(forwards))


def test_streams_of_one_topic_are_cogrouped_and_read_it_once() -> None:
    builder = StreamsBuilder()
    one, other = (stream(builder).group_by_key() for _ in range(2))
    cogrouped = one.cogroup(lambda key, value, total: total + 1).cogroup(other, lambda key, value, total: total + 2)
    cogrouped.aggregate(lambda: 0, Materialized("totals", STRING, LONG))
    sources = [node.name for node in builder.build().nodes if isinstance(node, SourceNode)]
    assert sources == ["KSTREAM-SOURCE-0000000000"]


def test_cogrouped_streams_that_would_share_the_name_of_a_repartition_topic_are_told_to_be_named() -> None:
    builder = StreamsBuilder()
    one, other, third = (stream(builder).select_key(lambda key, value: value) for _ in range(3))
    named = third.group_by_key(Grouped(name="third"))
    counted: CogroupedKStream[str, int] = one.group_by_key().cogroup(lambda key, value, total: total + 1)
    both = counted.cogroup(named, lambda key, value, total: total + 1)
    both.aggregate(lambda: 0, Materialized("both"))
    all_three = both.cogroup(other.group_by_key(), lambda key, value, total: total + 1)
    with pytest.raises(TopologyError, match=r"^cogroup: .* 2 of the streams.*all-repartition: name them, with Grouped"):
        all_three.aggregate(lambda: 0, Materialized("all"))

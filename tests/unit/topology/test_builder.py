"""The builder makes these of a program: sub-topologies, children, stores; and what it refuses, by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from streamsapp.errors import TopologyError
from streamsapp.processor.api import Processor, ProcessorContext
from streamsapp.processor.operator import NodeContext, Operator, Push
from streamsapp.record import Record
from streamsapp.serdes.serdes import Serdes
from streamsapp.state.api import StoreBuilder
from streamsapp.state.kinds.key_value import KEY_VALUE, TIMESTAMPED_KEY_VALUE
from streamsapp.state.kinds.store_type import StoreType
from streamsapp.topology.builder import Topology
from streamsapp.topology.nodes import ProcessorNode, SinkNode, SourceNode


def store(name: str, kind: StoreType = KEY_VALUE) -> StoreBuilder:
    return StoreBuilder(name, kind)


class Idle(Processor):
    def process(self, record: Record) -> None:
        pass


class Counting(Idle):
    """Brings its store along."""

    @staticmethod
    def stores() -> list[StoreBuilder]:
        return [store("counts")]


class OwnStores(Idle):
    """Has a method that is called ``stores`` for reasons of its own."""

    def init(self, context: ProcessorContext) -> None:
        self.stores()

    def stores(self) -> int:
        return 1


class PassOn(Operator):
    def bind(self, context: NodeContext) -> Push:
        return context.forward


def make_pass_on() -> Operator:
    return PassOn()


SHARED = Idle()


def base() -> Topology:
    topology = Topology().add_source("in", "a").add_processor("p", Idle, "in").add_sink("out", "b", "p")
    return topology.add_state_store(store("s"), "p")


class SetOfStores(Idle):
    """Brings its stores along as Java does."""

    @staticmethod
    def stores() -> set[StoreBuilder]:
        return {store(name) for name in ("zeta", "alpha", "mid")}


def test_a_supplier_brings_a_set_of_stores_in_the_same_order_everywhere() -> None:
    topology = Topology().add_source("in", "a").add_processor("p", SetOfStores, "in")

    (only,) = topology.sub_topologies()
    assert [each.name for each in only.stores] == ["alpha", "mid", "zeta"]
    assert {store("alpha"), store("alpha")} == {store("alpha")}


def test_nodes_carry_children_in_the_order_of_adding_and_the_serdes_of_either_form() -> None:
    topology = Topology().add_source("in", "a", key_deserializer=Serdes.string(), value_deserializer=bytes.decode)
    topology.add_processor("z", Idle, "in").add_processor("y", make_pass_on, "in")
    topology.add_sink("out", "b", "y", "in", "y", value_serializer=Serdes.long())

    (sub,) = topology.sub_topologies()

    source, z, y, sink = sub.nodes
    assert isinstance(source, SourceNode)
    assert source.children == ("z", "y", "out")
    assert source.key_serde is Serdes.string()
    assert source.value_serde is not None
    assert source.value_serde.deserialize(b"x") == "x"
    assert isinstance(z, ProcessorNode)
    assert z.children == ()
    assert isinstance(y, ProcessorNode)
    assert y.children == ("out", "out")
    assert isinstance(sink, SinkNode)
    assert sink.value_serde is Serdes.long()
    assert sub.sources == (source,)


def test_a_store_that_is_connected_to_nothing_belongs_to_no_sub_topology() -> None:
    topology = base().connect_processor_and_state_stores("p", "s").add_state_store(store("unused"))
    (sub,) = topology.sub_topologies()
    assert [builder.name for builder in sub.stores] == ["s"]


def test_a_supplier_brings_its_stores_along() -> None:
    topology = Topology().add_source("in", "a").add_processor("count", Counting, "in")
    topology.add_processor("other", OwnStores, "in")
    (sub,) = topology.sub_topologies()
    assert [builder.name for builder in sub.stores] == ["counts"]


def test_sub_topologies_are_numbered_by_their_first_node_and_global_stores_use_a_number() -> None:
    topology = Topology().add_source("b-in", "b")
    topology.add_global_store(store("g"), "g-in", "g-topic", "g-processor", Idle, key_deserializer=Serdes.string())
    topology.add_source("a-in", "a").add_processor("b", Idle, "b-in").add_processor("a", Idle, "a-in")

    subs = topology.sub_topologies()

    assert [(sub.id, [node.name for node in sub.nodes]) for sub in subs] == [(0, ["b-in", "b"]), (2, ["a-in", "a"])]
    (global_store,) = topology.global_stores()
    assert global_store.source.key_serde is Serdes.string()
    assert global_store.source.children == ("g-processor",)
    assert global_store.processor.stores == ("g",)
    assert global_store.store.changelog_topic == "g-topic"
    assert not global_store.store.logging
    assert global_store.topic == "g-topic"
    assert global_store.reprocess_on_restore


def test_a_read_only_store_is_filled_and_restored_by_its_topic_and_logs_nothing() -> None:
    topology = base().add_read_only_state_store(store("rates"), "rates-in", "rates-topic", "keep", Idle)
    topology.connect_processor_and_state_stores("p", "rates")

    (sub,) = topology.sub_topologies()

    (kept,) = [builder for builder in sub.stores if builder.name == "rates"]
    assert (kept.changelog_topic, kept.logging) == ("rates-topic", False)
    (source,) = [node for node in sub.sources if node.name == "rates-in"]
    assert (source.offset_reset, source.children) == ("earliest", ("keep",))


def test_a_read_only_store_has_no_changelog_to_configure() -> None:
    configured = store("rates").with_logging_enabled({"min.insync.replicas": "2"})

    with pytest.raises(TopologyError, match=r"^add_read_only_state_store\('rates'\): .*leave .* out \(log_config"):
        base().add_read_only_state_store(configured, "rates-in", "rates-topic", "keep", Idle)


def test_access_to_global_stores_is_given_to_every_processor_beside_its_own_stores() -> None:
    topology = Topology().add_source("in", "topic").add_processor("a", Idle, "in").add_processor("b", Idle, "a")
    topology.add_state_store(store("own"), "b").add_sink("out", "out", "b")
    (sub,) = topology.sub_topologies()

    opened = sub.with_access_to(["g", "h"])

    assert [node.stores for node in opened.nodes if isinstance(node, ProcessorNode)] == [("g", "h"), ("own", "g", "h")]
    assert [builder.name for builder in opened.stores] == ["own"]


def test_a_source_topic_can_serve_as_changelog_of_a_tables_store() -> None:
    topology = base().connect_processor_and_state_stores("p", "s").connect_source_store_and_topic("s", "a")
    (sub,) = topology.sub_topologies()
    assert (sub.stores[0].changelog_topic, sub.stores[0].logging) == ("a", False)
    with pytest.raises(TopologyError, match="s already has the changelog topic a, it cannot have b"):
        topology.connect_source_store_and_topic("s", "b")


def test_internal_topics_show_where_they_are_written_and_where_they_are_read() -> None:
    topology = Topology().add_internal_topic("x-repartition", 4)
    topology.add_source("in", "a").add_sink("to-x", "x-repartition", "in").add_sink("to-b", "b", "in")
    topology.add_source("from-x", "x-repartition")

    first, second = topology.sub_topologies()

    assert (first.repartition_sinks, first.repartition_sources) == (("x-repartition",), ())
    assert [(topic.name, topic.partitions) for topic in second.repartition_sources] == [("x-repartition", 4)]


def test_copartition_groups_that_overlap_are_one_group() -> None:
    topology = Topology()
    for name in "abcd":
        topology.add_source(name, f"topic-{name}").add_processor(f"p-{name}", Idle, name)
    topology.add_state_store(store("s"), "p-a", "p-b", "p-c").add_state_store(store("t"), "p-d")
    topology.copartition_sources(["a", "b"]).copartition_sources({"d"}).copartition_sources(["c", "b"])

    first, second = topology.sub_topologies()

    assert first.copartitioned == (frozenset({"topic-a", "topic-b", "topic-c"}),)
    assert second.copartitioned == (frozenset({"topic-d"}),)


def test_a_pattern_takes_the_topics_whose_whole_name_matches() -> None:
    topology = (
        Topology().add_source("all", pattern="orders-.*").add_source("t", "table").copartition_sources(["all", "t"])
    )

    sub = topology.sub_topologies(["orders-b", "old-orders-c", "orders-a", "table"])[0]

    assert sub.sources[0].topics == ("orders-a", "orders-b")
    assert sub.copartitioned == (frozenset({"orders-a", "orders-b", "table"}),)
    assert topology.sub_topologies()[0].sources[0].topics == ()


def test_a_topic_that_matches_two_patterns_is_refused() -> None:
    topology = Topology().add_source("one", pattern="a.*").add_source("two", pattern=re.compile(".*z"))
    with pytest.raises(TopologyError, match="topic abz matches the patterns of the sources one and two"):
        topology.sub_topologies(["abz"])


def test_a_pattern_may_match_the_topic_of_a_global_store() -> None:
    topology = Topology().add_global_store(store("g"), "g-in", "rates", "g-processor", Idle)
    assert topology.add_source("in", pattern="r.*").sub_topologies(["rates"])[0].sources[0].topics == ("rates",)


def test_validate_refuses_a_topology_that_reads_nothing() -> None:
    with pytest.raises(TopologyError, match="reads nothing"):
        Topology().add_state_store(store("s")).validate()
    topology = base()
    assert topology.validate() is topology
    assert [node.name for node in topology.nodes] == ["in", "p", "out"]


@pytest.mark.parametrize(("right", "refused"), [(3, True), (2, False), (None, False)])
def test_validate_compares_the_declared_partitions_of_joined_repartition_topics(
    right: int | None, refused: bool
) -> None:
    topology = Topology().add_internal_topic("l", 2).add_internal_topic("r", right)
    topology.add_source("left", "l").add_source("right", "r").copartition_sources(["left", "right"])
    if refused:
        with pytest.raises(TopologyError, match="need the same number of partitions: l: 2, r: 3"):
            topology.validate()
    else:
        topology.validate()


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda t: t.add_source("in", "c"), "node in is already added"),
    (lambda t: t.add_source("", "c"), "non-empty string, got ''"),
    (lambda t: t.add_source("x"), "source x needs either topics or a pattern"),
    (lambda t: t.add_source("x", "c", pattern="d"), "source x needs either topics or a pattern"),
    (lambda t: t.add_source("x", pattern="("), r"source x: '\(' is not a regular expression: missing \)"),
    (
        lambda t: t.add_source("x", "c", key_deserializer=5),
        "key_deserializer of source x must be a serde",
    ),
    (lambda t: t.add_source("x", "c", "c"), "source x names a topic twice: c, c"),
    (lambda t: t.add_source("x", "c", "a"), "topic a is already read by source in"),
    (lambda t: t.add_source("x", pattern="[ab]"), r"pattern \[ab\] matches topic a, which source in reads"),
    (lambda t: t.add_source("x", pattern="c+").add_source("y", "cc"), "topic cc matches the pattern of source x"),
    (lambda t: t.add_source("x", "c", offset_reset="first"), "offset_reset must be earliest, latest, none"),
    (lambda t: t.add_processor("p", Idle, "in"), "node p is already added"),
    (lambda t: t.add_processor("x", Idle), "node x has no parents"),
    (lambda t: t.add_processor("x", Idle, "nowhere"), "parent nowhere of node x is unknown; add parents before"),
    (lambda t: t.add_processor("x", Idle, "x"), "parent x of node x is unknown; a node cannot be its own parent"),
    (lambda t: t.add_processor("x", Idle, "out"), "parent out of node x is a sink"),
    (lambda t: t.add_processor("x", SHARED, "in"), "got one Idle; give the class, or a function"),
    (lambda t: t.add_processor("x", dict, "in"), "dict is not a subclass of Processor"),
    (lambda t: t.add_processor("x", "Idle", "in"), "the supplier must be a class or a function, got 'Idle'"),
    (lambda t: t.add_processor("x", lambda: 5, "in"), "the supplier made a int, not a Processor"),
    (lambda t: t.add_processor("x", lambda: SHARED, "in"), "must make a new processor each time"),
    (lambda t: t.add_sink("out", "c", "p"), "node out is already added"),
    (lambda t: t.add_sink("x", "c"), "node x has no parents"),
    (lambda t: t.add_sink("x", "", "p"), "sink x: topic must be a name or a function"),
    (lambda t: t.add_sink("x", 5, "p"), "sink x: topic must be a name or a function"),
    (lambda t: t.add_state_store(store("s", TIMESTAMPED_KEY_VALUE)), "a different state store .* the name s"),
    (lambda t: t.add_state_store(store("s")), "a different state store .* the name s"),
    (lambda t: t.add_processor("q", Counting, "in").add_processor("r", Counting, "in"), "a different state store"),
    (lambda t: t.add_state_store(store("n"), "nowhere"), "processor nowhere is not added yet"),
    (lambda t: t.connect_processor_and_state_stores("p"), "processor p: name at least one state store"),
    (lambda t: t.connect_processor_and_state_stores("p", "n"), "state store n is not added yet"),
    (
        lambda t: t.connect_processor_and_state_stores("in", "s"),
        "s cannot be connected to in: it is a source",
    ),
    (lambda t: t.connect_processor_and_state_stores("out", "s"), "s cannot be connected to out"),
    (lambda t: t.add_internal_topic("r", 0), "internal topic r: partitions must be at least 1, got 0"),
    (lambda t: t.copartition_sources(["in", "p"]), "p cannot be copartitioned: it is not a source"),
    (lambda t: t.add_global_store(store("g"), "x", "a", "y", Idle), "topic a is already read by source in"),
    (lambda t: t.add_global_store(store("g"), "x", "c", "x", Idle), "source and its processor are both named x"),
    (lambda t: t.add_global_store(store("s"), "x", "c", "y", Idle), "a different state store .* the name s"),
]


@pytest.mark.parametrize(("mistake", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_a_mistake_is_refused_where_it_is_made(mistake: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        mistake(base())


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda t: t.add_processor("x", Idle, "g-in"), "parent g-in of node x fills a global store"),
        (lambda t: t.add_state_store(store("g")), "a different global state store .* the name g"),
        (lambda t: t.connect_processor_and_state_stores("p", "g"), "global state store g is open to every processor"),
        (lambda t: t.add_source("x", "rates"), "topic rates is already read by source g-in"),
    ],
)
def test_a_global_store_stays_apart(mistake: Callable[[Any], Any], message: str) -> None:
    topology = base().add_global_store(store("g"), "g-in", "rates", "g-processor", Idle)
    with pytest.raises(TopologyError, match=message):
        mistake(topology)

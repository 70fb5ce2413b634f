"""Builds the joins of a table with another one by a key that its rows contain (KIP-213).

Called by ``KTable`` on the thread that builds the program.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from streamsapp.dsl.arity import require, require_arguments, require_arity, takes_key
from streamsapp.dsl.graph import GraphNode
from streamsapp.dsl.join_options import TableJoined
from streamsapp.dsl.names import NameGenerator
from streamsapp.dsl.nodes import ProcessorGraphNode, SinkGraphNode, StreamSourceNode
from streamsapp.dsl.operators.foreign_key import (
    AnswerSubscribers,
    AnswerSubscriptions,
    ReceiveSubscriptions,
    ResolveResponses,
    SendSubscriptions,
    SubscriptionFormat,
)
from streamsapp.dsl.options import Consumed, Materialized, Produced
from streamsapp.dsl.place import Place
from streamsapp.dsl.table_join import TableJoinType, TableSide, join_by_key
from streamsapp.dsl.table_store import table_store
from streamsapp.dsl.table_supplier import TableSource
from streamsapp.errors import TopologyError
from streamsapp.processor.api import StreamPartitioner
from streamsapp.processor.operator import Operator
from streamsapp.processor.partitions import chosen_partitions, takes_headers
from streamsapp.processor.timestamps import fail_on_invalid_timestamp
from streamsapp.record import Headers
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.foreign_key_messages import SubscriptionResponse, response_serde, subscription_serde
from streamsapp.serdes.serdes import Serdes
from streamsapp.serdes.wrapping import CONFIGURED, CONFIGURED_KEY
from streamsapp.state.api import StoreBuilder
from streamsapp.state.kinds.key_value import TIMESTAMPED_KEY_VALUE

if TYPE_CHECKING:
    from streamsapp.topology.builder import Topology

_REGISTRATION = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-"
_PROCESSOR = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"
_OUTPUT = "KTABLE-FK-JOIN-OUTPUT-"


class _Names:
    """Takes the names of nodes, topics and the store in the order in which Kafka Streams uses numbers up."""

    def __init__(self, names: NameGenerator, name: str | None) -> None:
        def named(prefix: str, suffix: str) -> str:
            return names.named(name, prefix, suffix)

        def resource(named: str) -> str:
            return names.resource(named, given=name is not None)

        self.subscription_topic = resource(named(_REGISTRATION, "-subscription-registration") + "-topic")
        self.send = named(_REGISTRATION, "-subscription-registration-processor")
        self.subscription_sink = named("KTABLE-SINK-", "-subscription-registration-sink")
        self.subscription_source = named("KTABLE-SOURCE-", "-subscription-registration-source")
        self.store = resource(named("KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-", "-subscription-store"))
        self.receive = named(_PROCESSOR, "-subscription-receive")
        self.answer_subscription = named(_PROCESSOR, "-subscription-join-foreign")
        self.answer_subscribers = named(_PROCESSOR, "-foreign-join-subscription")
        self.response_topic = resource(
            named("KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-", "-subscription-response") + "-topic"
        )
        self.response_sink = named("KTABLE-SINK-", "-subscription-response-sink")
        self.response_source = named("KTABLE-SOURCE-", "-subscription-response-source")
        self.resolve = named(
            "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-", "-subscription-response-resolver"
        )
        self.result = named(_OUTPUT, "-result")


class _WithStore:
    """Makes an operator that uses the store of subscriptions, and adds that store to the topology."""

    def __init__(self, store: StoreBuilder, make: Callable[[], Operator]) -> None:
        self._store = store
        self._make = make

    def __call__(self) -> Operator:
        return self._make()

    def stores(self) -> tuple[StoreBuilder, ...]:
        return (self._store,)


class _InternalSink(SinkGraphNode):
    """Writes an internal topic, and adds the topic to the topology."""

    def __init__(self, name: str, topic: str, produced: Produced[Any, Any]) -> None:
        super().__init__(name, topic, produced)
        self._internal_topic = topic

    def write(self, topology: Topology) -> None:
        topology.add_internal_topic(self._internal_topic)
        super().write(topology)


def _source(name: str, topic: str, key_serde: AnySerde | None, value_serde: AnySerde) -> StreamSourceNode:
    consumed = Consumed(key_serde, value_serde, timestamp_extractor=fail_on_invalid_timestamp)
    return StreamSourceNode(name, (topic,), consumed)


def join_tables(
    join: TableJoinType, left: TableSide, right: TableSide, arguments: tuple[Any, ...], options: dict[str, Any]
) -> TableSide:
    """Joins two tables: by foreign key if two functions are given, an extractor and a joiner; by the tables' own keys
    otherwise."""
    functions = sum(map(callable, arguments)) + len(options.keys() & {"foreign_key_extractor", "joiner"})
    build: Callable[..., TableSide]
    if functions > 1 and join != "outer_join":
        build, example = partial(join_by_foreign_key, join, left, right), "(table, foreign_key_extractor, joiner)"
    else:
        build, example = partial(join_by_key, join, left, right), "(table, joiner)"
    require_arguments(join, build, arguments, options, f"{join}{example}")
    return build(*arguments, **options)


def join_by_foreign_key(
    join: Literal["join", "left_join"],
    left: TableSide,
    foreign: TableSide,
    foreign_key_extractor: Callable[..., Any],
    joiner: Callable[[Any, Any], Any],
    *options: TableJoined[Any, Any] | Materialized[Any, Any],
    table_joined: TableJoined[Any, Any] | None = None,
    materialized: Materialized[Any, Any] | None = None,
) -> TableSide:
    """Joins each row of ``left`` with the row of ``foreign`` that the extractor names."""
    for option in options:
        if isinstance(option, TableJoined) and table_joined is None:
            table_joined = option
        elif isinstance(option, Materialized) and materialized is None:
            materialized = option
        else:
            raise TopologyError(f"{join}: {option!r} is one option too many; it takes a TableJoined and a Materialized")
    require(join, table_joined, TableJoined, "TableJoined(name=...)")
    require(join, materialized, Materialized, "Materialized(store_name)")
    require_arity(join, joiner, "row", "foreign_row")
    with_key = takes_key(f"{join}'s foreign_key_extractor", foreign_key_extractor)
    extract = foreign_key_extractor if with_key else lambda key, value: foreign_key_extractor(value)
    return _ForeignKeyJoin(left, foreign, table_joined or TableJoined(), left_join=join == "left_join").build(
        extract, joiner, materialized
    )


class _ForeignKeyJoin:
    """Builds one join."""

    def __init__(
        self, left: TableSide, foreign: TableSide, table_joined: TableJoined[Any, Any], *, left_join: bool
    ) -> None:
        foreign.table.enable_sending_old_values(force=True)
        left.table.enable_sending_old_values(force=True)
        self._left = left
        self._foreign = foreign
        self._options = table_joined
        self._left_join = left_join
        self._graph = left.place.graph
        self._names = _Names(self._graph.names, table_joined.name)
        self._primary_key = left.place.key_serde
        self._foreign_key = foreign.place.key_serde
        self._wire = SubscriptionFormat(
            self._names.subscription_topic,
            self._foreign_key or CONFIGURED_KEY,
            self._primary_key or CONFIGURED_KEY,
            left.place.value_serde or CONFIGURED,
        )

    def build(
        self,
        extract: Callable[[Any, Any], Any],
        joiner: Callable[[Any, Any], Any],
        materialized: Materialized[Any, Any] | None,
    ) -> TableSide:
        graph, names, wire, left_join = self._graph, self._names, self._wire, self._left_join
        subscriptions = self._subscriptions(extract)
        responses = self._responses(subscriptions)
        rows, held = self._left.table.view, self._left.table.holds_updates
        resolve = ProcessorGraphNode(
            names.resolve, lambda: ResolveResponses(wire, rows(), joiner, left_join, held), rows().store_names
        )
        graph.add(resolve, responses)
        store = table_store(graph.names, _OUTPUT, materialized, self._left.place.key_serde, None)
        table = TableSource(store)
        result = ProcessorGraphNode(names.result, table)
        graph.add(result, resolve)
        return TableSide(Place(graph, result, names.result, store.key_serde, store.value_serde), table)

    def _subscriptions(self, extract: Callable[[Any, Any], Any]) -> GraphNode:
        """Adds the nodes that take subscriptions, in the tasks of the foreign table."""
        graph, names, wire, left_join = self._graph, self._names, self._wire, self._left_join
        send = ProcessorGraphNode(names.send, lambda: SendSubscriptions(wire, extract, left_join))
        graph.add(send, self._left.place.node)
        serde = subscription_serde(self._wire.primary_key)
        partitioner = _by_key(self._options.other_partitioner)
        sink = _InternalSink(names.subscription_sink, wire.topic, Produced(self._foreign_key, serde, partitioner))
        graph.add(sink, send)
        source = _source(names.subscription_source, wire.topic, self._foreign_key, serde)
        graph.add(source, sink)
        graph.copartition(self._foreign.place.node, source)
        return source

    def _responses(self, subscriptions: GraphNode) -> GraphNode:
        """Adds the nodes that take responses, in the tasks of the left table."""
        graph, names, wire, foreign_rows = self._graph, self._names, self._wire, self._foreign.table.view
        left_join = self._left_join
        store = StoreBuilder(names.store, TIMESTAMPED_KEY_VALUE, key_serde=Serdes.bytes(), value_serde=Serdes.bytes())
        receive = ProcessorGraphNode(
            names.receive, _WithStore(store, lambda: ReceiveSubscriptions(wire, store.name, left_join))
        )
        graph.add(receive, subscriptions)
        answer = ProcessorGraphNode(
            names.answer_subscription, lambda: AnswerSubscriptions(foreign_rows()), foreign_rows().store_names
        )
        graph.add(answer, receive)
        answer_all = ProcessorGraphNode(
            names.answer_subscribers, _WithStore(store, lambda: AnswerSubscribers(wire, store.name))
        )
        graph.add(answer_all, self._foreign.place.node)
        serde = response_serde(self._foreign.place.value_serde or CONFIGURED)
        partitioner = _by_key(self._options.partitioner) or _to_asking_partition
        sink = _InternalSink(names.response_sink, names.response_topic, Produced(self._primary_key, serde, partitioner))
        graph.add(sink, answer, answer_all)
        source = _source(names.response_source, names.response_topic, self._primary_key, serde)
        graph.add(source, sink)
        graph.copartition(self._left.place.node, source)
        return source


def _by_key(partitioner: Callable[..., Any] | None) -> StreamPartitioner | None:
    """Wraps the user's partitioner, which is given no value: the records that travel do not hold the user's values.

    It has to choose one partition: an answer of several, or of none, would end in a wrong row.
    """
    if partitioner is None:
        return None
    with_headers = takes_headers("the partitioner of a foreign-key join", partitioner)

    def choose(topic: str, key: Any, value: Any, headers: Headers, partitions: int) -> tuple[int, ...] | None:
        given = (headers, partitions) if with_headers else (partitions,)
        chosen = partitioner(topic, key, None, *given)
        if chosen is None:
            return None
        numbers = chosen_partitions(topic, chosen)
        if len(numbers) != 1:
            raise ValueError(
                f"the partitioner of a foreign-key join has to choose one partition of topic {topic}, got {chosen!r}"
            )
        return numbers

    return choose


def _to_asking_partition(topic: str, key: Any, response: SubscriptionResponse, partitions: int) -> int | None:
    """Sends a response to the partition that the subscription came from."""
    return response.partition

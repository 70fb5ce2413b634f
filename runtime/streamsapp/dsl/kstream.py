"""``KStream``: a stream of independent records, and the operators on it.

User code calls this while it builds a program, on its own thread; functions given here run on processing threads, and
are given ``(key, value)`` unless said otherwise. Mappers of values are given ``(value)``, or ``(key, value)`` where
they must be given two arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar, overload

from streamsapp.dsl.arity import require, require_arguments, require_arity, takes_key
from streamsapp.dsl.branched import BranchedKStream
from streamsapp.dsl.fitting import fit_place
from streamsapp.dsl.global_table import GlobalKTable
from streamsapp.dsl.join_options import Joined, StreamJoined
from streamsapp.dsl.join_side import JoinSide
from streamsapp.dsl.kgroupedstream import KGroupedStream
from streamsapp.dsl.kstream_additions import KStreamAdditions
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.late import Late, send_old_versions
from streamsapp.dsl.names import repartition_names
from streamsapp.dsl.nodes import (
    KeyChangingNode,
    MergeNode,
    ProcessorGraphNode,
    RepartitionNode,
    SinkGraphNode,
    StatelessNode,
    TableNode,
    ValueChangingNode,
    ValueMappingNode,
)
from streamsapp.dsl.operators.printing import Print
from streamsapp.dsl.operators.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    ForEach,
    Map,
    MapValues,
    PassThrough,
    Peek,
    SelectKey,
)
from streamsapp.dsl.options import (
    Grouped,
    Materialized,
    Named,
    Printed,
    Produced,
    Repartitioned,
    name_of,
    table_options,
)
from streamsapp.dsl.place import Place
from streamsapp.dsl.stream_joins import JOIN_KINDS, join_streams
from streamsapp.dsl.stream_table_join import JoinType, join_with_global_table, join_with_table
from streamsapp.dsl.table_store import table_store
from streamsapp.dsl.table_supplier import TableSource
from streamsapp.dsl.windows import JoinWindows
from streamsapp.errors import TopologyError
from streamsapp.processor.api import Processor, TopicNameExtractor
from streamsapp.topology.name_rules import topic_name

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")
KO = TypeVar("KO")
VO = TypeVar("VO")

_WINDOWED_JOIN = "(other, joiner, JoinWindows.of(timedelta(minutes=5)))"


class KStream(KStreamAdditions[K, V]):
    """A stream of records that are independent of each other.

    Every operator returns a new stream and leaves this one as it is. All of them raise ``TopologyError`` for a function
    that cannot be called with the arguments named here, and for names that Kafka refuses or that are taken.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._names = place.graph.names
        self._side = JoinSide(place)

    def _at(self, place: Place) -> KStream[Any, Any]:
        return KStream(place)

    # ---- records in, records out -------------------------------------------------------------------------------

    def filter(self, predicate: Callable[[K, V], Any], named: Named | str | None = None) -> KStream[K, V]:
        """Keeps the records for which ``predicate(key, value)`` is true."""
        return self._filter("filter", predicate, named, negate=False)

    def filter_not(self, predicate: Callable[[K, V], Any], named: Named | str | None = None) -> KStream[K, V]:
        """Drops the records for which ``predicate(key, value)`` is true."""
        return self._filter("filter_not", predicate, named, negate=True)

    def map(self, mapper: Callable[[K, V], tuple[KR, VR]], named: Named | str | None = None) -> KStream[KR, VR]:
        """Gives each record the key and value that ``mapper(key, value)`` returns as a pair. Grouping or joining the
        result by key needs a repartition topic."""
        require_arity("map", mapper, "key", "value")
        name = self._names.named(name_of(named), "KSTREAM-MAP-")
        return KStream(self._then_changed_key(KeyChangingNode(name, lambda: Map(mapper))))

    def map_values(self, mapper: Callable[..., VR], named: Named | str | None = None) -> KStream[K, VR]:
        """Gives each record the value that ``mapper(value)``, or ``mapper(key, value)``, returns. The key stays, and
        with it the partition."""
        with_key = takes_key("map_values", mapper)
        name = self._names.named(name_of(named), "KSTREAM-MAPVALUES-")
        return self._then_changed_value(ValueMappingNode(name, lambda: MapValues(mapper, with_key)))

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[KR, VR]]], named: Named | str | None = None
    ) -> KStream[KR, VR]:
        """Turns each record into the records that ``mapper(key, value)`` returns as an iterable of pairs of key and
        value."""
        require_arity("flat_map", mapper, "key", "value")
        name = self._names.named(name_of(named), "KSTREAM-FLATMAP-")
        return KStream(self._then_changed_key(KeyChangingNode(name, lambda: FlatMap(mapper))))

    def flat_map_values(self, mapper: Callable[..., Iterable[VR]], named: Named | str | None = None) -> KStream[K, VR]:
        """Turns each record into one record for each value of the iterable that ``mapper(value)``, or
        ``mapper(key, value)``, returns. The key stays."""
        with_key = takes_key("flat_map_values", mapper)
        name = self._names.named(name_of(named), "KSTREAM-FLATMAPVALUES-")
        return self._then_changed_value(ValueMappingNode(name, lambda: FlatMapValues(mapper, with_key)))

    def select_key(self, selector: Callable[[K, V], KR], named: Named | str | None = None) -> KStream[KR, V]:
        """Gives each record the key that ``selector(key, value)`` returns. Grouping or joining the result by key needs
        a repartition topic."""
        node = self._select_key("select_key", selector, name_of(named))
        return KStream(self._place.then(node, None, self._place.value_serde, key_changed=True))

    def peek(self, action: Callable[[K, V], object], named: Named | str | None = None) -> KStream[K, V]:
        """Calls ``action(key, value)`` for each record and hands the record on."""
        require_arity("peek", action, "key", "value")
        name = self._names.named(name_of(named), "KSTREAM-PEEK-")
        return self._then_same_types(ProcessorGraphNode(name, lambda: Peek(action)))

    def merge(self, other: KStream[K, V], named: Named | str | None = None) -> KStream[K, V]:
        """Merges this stream with another one: records of both go on in the order in which they are processed."""
        require("merge", other, KStream, "merge(other_stream)")
        mine, others = self._place, other._place
        if others.graph is not mine.graph:
            raise TopologyError("merge: the other stream comes from another StreamsBuilder; build both with one")
        node = MergeNode(self._names.named(name_of(named), "KSTREAM-MERGE-"), PassThrough)
        mine.graph.add(node, mine.node, others.node)
        # The streams' serdes may differ, so neither is known to fit both.
        return KStream(Place(mine.graph, node, node.name, key_changed=mine.key_changed or others.key_changed))

    def split(self, named: Named | str | None = None) -> BranchedKStream[K, V]:
        """Begins to split the stream into branches: ``split().branch(predicate, ...)...default_branch()`` (KIP-418)."""
        return BranchedKStream(self._place, name_of(named), KStream)

    # ---- records out of the program ----------------------------------------------------------------------------

    def foreach(self, action: Callable[[K, V], object], named: Named | str | None = None) -> None:
        """Calls ``action(key, value)`` for each record. The stream ends here, so nothing is returned."""
        require_arity("foreach", action, "key", "value")
        name = self._names.named(name_of(named), "KSTREAM-FOREACH-")
        self._place.end(ProcessorGraphNode(name, lambda: ForEach(action)))

    def print(self, printed: Printed[K, V] | None = None) -> None:
        """Writes each record as a line of text, on standard output or into a file."""
        require("print", printed, Printed, "Printed(label)")
        printed = printed or Printed()
        if printed.mapper is not None:
            require_arity("print", printed.mapper, "key", "value")
        label, mapper, path = printed.label or self._place.name, printed.mapper, printed.path
        name = self._names.named(printed.name, "KSTREAM-PRINTER-")
        self._place.end(ProcessorGraphNode(name, lambda: Print(label, mapper, path)))

    def to(self, topic: str | TopicNameExtractor, produced: Produced[K, V] | None = None) -> None:
        """Writes each record to a topic, or to the topic whose name ``extractor(key, value, metadata)`` returns
        (KIP-303)."""
        require("to", produced, Produced, "Produced(key_serde, value_serde)")
        if callable(topic):
            require_arity("to", topic, "key", "value", "metadata")
        else:
            topic = topic_name("to", topic)
        produced = produced or Produced()
        operation = f"to({topic!r})" if isinstance(topic, str) else "to"
        fit_place(operation, self._place, produced.key_serde, produced.value_serde, "Produced")
        filled: Produced[Any, Any] = Produced(
            produced.key_serde or self._place.key_serde,
            produced.value_serde or self._place.value_serde,
            produced.partitioner,
            name=produced.name,
        )
        name = self._names.named(produced.name, "KSTREAM-SINK-")
        self._place.end(SinkGraphNode(name, topic, filled))

    # ---- through a topic, a processor, a table -----------------------------------------------------------------

    def repartition(self, repartitioned: Repartitioned[K, V] | None = None) -> KStream[K, V]:
        """Sends the stream through an internal topic, partitioned by its key (KIP-221). Records without a key are
        dropped."""
        require("repartition", repartitioned, Repartitioned, "Repartitioned(key_serde, value_serde)")
        options = repartitioned or Repartitioned[K, V]()
        fit_place("repartition", self._place, options.key_serde, options.value_serde, "Repartitioned")
        base = options.name or self._names.processor("KSTREAM-REPARTITION-")
        node = RepartitionNode(
            repartition_names(self._names, base, given=options.name is not None),
            options.key_serde or self._place.key_serde,
            options.value_serde or self._place.value_serde,
            optimizable=False,
            partitions=options.partitions,
            partitioner=options.partitioner,
        )
        return KStream(self._place.then(node, node.key_serde, node.value_serde, key_changed=False))

    def process(
        self,
        supplier: Callable[[], Processor],
        *state_stores: str | Named,
        named: Named | str | None = None,
    ) -> KStream[Any, Any]:
        """Runs the processor that ``supplier`` makes for each task, with access to the named state stores (KIP-820)."""
        name, stores = self._processor_options("process", state_stores, named, "KSTREAM-PROCESSOR-")
        # No repartition topic moves above it, for it may change both. Nor do the topics below become one, which would
        # not be the topics that Kafka Streams has.
        return KStream(self._place.then(ValueChangingNode(name, supplier, stores), None, None, key_changed=True))

    def process_values(
        self,
        supplier: Callable[[], Processor],
        *state_stores: str | Named,
        named: Named | str | None = None,
    ) -> KStream[K, Any]:
        """Runs a processor that forwards records under the keys they came with, so that no record leaves its partition
        (KIP-820).

        An operator that groups by the key afterwards relies on it and uses no repartition topic. The key is not
        checked: a processor that forwards another one leaves records in the wrong partition.
        """
        name, stores = self._processor_options("process_values", state_stores, named, "KSTREAM-PROCESSVALUES-")
        return self._then_changed_value(ValueChangingNode(name, supplier, stores))

    def to_table(
        self,
        *options: Named | str | Materialized[K, V],
        named: Named | str | None = None,
        materialized: Materialized[K, V] | None = None,
        late: Late[K, V] | None = None,
    ) -> KTable[K, V]:
        """Reads the stream as updates of a table: the last value of each key is its row, a record without a value
        deletes it (KIP-523). ``late`` says where records go that are older than the history of a versioned table."""
        wanted_name, materialized = table_options("to_table", options, named, materialized)
        place = self._place
        name = self._names.named(wanted_name, "KSTREAM-TOTABLE-")
        store = table_store(self._names, "KSTREAM-TOTABLE-", materialized, place.key_serde, place.value_serde)
        if place.key_changed:
            names = repartition_names(self._names, name, given=wanted_name is not None)
            node = RepartitionNode(names, store.key_serde, store.value_serde, optimizable=True)
            place = place.then(node, store.key_serde, store.value_serde, key_changed=False)
        table = TableSource(store)
        place = place.then(TableNode(name, table), store.key_serde, store.value_serde, key_changed=False)
        send_old_versions("to_table", late, place, table)
        return KTable(place, table)

    # ---- joins -------------------------------------------------------------------------------------------------

    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: Callable[..., VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        late: Late[Any, Any] | None = None,
    ) -> KStream[K, VR]: ...

    @overload
    def join(
        self, other: KTable[K, VO], joiner: Callable[..., VR], joined: Joined[K, V, VO] | None = None
    ) -> KStream[K, VR]: ...

    @overload
    def join(
        self,
        other: GlobalKTable[KO, VO],
        key_selector: Callable[[K, V], KO | None],
        joiner: Callable[..., VR],
        named: Named | str | None = None,
    ) -> KStream[K, VR]: ...

    def join(self, other: Any, *arguments: Any, **options: Any) -> KStream[K, Any]:
        """Joins each record with a row of a table, or with records of another stream.

        The row is the one that a table has for the record's key, or a global table for the key that
        ``key_selector(key, value)`` returns. Records of another stream join if they have the same key and their
        timestamps are as near as ``windows`` say; each pair has one result. It is made when the second of them is
        processed, and has the higher of both timestamps.

        ``joiner`` is given ``(value, row)``, or ``(key, value, row)`` if it must be given three arguments, and with a
        global table ``(key, row_key, value, row)`` if it must be given four (KIP-1340). Records without a value,
        without a key to look up, and those for which there is no row have no result.

        Raises ``TopologyError`` for anything that cannot be joined.
        """
        return self._join("join", other, arguments, options)

    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[..., VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        late: Late[Any, Any] | None = None,
    ) -> KStream[K, VR]: ...

    @overload
    def left_join(
        self, other: KTable[K, VO], joiner: Callable[..., VR], joined: Joined[K, V, VO] | None = None
    ) -> KStream[K, VR]: ...

    @overload
    def left_join(
        self,
        other: GlobalKTable[KO, VO],
        key_selector: Callable[[K, V], KO | None],
        joiner: Callable[..., VR],
        named: Named | str | None = None,
    ) -> KStream[K, VR]: ...

    def left_join(self, other: Any, *arguments: Any, **options: Any) -> KStream[K, Any]:
        """Joins as :meth:`join` does. If there is no row, or no key to look up (KIP-962), the row is ``None``.

        A record that finds none of another stream has its result once stream time has passed its window and grace. The
        result is sent with a later record, and the store is looked through at most once in 1,000 ms of wall-clock time.
        """
        return self._join("left_join", other, arguments, options)

    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[..., VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        late: Late[Any, Any] | None = None,
    ) -> KStream[K, VR]:
        """Joins two streams as :meth:`left_join` does; records of either stream that find no other have a result.
        Raises ``TopologyError`` for anything else than another stream."""
        if not isinstance(other, KStream):
            raise TopologyError(f"outer_join: a stream is joined with a KStream, not {type(other).__name__}")
        kind = JOIN_KINDS["outer_join"]
        return KStream(join_streams(kind, self._side, other._side, joiner, windows, stream_joined, late=late))

    def join_prior(
        self,
        other: KStream[K, VO],
        joiner: Callable[..., VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        late: Late[Any, Any] | None = None,
    ) -> KStream[K, VR]:
        """Joins each record of either stream with records of the other one that are older (KIP-28, ``joinPrior``).

        Unlike with :meth:`join`, a record that comes late finds no later ones, and records of the same time do not find
        each other. Kafka Streams no longer has this operator; the names are those of a join.
        """
        if not isinstance(other, KStream):
            raise TopologyError(f"join_prior: a stream is joined with a KStream, not {type(other).__name__}")
        kind = JOIN_KINDS["join_prior"]
        return KStream(join_streams(kind, self._side, other._side, joiner, windows, stream_joined, late=late))

    # ---- groups ------------------------------------------------------------------------------------------------

    def group_by_key(self, grouped: Grouped[K, V] | None = None) -> KGroupedStream[K, V]:
        """Groups the records by their key. A repartition topic is used only if the key was changed before."""
        require("group_by_key", grouped, Grouped, "Grouped(key_serde, value_serde)")
        return KGroupedStream(self._place, grouped or Grouped())

    def group_by(self, selector: Callable[[K, V], KR], grouped: Grouped[KR, V] | None = None) -> KGroupedStream[KR, V]:
        """Groups the records by the key that ``selector(key, value)`` returns; the records travel through a repartition
        topic."""
        require("group_by", grouped, Grouped, "Grouped(key_serde, value_serde)")
        options = grouped or Grouped[KR, V]()
        node = self._select_key("group_by", selector, options.name)
        return KGroupedStream(self._place.then(node, None, self._place.value_serde, key_changed=True), options)

    # ---- helpers -----------------------------------------------------------------------------------------------

    def _join(self, join: JoinType, other: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> KStream[K, Any]:
        build: Callable[..., Place]
        if isinstance(other, KStream):
            build, example = partial(join_streams, JOIN_KINDS[join], self._side, other._side), _WINDOWED_JOIN
        elif isinstance(other, KTable):
            build = partial(join_with_table, self._side, join, other._place, other._table)
            example = "(table, joiner)"
        elif isinstance(other, GlobalKTable):
            build = partial(join_with_global_table, self._side, join, other.queryable_store_name)
            example = "(global_table, key_selector, joiner)"
        else:
            given = type(other).__name__
            raise TopologyError(f"{join}: a stream is joined with a KStream, a KTable or a GlobalKTable, not {given}")
        require_arguments(join, build, arguments, options, f"{join}{example}")
        return KStream(build(*arguments, **options))

    def _filter(
        self, operation: str, predicate: Callable[[K, V], Any], named: Named | str | None, *, negate: bool
    ) -> KStream[K, V]:
        require_arity(operation, predicate, "key", "value")
        name = self._names.named(name_of(named), "KSTREAM-FILTER-")
        return self._then_same_types(StatelessNode(name, lambda: Filter(predicate, negate)))

    def _select_key(self, operation: str, selector: Callable[[K, V], Any], name: str | None) -> KeyChangingNode:
        require_arity(operation, selector, "key", "value")
        return KeyChangingNode(self._names.named(name, "KSTREAM-KEY-SELECT-"), lambda: SelectKey(selector))

    def _processor_options(
        self, operation: str, state_stores: tuple[str | Named, ...], named: Named | str | None, prefix: str
    ) -> tuple[str, tuple[str, ...]]:
        """Returns the node's name and its stores. As in Kafka Streams, a name that is given here uses up no number."""
        stores = tuple(option for option in state_stores if isinstance(option, str))
        names = [option for option in state_stores if isinstance(option, Named)]
        wanted = name_of(named or (names.pop() if names else None))
        if names:
            raise TopologyError(f"{operation}: the processor is named twice, {wanted} and {names[0].name}")
        return wanted or self._names.processor(prefix), stores

    def _then_same_types(self, node: ProcessorGraphNode) -> KStream[K, V]:
        place = self._place
        return KStream(place.then(node, place.key_serde, place.value_serde, key_changed=place.key_changed))

    def _then_changed_value(self, node: ProcessorGraphNode) -> KStream[K, Any]:
        place = self._place
        return KStream(place.then(node, place.key_serde, None, key_changed=place.key_changed))

    def _then_changed_key(self, node: ProcessorGraphNode) -> Place:
        return self._place.then(node, None, None, key_changed=True)

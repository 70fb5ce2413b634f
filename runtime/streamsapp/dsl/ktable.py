"""``KTable``: a table, which is a stream of updates of rows, and the operators on it.

User code calls this while it builds a program, on its own thread; functions given here run on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from streamsapp.dsl.arity import require, require_arity, takes_key
from streamsapp.dsl.foreign_key_join import join_tables
from streamsapp.dsl.graph import find_downstream
from streamsapp.dsl.join_options import TableJoined
from streamsapp.dsl.nodes import ProcessorGraphNode, StatelessNode
from streamsapp.dsl.operators.stateless import ToStream
from streamsapp.dsl.operators.table_groups import RegroupTable
from streamsapp.dsl.operators.table_views import ComputedView
from streamsapp.dsl.operators.tables import (
    StoredTableTransformValues,
    StoredTableValues,
    TransformedView,
    UnstoredTableTransformValues,
    UnstoredTableValues,
    ValueTransformer,
)
from streamsapp.dsl.options import Grouped, Materialized, Named, name_of, table_options
from streamsapp.dsl.place import Place
from streamsapp.dsl.suppress import SuppressedTable
from streamsapp.dsl.suppressed import Suppressed
from streamsapp.dsl.table_join import TableJoinType, TableSide
from streamsapp.dsl.table_store import TableStore, table_store
from streamsapp.dsl.table_supplier import DerivedTable, FilteredTable, TableSupplier
from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import JavaNames

if TYPE_CHECKING:
    from streamsapp.dsl.kgroupedtable import KGroupedTable
    from streamsapp.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")
KO = TypeVar("KO")
VO = TypeVar("VO")


class KTable(JavaNames, Generic[K, V]):
    """A table: each key has a row, which is its last value. An update without a value deletes the row.

    Every operator returns a new table and leaves this one as it is. A derived table has a store only if one is asked
    for with ``materialized`` or needed below. All operators raise ``TopologyError`` for a function that cannot be
    called with the arguments named here, and for names that Kafka refuses or that are taken.
    """

    def __init__(self, place: Place, table: TableSupplier) -> None:
        self._place = place
        self._names = place.graph.names
        self._table = table

    def filter(
        self,
        predicate: Callable[[K, V], Any],
        *options: Named | str | Materialized[K, V],
        named: Named | str | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> KTable[K, V]:
        """Returns the rows for which ``predicate(key, value)`` is true; a row that ceases to match is deleted
        downstream."""
        return self._filter("filter", predicate, *table_options("filter", options, named, materialized))

    def filter_not(
        self,
        predicate: Callable[[K, V], Any],
        *options: Named | str | Materialized[K, V],
        named: Named | str | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> KTable[K, V]:
        """Returns the rows for which ``predicate(key, value)`` is false."""
        return self._filter("filter_not", predicate, *table_options("filter_not", options, named, materialized))

    def map_values(
        self,
        mapper: Callable[..., VR],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]:
        """Returns each row with the value that ``mapper(value)``, or ``mapper(key, value)``, returns."""
        with_key = takes_key("map_values", mapper)
        name, materialized = table_options("map_values", options, named, materialized)
        store = self._store("KTABLE-MAPVALUES-", materialized, None)
        name = self._names.named(name, "KTABLE-MAPVALUES-")

        def compute(key: Any, value: Any) -> Any:
            if value is None:
                return None
            return mapper(key, value) if with_key else mapper(value)

        table = DerivedTable(
            self._table,
            store,
            partial(StoredTableValues, compute, False),
            partial(UnstoredTableValues, compute, False, store is None),
            partial(ComputedView, compute=compute),
            materialized=store is not None,
        )
        return self._derived(_computing(name, table), table, store, None)

    def transform_values(
        self,
        supplier: Callable[[], ValueTransformer],
        *options: Named | str | Materialized[K, Any],
        named: Named | str | None = None,
        materialized: Materialized[K, Any] | None = None,
    ) -> KTable[K, Any]:
        """Returns each row with the value that a transformer returns; ``supplier`` makes one transformer per task
        (KIP-292).

        Positional strings name the state stores that the transformer uses.
        """
        require_arity("transform_values", supplier)
        stores = tuple(option for option in options if isinstance(option, str))
        others = tuple(option for option in options if not isinstance(option, str))
        name, materialized = table_options("transform_values", others, named, materialized)
        # Kafka Streams does not use up a number for a store here.
        wanted = materialized or Materialized[K, Any]()
        kept_by_time = wanted.versioned is not None or wanted.ttl is not None
        stored = wanted.store_name is not None or wanted.emit == "commit" or kept_by_time
        prefix = "KTABLE-TRANSFORMVALUES-"
        store = self._store(prefix, materialized, None) if stored else None
        name = self._names.named(name, prefix)
        table = DerivedTable(
            self._table,
            store,
            lambda *stored_in: StoredTableTransformValues(supplier(), *stored_in),
            lambda send_old_values: UnstoredTableTransformValues(supplier(), materialized is None, send_old_values),
            lambda parent: TransformedView(parent, supplier()),
            materialized=materialized is not None,
        )
        serde = None if materialized is None else materialized.value_serde
        return self._derived(ProcessorGraphNode(name, table, stores), table, store, serde)

    def suppress(self, suppressed: Suppressed) -> KTable[K, V]:
        """Holds updates back until their window closes, or for a time and as far as the buffer has room (KIP-328).

        Raises ``TopologyError`` if updates are to wait for windows and there is no windowed aggregation above.
        """
        table = SuppressedTable(self._place, self._table, suppressed)
        return self._derived(table.node, table, None, self._place.value_serde)

    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], VR],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]: ...

    @overload
    def join(
        self,
        other: KTable[KO, VO],
        foreign_key_extractor: Callable[..., KO | None],
        joiner: Callable[[V, VO], VR],
        *options: TableJoined[K, KO] | Materialized[K, VR],
        table_joined: TableJoined[K, KO] | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]: ...

    def join(self, other: Any, *arguments: Any, **options: Any) -> KTable[K, Any]:
        """Returns a table of the keys that both tables have, with the value that ``joiner(row, other_row)`` returns.

        With a ``foreign_key_extractor``, which is given ``(value)`` or ``(key, value)``, each row is joined with the
        row of the other table that the extractor names. This goes through two internal topics (KIP-213). The join is
        updated when either table is; a result has the later timestamp of both rows. Raises ``TopologyError`` for
        anything that cannot be joined.
        """
        return self._join("join", other, arguments, options)

    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], VR],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]: ...

    @overload
    def left_join(
        self,
        other: KTable[KO, VO],
        foreign_key_extractor: Callable[..., KO | None],
        joiner: Callable[[V, VO | None], VR],
        *options: TableJoined[K, KO] | Materialized[K, VR],
        table_joined: TableJoined[K, KO] | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]: ...

    def left_join(self, other: Any, *arguments: Any, **options: Any) -> KTable[K, Any]:
        """Returns the rows of this table, joined as by :meth:`join`; if the other table has no row, the joiner is given
        ``None``."""
        return self._join("left_join", other, arguments, options)

    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V | None, VO | None], VR],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]:
        """Returns the rows of both tables, joined as by :meth:`join`; if one table has no row, the joiner is given
        ``None`` for it."""
        return self._join("outer_join", other, (joiner, *options), {"named": named, "materialized": materialized})

    def to_stream(
        self, mapper: Callable[[K, V], KR] | Named | str | None = None, named: Named | str | None = None
    ) -> KStream[Any, V]:
        """Returns the updates of the table as a stream; with a mapper, under the keys that ``mapper(key, value)``
        returns."""
        from streamsapp.dsl.kstream import KStream  # a stream makes tables, a table makes streams

        if isinstance(mapper, (Named, str)):
            mapper, named = None, mapper
        place = self._place
        node = StatelessNode(self._names.named(name_of(named), "KTABLE-TOSTREAM-"), ToStream)
        stream: KStream[Any, V] = KStream(place.then(node, place.key_serde, place.value_serde, key_changed=False))
        return stream if mapper is None else stream.select_key(mapper)

    def group_by(
        self, selector: Callable[[K, V], tuple[KR, VR] | None], grouped: Grouped[KR, VR] | None = None
    ) -> KGroupedTable[KR, VR]:
        """Groups the rows: ``selector(key, value)`` returns the group and the value of the row there, as a pair.

        A row belongs to no group if the pair, the group or the value is ``None``. Updates travel through a repartition
        topic. The changes of a row within a commit travel as one, unless its table was given
        ``Materialized(emit="update")``.
        """
        from streamsapp.dsl.kgroupedtable import KGroupedTable  # a table is grouped, and grouped it makes tables

        require_arity("group_by", selector, "key", "value")
        require("group_by", grouped, Grouped, "Grouped(key_serde, value_serde)")
        options = grouped or Grouped[KR, VR]()
        name = self._names.named(options.name, "KTABLE-SELECT-")
        node = ProcessorGraphNode(name, lambda: RegroupTable(selector, combines=self._combines_above(node)))
        place = self._place.then(node, options.key_serde, options.value_serde, key_changed=False)
        self._table.enable_sending_old_values(force=True)
        if self._table.emit is None:
            self._table.send_true_old_values()
        return KGroupedTable(place, options)

    def _combines_above(self, groups: ProcessorGraphNode) -> bool:
        """Says whether changes of rows are combined in front of their groups: unless the user said when updates go, or
        the time of changes that were held could be too late for windows below."""
        return self._table.emit is None and find_downstream(groups, lambda node: node.drops_late) is None

    def _join(
        self, join: TableJoinType, other: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> KTable[K, Any]:
        if not isinstance(other, KTable):
            raise TopologyError(f"{join}: a table is joined with a KTable, not {type(other).__name__}")
        if other._place.graph is not self._place.graph:
            raise TopologyError(f"{join}: the other table comes from another StreamsBuilder; build both with one")
        left, right = TableSide(self._place, self._table), TableSide(other._place, other._table)
        return KTable(*join_tables(join, left, right, arguments, options))

    def _filter(
        self,
        operation: str,
        predicate: Callable[[K, V], Any],
        name: str | None,
        materialized: Materialized[K, V] | None,
    ) -> KTable[K, V]:
        require_arity(operation, predicate, "key", "value")
        negate = operation == "filter_not"
        store = self._store("KTABLE-FILTER-", materialized, self._place.value_serde)
        name = self._names.named(name, "KTABLE-FILTER-")

        def compute(key: Any, value: Any) -> Any:
            return value if value is not None and (not predicate(key, value)) is negate else None

        # Kafka Streams sends such updates of versioned tables.
        skip_absent = not self._table.versioned
        table = FilteredTable(
            self._table,
            store,
            partial(StoredTableValues, compute, skip_absent),
            partial(UnstoredTableValues, compute, skip_absent, store is None),
            partial(ComputedView, compute=compute),
            materialized=store is not None,
        )
        return self._derived(_computing(name, table), table, store, self._place.value_serde)

    def _store(self, prefix: str, materialized: Materialized[Any, Any] | None, value_serde: Any) -> TableStore | None:
        """Returns the store that was asked for. Asking uses up a number, even if the table then needs no store."""
        if materialized is None:
            return None
        return table_store(self._names, prefix, materialized, self._place.key_serde, value_serde)

    def _derived(
        self, node: ProcessorGraphNode, table: TableSupplier, store: TableStore | None, value_serde: Any
    ) -> KTable[K, Any]:
        place = self._place
        key_serde = place.key_serde if store is None else store.key_serde
        value_serde = value_serde if store is None else store.value_serde
        return KTable(place.then(node, key_serde, value_serde, key_changed=False), table)


def _computing(name: str, table: DerivedTable) -> ProcessorGraphNode:
    """Returns the node of a table that is computed row by row; one with a store can be queried."""
    return ProcessorGraphNode(name, table) if table.stores() else StatelessNode(name, table)

"""``KGroupedStream``: a stream grouped by key, to be aggregated into a table.

User code calls this while it builds a program, on its own thread; functions given here run on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import add
from typing import Any, Generic, TypeVar, overload

from streamsapp.dsl.arity import require_arity
from streamsapp.dsl.cogrouped import CogroupedKStream, cogrouped
from streamsapp.dsl.count_windowed import CountWindowedKStream
from streamsapp.dsl.grouping import Grouping
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.late import Late, require_late
from streamsapp.dsl.operators.aggregate import Aggregate, Count, Reduce
from streamsapp.dsl.operators.combine import Merge
from streamsapp.dsl.options import Grouped, Materialized, Named, table_options
from streamsapp.dsl.place import Place
from streamsapp.dsl.session_windowed import SessionWindowedKStream
from streamsapp.dsl.table_store import TableStore, table_store
from streamsapp.dsl.table_supplier import AggregatedTable, MakeStored
from streamsapp.dsl.time_windowed import TimeWindowedKStream
from streamsapp.dsl.windows import CountWindows, SessionWindows, SlidingWindows, Windows, require_windows
from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import JavaNames
from streamsapp.serdes.serdes import Serdes

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")

_AGGREGATE = "KSTREAM-AGGREGATE-"
_REDUCE = "KSTREAM-REDUCE-"


class KGroupedStream(JavaNames, Generic[K, V]):
    """A stream whose records are grouped by key. Records without key or value count in no group."""

    def __init__(self, place: Place, grouped: Grouped[K, V]) -> None:
        self.grouping = Grouping(place, grouped)
        self._names = place.graph.names

    def count(
        self,
        *options: Named | str | Materialized[K, int],
        named: Named | str | None = None,
        materialized: Materialized[K, int] | None = None,
    ) -> KTable[K, int]:
        """Counts the records of each key, and returns the table of counts.

        ``named`` names the node, ``materialized`` the store. Raises ``TopologyError`` for options that contradict each
        other.
        """
        name, materialized = table_options("count", options, named, materialized)
        if materialized is not None and materialized.store_name is None:
            self._names.store(_AGGREGATE)  # Kafka Streams uses up one number more here
        store = table_store(self._names, _AGGREGATE, materialized, self.grouping.key_serde, Serdes.long())
        name = self._names.named(name, _AGGREGATE)
        if self.grouping.combines:
            return self._aggregated(name, store, partial(Reduce, add), Merge(None))
        return self._aggregated(name, store, Count)

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        *options: Named | str | Materialized[K, V],
        named: Named | str | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> KTable[K, V]:
        """Combines the values of each key with ``reducer(aggregate, value)``, beginning with the first value.

        A reducer that returns ``None`` deletes the aggregate. Raises ``TopologyError`` for a function that cannot be
        called with two arguments.
        """
        require_arity("reduce", reducer, "aggregate", "value")
        name, materialized = table_options("reduce", options, named, materialized)
        store = table_store(self._names, _REDUCE, materialized, self.grouping.key_serde, self.grouping.value_serde)
        name = self._names.named(name, _REDUCE)
        merge = Merge(reducer) if self.grouping.combines else None
        return self._aggregated(name, store, partial(Reduce, reducer), merge)

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR | None],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]:
        """Folds the values of each key with ``aggregator(key, value, aggregate)``, beginning with ``initializer()``.

        An aggregator that returns ``None`` deletes the aggregate. Raises ``TopologyError`` for functions with other
        arguments.
        """
        require_arity("aggregate's initializer", initializer)
        require_arity("aggregate", aggregator, "key", "value", "aggregate")
        if self.grouping.combines:
            raise TopologyError("aggregate cannot combine before the repartition topic; use reduce, or combine=False")
        name, materialized = table_options("aggregate", options, named, materialized)
        store = table_store(self._names, _AGGREGATE, materialized, self.grouping.key_serde, None)
        name = self._names.named(name, _AGGREGATE)
        return self._aggregated(name, store, partial(Aggregate, initializer, aggregator))

    def cogroup(self, aggregator: Callable[[K, V, VR], VR | None]) -> CogroupedKStream[K, VR]:
        """Returns the same records, to be aggregated together with those of other grouped streams (KIP-150).
        ``aggregator(key, value, aggregate)`` folds the values of this stream."""
        return cogrouped(self.grouping, aggregator)

    @overload
    def windowed_by(self, windows: CountWindows) -> CountWindowedKStream[K, V]: ...

    @overload
    def windowed_by(
        self, windows: SessionWindows, *, late: Late[K, V] | None = None
    ) -> SessionWindowedKStream[K, V]: ...

    @overload
    def windowed_by(
        self, windows: Windows | SlidingWindows, *, late: Late[K, V] | None = None
    ) -> TimeWindowedKStream[K, V]: ...

    def windowed_by(
        self, windows: Windows | SlidingWindows | SessionWindows | CountWindows, *, late: Late[K, V] | None = None
    ) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V] | CountWindowedKStream[K, V]:
        """Returns the same records, to be aggregated per key and window. ``late`` says where records go whose windows
        have closed. Raises ``TopologyError`` for anything else than a definition of windows."""
        require_late("windowed_by", late)
        if isinstance(windows, CountWindows):
            if late is not None:
                raise TopologyError("windowed_by: no record comes too late for CountWindows; leave late out")
            return CountWindowedKStream(self.grouping, windows)
        require_windows(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self.grouping, windows, late=late)
        return TimeWindowedKStream(self.grouping, windows, late=late)

    def _aggregated(self, name: str, store: TableStore, make: MakeStored, merge: Merge | None = None) -> KTable[K, Any]:
        return self.grouping.table(name, store, AggregatedTable(store, make), store.key_serde, merge)

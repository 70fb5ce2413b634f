"""``CogroupedKStream``: several grouped streams that are aggregated into one table (KIP-150).

User code calls this while it builds a program, on its own thread; functions given here run on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar, overload

from streamsapp.dsl.arity import require_arity
from streamsapp.dsl.fitting import same_keys
from streamsapp.dsl.grouping import Grouping
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.late import Late, require_late
from streamsapp.dsl.nodes import ProcessorGraphNode
from streamsapp.dsl.operators.aggregate import Aggregate
from streamsapp.dsl.operators.session_aggregate import SessionAggregate
from streamsapp.dsl.operators.table_views import SessionView, StoredView, WindowedView
from streamsapp.dsl.operators.windowed import Aggregation
from streamsapp.dsl.options import Materialized, Named, table_options
from streamsapp.dsl.place import Place
from streamsapp.dsl.session_windowed import session_key_serde
from streamsapp.dsl.table_store import TableStore, session_store, table_store, window_store
from streamsapp.dsl.table_supplier import AggregatedTable, MakeStored, MakeStoredView, MergedTable
from streamsapp.dsl.time_windowed import time_aggregate, time_key_serde, waits_for_late
from streamsapp.dsl.windows import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    Windows,
    require_windows,
)
from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import JavaNames
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.windowed import Windowed

K = TypeVar("K")
VR = TypeVar("VR")

#: ``(key, value, aggregate) -> aggregate``
_Aggregator = Callable[[Any, Any, Any], Any]

_AGGREGATE = "COGROUPKSTREAM-AGGREGATE-"
_MERGE = "COGROUPKSTREAM-MERGE-"


class Cogroup:
    """Holds grouped streams, each with its aggregator. A stream that is given twice has the aggregator that was given
    last. Raises ``TopologyError`` for a stream whose records are combined."""

    def __init__(self, aggregators: dict[Grouping, _Aggregator]) -> None:
        if any(grouping.combines for grouping in aggregators):
            raise TopologyError("cogroup cannot combine before the repartition topic; use combine=False")
        self.aggregators = aggregators
        first = next(iter(aggregators))
        self.names = first.names
        #: Serves where the table's options have none.
        self.key_serde: AnySerde | None = first.key_serde

    def with_group(self, grouping: Grouping, aggregator: _Aggregator) -> Cogroup:
        """Returns the same cogroup with one stream more; raises ``TopologyError`` for a stream of another builder."""
        if grouping.place.graph is not next(iter(self.aggregators)).place.graph:
            raise TopologyError("cogroup: the other stream comes from another StreamsBuilder; build both with one")
        same_keys("cogroup", self.key_serde, grouping.key_serde)
        return Cogroup({**self.aggregators, grouping: aggregator})

    def table(
        self,
        name: str | None,
        store: TableStore,
        make: Callable[[_Aggregator], MakeStored],
        view: MakeStoredView,
        key_serde: AnySerde | None,
        closes_after_ms: int | None = None,
        waits_for_late_ms: int | None = None,
        late: Late[Any, Any] | None = None,
    ) -> KTable[Any, Any]:
        """Returns the table that all streams update, each through an operator of its own."""
        if store.emit_at_commit:
            raise TopologyError(
                "cogroup: Materialized(emit='commit') is for tables with one operator; leave it out, or merge the "
                "streams and aggregate what comes of it"
            )
        if (unnamed := sum(grouping.takes_default_name for grouping in self.aggregators)) > 1:
            raise TopologyError(
                f"cogroup: the key was changed in {unnamed} of the streams, and each needs a repartition topic of its "
                f"own; both would be {store.name}-repartition: name them, with Grouped(..., name=...)"
            )
        places = [grouping.repartitioned(store) for grouping in self.aggregators]
        graph = places[0].graph
        tables, nodes = [], []
        for number, (place, (grouping, aggregator)) in enumerate(zip(places, self.aggregators.items(), strict=True)):
            table = AggregatedTable(store, make(aggregator), view)
            table.waits_for_late_ms = waits_for_late_ms
            table.sends_late = late is not None
            node = ProcessorGraphNode(self.names.named(name, _AGGREGATE, f"-cogroup-agg-{number}"), table)
            node.closes_after_ms = closes_after_ms
            graph.add(node, place.node)
            tables.append(table)
            nodes.append(node)
            if late is not None:
                late.add_below(grouping.records_of(Place(graph, node, node.name)))
        merged = MergedTable(tables)
        merge = ProcessorGraphNode(self.names.named(name, _MERGE, "-cogroup-merge"), merged)
        graph.add(merge, *nodes)
        if len(places) > 1:
            graph.copartition(merge)
        return KTable(Place(graph, merge, merge.name, key_serde, store.value_serde), merged)


class CogroupedKStream(JavaNames, Generic[K, VR]):
    """Grouped streams that are aggregated into one table (KIP-150). Records without key or value count in no group."""

    def __init__(self, cogroup: Cogroup) -> None:
        self._cogroup = cogroup

    def cogroup(self, grouped: Any, aggregator: Callable[[K, Any, VR], VR | None]) -> CogroupedKStream[K, VR]:
        """Returns the same cogroup with another ``KGroupedStream``, whose values ``aggregator(key, value, aggregate)``
        folds. Raises ``TopologyError`` for anything else than a grouped stream of the same builder."""
        require_arity("cogroup", aggregator, "key", "value", "aggregate")
        grouping = getattr(grouped, "grouping", None)
        if not isinstance(grouping, Grouping):
            raise TopologyError(
                f"cogroup: {grouped!r} is not a KGroupedStream; use cogroup(stream.group_by_key(), ...)"
            )
        return CogroupedKStream(self._cogroup.with_group(grouping, aggregator))

    @overload
    def windowed_by(
        self, windows: SessionWindows, *, late: Late[Any, Any] | None = None
    ) -> SessionWindowedCogroupedKStream[K, VR]: ...

    @overload
    def windowed_by(
        self, windows: Windows | SlidingWindows, *, late: Late[Any, Any] | None = None
    ) -> TimeWindowedCogroupedKStream[K, VR]: ...

    def windowed_by(
        self, windows: Windows | SlidingWindows | SessionWindows, *, late: Late[Any, Any] | None = None
    ) -> TimeWindowedCogroupedKStream[K, VR] | SessionWindowedCogroupedKStream[K, VR]:
        """Returns the same streams, to be aggregated per key and window. ``late`` says where records go whose windows
        have closed: those of each stream with its own serdes, and a function is called once for each stream. Raises
        ``TopologyError`` for anything else than a definition of windows."""
        require_windows(windows)
        require_late("windowed_by", late)
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self._cogroup, windows, late)
        return TimeWindowedCogroupedKStream(self._cogroup, windows, late)

    def aggregate(
        self,
        initializer: Callable[[], VR],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]:
        """Folds the values of each key, those of each stream with its own aggregator, beginning with ``initializer()``.
        An aggregator that returns ``None`` deletes the aggregate."""
        require_arity("aggregate's initializer", initializer)
        name, materialized = table_options("aggregate", options, named, materialized)
        cogroup = self._cogroup
        store = table_store(cogroup.names, _AGGREGATE, materialized, cogroup.key_serde, None)
        return cogroup.table(name, store, partial(partial, Aggregate, initializer), StoredView, store.key_serde)


class TimeWindowedCogroupedKStream(JavaNames, Generic[K, VR]):
    """Grouped streams that are aggregated into one table per key and time window."""

    def __init__(self, cogroup: Cogroup, windows: Windows | SlidingWindows, late: Late[Any, Any] | None = None) -> None:
        self._cogroup = cogroup
        self._windows = windows
        self._late = late

    def aggregate(
        self,
        initializer: Callable[[], VR],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[Windowed[K], VR]:
        """Folds the values of each key and window, those of each stream with its own aggregator, beginning with
        ``initializer()``. An aggregator that returns ``None`` deletes the aggregate."""
        require_arity("aggregate's initializer", initializer)
        name, materialized = table_options("aggregate", options, named, materialized)
        cogroup, windows, emit = self._cogroup, self._windows, EmitStrategy.WINDOW_UPDATE
        store = window_store(cogroup.names, _AGGREGATE, materialized, cogroup.key_serde, None, windows, emit)

        def make(aggregator: _Aggregator) -> MakeStored:
            return time_aggregate(windows, emit, Aggregation(initializer, aggregator))

        key_serde = time_key_serde(store, windows)
        return cogroup.table(
            name, store, make, WindowedView, key_serde, windows.grace_ms, waits_for_late(windows), self._late
        )


class SessionWindowedCogroupedKStream(JavaNames, Generic[K, VR]):
    """Grouped streams that are aggregated into one table per key and session."""

    def __init__(self, cogroup: Cogroup, windows: SessionWindows, late: Late[Any, Any] | None = None) -> None:
        self._cogroup = cogroup
        self._windows = windows
        self._late = late

    def aggregate(
        self,
        initializer: Callable[[], VR],
        merger: Callable[[K, VR, VR], VR],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[Windowed[K], VR]:
        """Folds the values of each key and session, those of each stream with its own aggregator. If a record brings
        sessions together, ``merger(key, aggregate, other)`` makes one aggregate of theirs. An aggregator that returns
        ``None`` deletes the aggregate."""
        require_arity("aggregate's initializer", initializer)
        require_arity("aggregate's merger", merger, "key", "aggregate", "other")
        name, materialized = table_options("aggregate", options, named, materialized)
        cogroup, windows, emit = self._cogroup, self._windows, EmitStrategy.WINDOW_UPDATE
        store = session_store(cogroup.names, _AGGREGATE, materialized, cogroup.key_serde, None, windows, emit)

        def make(aggregator: _Aggregator) -> MakeStored:
            return partial(SessionAggregate, windows, emit, Aggregation(initializer, aggregator, merger))

        open_ms = windows.gap_ms + windows.grace_ms
        return cogroup.table(name, store, make, SessionView, session_key_serde(store), open_ms, open_ms, self._late)


def cogrouped(grouping: Grouping, aggregator: _Aggregator) -> CogroupedKStream[Any, Any]:
    """Returns a cogroup that has one stream so far."""
    require_arity("cogroup", aggregator, "key", "value", "aggregate")
    return CogroupedKStream(Cogroup({grouping: aggregator}))

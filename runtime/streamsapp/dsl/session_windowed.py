"""``SessionWindowedKStream``: a grouped stream whose records are aggregated per key and session.

User code calls this while it builds a program, on its own thread; functions given here run on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from streamsapp.dsl.arity import require_arity
from streamsapp.dsl.grouping import Grouping
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.operators.session_aggregate import SessionAggregate
from streamsapp.dsl.operators.table_views import SessionView
from streamsapp.dsl.options import Materialized, Named, table_options
from streamsapp.dsl.stores import TableStore, session_store
from streamsapp.dsl.tables import AggregatedTable
from streamsapp.dsl.time_windowed import add_one, reducing
from streamsapp.dsl.windows import EmitStrategy, SessionWindows
from streamsapp.errors import TopologyError
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.serdes import Serdes
from streamsapp.serdes.windowed import Windowed, session_windowed
from streamsapp.topology.java_names import JavaNames

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")

_AGGREGATE = "KSTREAM-AGGREGATE-"
_REDUCE = "KSTREAM-REDUCE-"


class SessionWindowedKStream(JavaNames, Generic[K, V]):
    """Records grouped by key and session (KIP-94). Results have :class:`~streamsapp.serdes.windowed.Windowed` keys,
    whose end is the time of the session's last record.

    A record that brings sessions together deletes their results and sends that of the one session that comes of them. A
    record whose session has closed (stream time has passed its end, the gap and the grace) is dropped and
    counted in ``dropped-records``.
    """

    def __init__(
        self, grouping: Grouping, windows: SessionWindows, emit: EmitStrategy = EmitStrategy.WINDOW_UPDATE
    ) -> None:
        self._grouping = grouping
        self._names = grouping.names
        self._windows = windows
        self._emit = emit

    def emit_strategy(self, emit: EmitStrategy) -> SessionWindowedKStream[K, V]:
        """The same, sending results when ``emit`` says (KIP-825)."""
        return SessionWindowedKStream(self._grouping, self._windows, emit)

    def count(
        self,
        *options: Named | str | Materialized[K, int],
        named: Named | str | None = None,
        materialized: Materialized[K, int] | None = None,
    ) -> KTable[Windowed[K], int]:
        """Counts the records of each key and session."""
        name, materialized = table_options("count", options, named, materialized)
        if materialized is not None and materialized.store_name is None:
            self._names.store(_AGGREGATE)  # Kafka Streams uses up one number more here
        return self._table(_AGGREGATE, name, materialized, lambda: 0, add_one, _total, Serdes.long())

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        *options: Named | str | Materialized[K, V],
        named: Named | str | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> KTable[Windowed[K], V]:
        """Combines the values of each key and session with ``reducer(aggregate, value)``, beginning with the first.

        ``None`` deletes the aggregate.
        """
        require_arity("reduce", reducer, "aggregate", "value")
        name, materialized = table_options("reduce", options, named, materialized)
        fold = partial(reducing, reducer)

        def merge(key: Any, one: Any, other: Any) -> Any:
            return fold(key, other, one)

        return self._table(_REDUCE, name, materialized, lambda: None, fold, merge, self._grouping.value_serde)

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR | None],
        merger: Callable[[K, VR, VR], VR],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[Windowed[K], VR]:
        """Folds the values of each key and session with ``aggregator(key, value, aggregate)``.

        Where a record brings sessions together, ``merger(key, aggregate, other)`` makes one aggregate of theirs,
        beginning with the initializer's. ``None`` deletes the aggregate.
        """
        require_arity("aggregate's initializer", initializer)
        require_arity("aggregate", aggregator, "key", "value", "aggregate")
        require_arity("aggregate's merger", merger, "key", "aggregate", "other")
        name, materialized = table_options("aggregate", options, named, materialized)
        return self._table(_AGGREGATE, name, materialized, initializer, aggregator, merger, None)

    def _table(
        self,
        prefix: str,
        name: str | None,
        materialized: Materialized[Any, Any] | None,
        initializer: Callable[[], Any],
        fold: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any],
        value_serde: AnySerde | None,
    ) -> KTable[Windowed[K], Any]:
        grouping, windows, emit = self._grouping, self._windows, self._emit
        if grouping.combines:
            raise TopologyError("windowed aggregations cannot combine before the repartition topic; use combine=False")
        store = session_store(self._names, prefix, materialized, grouping.key_serde, value_serde, windows, emit)
        make = partial(SessionAggregate, windows, emit, initializer, fold, merger)
        node = self._names.named(name, prefix)
        table = AggregatedTable(store, make, SessionView)
        open_ms = windows.gap_ms + windows.grace_ms
        return grouping.table(node, store, table, session_key_serde(store), closes_after_ms=open_ms)


def session_key_serde(store: TableStore) -> AnySerde | None:
    """The serde of the result's keys, as far as that of the store's keys is known."""
    return None if store.key_serde is None else session_windowed(store.key_serde)


def _total(key: Any, one: int, other: int) -> int:
    return one + other

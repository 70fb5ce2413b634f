"""``TimeWindowedKStream``: a grouped stream whose records are aggregated per key and time window.

User code calls this while it builds a program, on its own thread; functions given here run on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from streamsapp.dsl.arity import require_arity
from streamsapp.dsl.grouping import Grouping
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.operators.sliding_aggregate import SlidingAggregate
from streamsapp.dsl.operators.table_views import WindowedView
from streamsapp.dsl.operators.window_aggregate import WindowAggregate
from streamsapp.dsl.options import Materialized, Named, table_options
from streamsapp.dsl.stores import TableStore, window_store
from streamsapp.dsl.tables import AggregatedTable, MakeStored
from streamsapp.dsl.windows import EmitStrategy, SlidingWindows, TimeWindows, UnlimitedWindows
from streamsapp.errors import TopologyError
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.serdes import Serdes
from streamsapp.serdes.windowed import Windowed, time_windowed

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")

_AGGREGATE = "KSTREAM-AGGREGATE-"
_REDUCE = "KSTREAM-REDUCE-"


class TimeWindowedKStream(Generic[K, V]):
    """Records grouped by key and window. Results have :class:`~streamsapp.serdes.windowed.Windowed` keys.

    A record that comes after its window has closed (stream time has passed the window's end and grace) is dropped for
    that window and counted in ``dropped-records``.
    """

    def __init__(
        self,
        grouping: Grouping,
        windows: TimeWindows | SlidingWindows | UnlimitedWindows,
        emit: EmitStrategy = EmitStrategy.WINDOW_UPDATE,
    ) -> None:
        self._grouping = grouping
        self._names = grouping.names
        self._windows = windows
        self._emit = emit

    def emit_strategy(self, emit: EmitStrategy) -> TimeWindowedKStream[K, V]:
        """The same, sending results when ``emit`` says (KIP-825)."""
        if emit is EmitStrategy.WINDOW_CLOSE and isinstance(self._windows, UnlimitedWindows):
            raise TopologyError("emit_strategy: unlimited windows never close; use EmitStrategy.on_window_update()")
        return TimeWindowedKStream(self._grouping, self._windows, emit)

    def count(
        self,
        *options: Named | str | Materialized[K, int],
        named: Named | str | None = None,
        materialized: Materialized[K, int] | None = None,
    ) -> KTable[Windowed[K], int]:
        """Counts the records of each key and window."""
        name, materialized = table_options("count", options, named, materialized)
        sliding = isinstance(self._windows, SlidingWindows)
        if materialized is not None and materialized.store_name is None and not sliding:
            self._names.store(_AGGREGATE)  # Kafka Streams uses up one number more here
        return self._table(_AGGREGATE, name, materialized, lambda: 0, add_one, Serdes.long())

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        *options: Named | str | Materialized[K, V],
        named: Named | str | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> KTable[Windowed[K], V]:
        """Combines the values of each key and window with ``reducer(aggregate, value)``; the first is the first result.

        ``None`` deletes the aggregate.
        """
        require_arity("reduce", reducer, "aggregate", "value")
        name, materialized = table_options("reduce", options, named, materialized)
        fold = partial(reducing, reducer)
        return self._table(_REDUCE, name, materialized, lambda: None, fold, self._grouping.value_serde)

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR | None],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[Windowed[K], VR]:
        """Folds the values of each key and window with ``aggregator(key, value, aggregate)``.

        ``None`` deletes the aggregate.
        """
        require_arity("aggregate's initializer", initializer)
        require_arity("aggregate", aggregator, "key", "value", "aggregate")
        name, materialized = table_options("aggregate", options, named, materialized)
        return self._table(_AGGREGATE, name, materialized, initializer, aggregator, None)

    def _table(
        self,
        prefix: str,
        name: str | None,
        materialized: Materialized[Any, Any] | None,
        initializer: Callable[[], Any],
        fold: Callable[[Any, Any, Any], Any],
        value_serde: AnySerde | None,
    ) -> KTable[Windowed[K], Any]:
        grouping, windows, emit = self._grouping, self._windows, self._emit
        if grouping.combines:
            raise TopologyError("windowed aggregations cannot combine before the repartition topic; use combine=False")
        store = window_store(self._names, prefix, materialized, grouping.key_serde, value_serde, windows, emit)
        make = time_aggregate(windows, emit, initializer, fold)
        node = self._names.named(name, prefix)
        table = AggregatedTable(store, make, WindowedView)
        return grouping.table(node, store, table, time_key_serde(store, windows), closes_after_ms=windows.grace_ms)


def time_aggregate(
    windows: TimeWindows | SlidingWindows | UnlimitedWindows,
    emit: EmitStrategy,
    initializer: Callable[[], Any],
    fold: Callable[[Any, Any, Any], Any],
) -> MakeStored:
    """What makes the operator of an aggregation."""
    if isinstance(windows, SlidingWindows):
        return partial(SlidingAggregate, windows, emit, initializer, fold)
    return partial(WindowAggregate, windows, emit, initializer, fold)


def time_key_serde(store: TableStore, windows: TimeWindows | SlidingWindows | UnlimitedWindows) -> AnySerde | None:
    """The serde of the result's keys, as far as that of the store's keys is known."""
    size_ms = windows.difference_ms if isinstance(windows, SlidingWindows) else windows.size_ms
    return None if store.key_serde is None else time_windowed(store.key_serde, max(1, size_ms))


def add_one(key: Any, value: Any, count: int) -> int:
    """Counts."""
    return count + 1


def reducing(reducer: Callable[[Any, Any], Any], key: Any, value: Any, aggregate: Any) -> Any:
    """Combines, beginning with the first value."""
    return value if aggregate is None else reducer(aggregate, value)

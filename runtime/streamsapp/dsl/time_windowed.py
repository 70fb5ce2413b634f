"""``TimeWindowedKStream``: a grouped stream whose records are aggregated per key and time window.

User code calls this while it builds a program, on its own thread; functions given here run on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from streamsapp.dsl.arity import require_arity, takes_last
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.operators.sliding_aggregate import SlidingAggregate
from streamsapp.dsl.operators.table_views import WindowedView
from streamsapp.dsl.operators.window_aggregate import WindowAggregate
from streamsapp.dsl.operators.window_count import WindowCount
from streamsapp.dsl.operators.windowed import COUNTING, Aggregation
from streamsapp.dsl.options import Materialized, Named, table_options
from streamsapp.dsl.table_store import TableStore, window_store
from streamsapp.dsl.table_supplier import MakeStored
from streamsapp.dsl.windowed import AGGREGATE, WindowedKStream
from streamsapp.dsl.windows import EmitStrategy, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from streamsapp.errors import TopologyError
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.windowed import Windowed, time_windowed

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")


class TimeWindowedKStream(WindowedKStream[K, V, Windows | SlidingWindows]):
    """Records grouped by key and time window (KIP-182, KIP-450). Results have
    :class:`~streamsapp.serdes.windowed.Windowed` keys.

    A record that comes after its window has closed (stream time has passed the window's end and grace) is dropped for
    that window, counted in ``dropped-records``, and sent where :class:`~streamsapp.Late` says.
    """

    _view = WindowedView

    def emit_strategy(self, emit: EmitStrategy) -> TimeWindowedKStream[K, V]:
        """Returns the same grouped stream, which sends its results when ``emit`` says (KIP-825).

        Raises ``TopologyError`` for unlimited windows that are to be sent when they close, as they never do.
        """
        if emit is EmitStrategy.WINDOW_CLOSE and isinstance(self._windows, UnlimitedWindows):
            raise TopologyError("emit_strategy: unlimited windows never close; use EmitStrategy.on_window_update()")
        return TimeWindowedKStream(self._grouping, self._windows, emit, self._late)

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR | None] | Callable[[K, V, VR, Windowed[K]], VR | None],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[Windowed[K], VR]:
        """Folds the values of each key and window with ``aggregator(key, value, aggregate)``, or with
        ``aggregator(key, value, aggregate, window)`` if it must be given four arguments; ``window`` is the
        :class:`~streamsapp.serdes.windowed.Windowed` key of the result, with start and end.

        The first value of a window is folded into what ``initializer()`` returns. An aggregator that returns ``None``
        deletes the aggregate. Raises ``TopologyError`` for a function with other arguments.
        """
        require_arity("aggregate's initializer", initializer)
        name, materialized = table_options("aggregate", options, named, materialized)
        takes_window = takes_last("aggregate", aggregator, ("key", "value", "aggregate"), "window")
        aggregation = Aggregation(initializer, aggregator, takes_window=takes_window)
        return self._table(AGGREGATE, name, materialized, aggregation, None)

    @property
    def _numbers_unnamed_counts(self) -> bool:
        return not isinstance(self._windows, SlidingWindows)

    def _store(
        self, prefix: str, materialized: Materialized[Any, Any] | None, value_serde: AnySerde | None
    ) -> TableStore:
        key_serde = self._grouping.key_serde
        return window_store(self._names, prefix, materialized, key_serde, value_serde, self._windows, self._emit)

    def _operator(self, aggregation: Aggregation) -> MakeStored:
        return time_aggregate(self._windows, self._emit, aggregation)

    def _result_serde(self, store: TableStore) -> AnySerde | None:
        return time_key_serde(store, self._windows)

    def _closes_after(self) -> int:
        return self._windows.grace_ms

    def _waits_for_late(self) -> int | None:
        return waits_for_late(self._windows)


def time_aggregate(windows: Windows | SlidingWindows, emit: EmitStrategy, aggregation: Aggregation) -> MakeStored:
    """The function that makes the operator of an aggregation."""
    if isinstance(windows, SlidingWindows):
        return partial(SlidingAggregate, windows, emit, aggregation)
    if aggregation is COUNTING and isinstance(windows, TimeWindows | UnlimitedWindows):
        return partial(WindowCount, windows, emit, aggregation)
    return partial(WindowAggregate, windows, emit, aggregation)


def waits_for_late(windows: Windows | SlidingWindows) -> int | None:
    """Returns how late records may come, in milliseconds of stream time; ``None`` if the windows never close."""
    return None if isinstance(windows, UnlimitedWindows) else windows.grace_ms


def time_key_serde(store: TableStore, windows: Windows | SlidingWindows) -> AnySerde | None:
    """The serde of the result's keys, as far as that of the store's keys is known."""
    if store.key_serde is None:
        return None
    if isinstance(windows, SlidingWindows):
        return time_windowed(store.key_serde, max(1, windows.difference_ms))
    own_end = None if isinstance(windows, TimeWindows | UnlimitedWindows) else windows.end_of
    return time_windowed(store.key_serde, max(1, windows.size_ms), own_end)

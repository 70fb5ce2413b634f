"""``SessionWindowedKStream``: a grouped stream whose records are aggregated per key and session.

User code calls this while it builds a program, on its own thread; functions given here run on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from streamsapp.dsl.arity import require_arity
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.operators.session_aggregate import SessionAggregate
from streamsapp.dsl.operators.table_views import SessionView
from streamsapp.dsl.operators.windowed import Aggregation
from streamsapp.dsl.options import Materialized, Named, table_options
from streamsapp.dsl.table_store import TableStore, session_store
from streamsapp.dsl.table_supplier import MakeStored
from streamsapp.dsl.windowed import AGGREGATE, WindowedKStream
from streamsapp.dsl.windows import EmitStrategy, SessionWindows
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.windowed import Windowed, session_windowed

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")


class SessionWindowedKStream(WindowedKStream[K, V, SessionWindows]):
    """Records grouped by key and session (KIP-94). Results have :class:`~streamsapp.serdes.windowed.Windowed` keys,
    whose end is the time of the session's last record.

    A record that brings sessions together deletes their results and sends that of the one session that comes of them. A
    record whose session has closed (stream time has passed its end, the gap and the grace) is dropped, counted in
    ``dropped-records``, and sent where :class:`~streamsapp.Late` says.
    """

    _view = SessionView

    def emit_strategy(self, emit: EmitStrategy) -> SessionWindowedKStream[K, V]:
        """Returns the same grouped stream, which sends its results when ``emit`` says (KIP-825)."""
        return SessionWindowedKStream(self._grouping, self._windows, emit, self._late)

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

        If a record brings sessions together, ``merger(key, aggregate, other)`` makes one aggregate of theirs, beginning
        with the initializer's. An aggregator that returns ``None`` deletes the aggregate. Raises ``TopologyError`` for
        a function with other arguments.
        """
        require_arity("aggregate's initializer", initializer)
        require_arity("aggregate", aggregator, "key", "value", "aggregate")
        require_arity("aggregate's merger", merger, "key", "aggregate", "other")
        name, materialized = table_options("aggregate", options, named, materialized)
        return self._table(AGGREGATE, name, materialized, Aggregation(initializer, aggregator, merger), None)

    def _store(
        self, prefix: str, materialized: Materialized[Any, Any] | None, value_serde: AnySerde | None
    ) -> TableStore:
        key_serde = self._grouping.key_serde
        return session_store(self._names, prefix, materialized, key_serde, value_serde, self._windows, self._emit)

    def _operator(self, aggregation: Aggregation) -> MakeStored:
        return partial(SessionAggregate, self._windows, self._emit, aggregation)

    def _result_serde(self, store: TableStore) -> AnySerde | None:
        return session_key_serde(store)

    def _closes_after(self) -> int:
        return self._windows.gap_ms + self._windows.grace_ms


def session_key_serde(store: TableStore) -> AnySerde | None:
    """The serde of the result's keys, as far as that of the store's keys is known."""
    return None if store.key_serde is None else session_windowed(store.key_serde)

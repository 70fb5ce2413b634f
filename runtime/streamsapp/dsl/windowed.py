"""The part that ``TimeWindowedKStream`` and ``SessionWindowedKStream`` have in common: counts and reductions.

User code calls this while it builds a program, on its own thread; functions given here run on processing threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from streamsapp.dsl.arity import require_arity
from streamsapp.dsl.grouping import Grouping
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.late import Late
from streamsapp.dsl.operators.table_views import SessionView, WindowedView
from streamsapp.dsl.operators.windowed import COUNTING, Aggregation
from streamsapp.dsl.options import Materialized, Named, table_options
from streamsapp.dsl.table_store import TableStore
from streamsapp.dsl.table_supplier import AggregatedTable, MakeStored
from streamsapp.dsl.windows import EmitStrategy
from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import JavaNames
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.serdes import Serdes
from streamsapp.serdes.windowed import Windowed

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")

AGGREGATE = "KSTREAM-AGGREGATE-"
REDUCE = "KSTREAM-REDUCE-"


class WindowedKStream(JavaNames, ABC, Generic[K, V, W]):
    """Records grouped by key and window, to be aggregated into a table with windowed keys."""

    _view: ClassVar[type[WindowedView | SessionView]]

    def __init__(
        self,
        grouping: Grouping,
        windows: W,
        emit: EmitStrategy = EmitStrategy.WINDOW_UPDATE,
        late: Late[K, V] | None = None,
    ) -> None:
        self._grouping = grouping
        self._names = grouping.names
        self._windows = windows
        self._emit = emit
        self._late = late

    def count(
        self,
        *options: Named | str | Materialized[K, int],
        named: Named | str | None = None,
        materialized: Materialized[K, int] | None = None,
    ) -> KTable[Windowed[K], int]:
        """Counts the records of each key and window.

        Returns a table whose values are counts. Raises ``TopologyError`` for options that contradict each other.
        """
        name, materialized = table_options("count", options, named, materialized)
        if materialized is not None and materialized.store_name is None and self._numbers_unnamed_counts:
            self._names.store(AGGREGATE)  # Kafka Streams uses up one number more here
        return self._table(AGGREGATE, name, materialized, COUNTING, Serdes.long())

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        *options: Named | str | Materialized[K, V],
        named: Named | str | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> KTable[Windowed[K], V]:
        """Combines the values of each key and window with ``reducer(aggregate, value)``; the first is the first result.

        A reducer that returns ``None`` deletes the aggregate. Raises ``TopologyError`` for a function that cannot be
        called with two arguments.
        """
        require_arity("reduce", reducer, "aggregate", "value")
        name, materialized = table_options("reduce", options, named, materialized)
        return self._table(REDUCE, name, materialized, reducing(reducer), self._grouping.value_serde)

    def _table(
        self,
        prefix: str,
        name: str | None,
        materialized: Materialized[Any, Any] | None,
        aggregation: Aggregation,
        value_serde: AnySerde | None,
    ) -> KTable[Windowed[K], Any]:
        if self._grouping.combines:
            # Another task's records would move stream time meanwhile, and close the windows of held records.
            raise TopologyError(
                "windowed aggregations cannot combine before the repartition topic: records that wait there for the "
                "commit could come after their window has closed; use combine=False"
            )
        store = self._store(prefix, materialized, value_serde)
        node = self._names.named(name, prefix)
        table = AggregatedTable(store, self._operator(aggregation), self._view)
        table.waits_for_late_ms = self._waits_for_late()
        table.sends_late = self._late is not None
        made = self._grouping.table(node, store, table, self._result_serde(store), closes_after_ms=self._closes_after())
        if self._late is not None:
            self._late.add_below(self._grouping.records_of(made._place))
        return made

    @property
    def _numbers_unnamed_counts(self) -> bool:
        """Says whether a count with an unnamed store uses up one number more, as it does in Kafka Streams."""
        return True

    @abstractmethod
    def _store(
        self, prefix: str, materialized: Materialized[Any, Any] | None, value_serde: AnySerde | None
    ) -> TableStore:
        """The store of the aggregates."""

    @abstractmethod
    def _operator(self, aggregation: Aggregation) -> MakeStored:
        """The function that makes the operator."""

    @abstractmethod
    def _result_serde(self, store: TableStore) -> AnySerde | None:
        """The serde of the result's keys, as far as that of the store's keys is known."""

    def _waits_for_late(self) -> int | None:
        """Returns how late records may come, in milliseconds of stream time; ``None``: none comes too late."""
        return self._closes_after()

    @abstractmethod
    def _closes_after(self) -> int:
        """The time in milliseconds that a result waits for after its window ended."""


def reducing(reducer: Callable[[Any, Any], Any]) -> Aggregation:
    """Returns the aggregation that a reducer stands for."""
    fold = partial(_reduced, reducer)
    return Aggregation(lambda: None, fold, partial(_merged, fold))


def _reduced(reducer: Callable[[Any, Any], Any], key: Any, value: Any, aggregate: Any) -> Any:
    """Combines, beginning with the first value."""
    return value if aggregate is None else reducer(aggregate, value)


def _merged(fold: Callable[[Any, Any, Any], Any], key: Any, one: Any, other: Any) -> Any:
    return fold(key, other, one)

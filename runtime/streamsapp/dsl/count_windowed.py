"""``CountWindowedKStream``: a grouped stream whose records are aggregated by key and number.

User code calls this while it builds a program, on its own thread; functions given here run on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streamsapp.dsl.arity import require_arity
from streamsapp.dsl.grouping import Grouping
from streamsapp.dsl.nodes import ValueChangingNode
from streamsapp.dsl.operators.count_windows import CountWindowAggregate
from streamsapp.dsl.operators.windowed import COUNTING, Aggregation
from streamsapp.dsl.options import Materialized, Named, table_options
from streamsapp.dsl.place import Place
from streamsapp.dsl.table_store import TableStore
from streamsapp.dsl.windowed import AGGREGATE, REDUCE, reducing
from streamsapp.dsl.windows import CountWindows, EmitStrategy
from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import JavaNames
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.open_windows import open_windows
from streamsapp.serdes.serdes import Serdes
from streamsapp.serdes.windowed import Windowed, session_windowed
from streamsapp.serdes.wrapping import CONFIGURED
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.kinds.key_value import KEY_VALUE

if TYPE_CHECKING:
    from streamsapp.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")


class CountWindowedKStream(JavaNames, Generic[K, V]):
    """Records grouped by key, in windows of a number of records. Kafka Streams does not have these.

    A window is sent when it is full, as a record with a :class:`~streamsapp.serdes.windowed.Windowed` key from the
    lowest timestamp of its records to the highest, which is also the result's timestamp. Windows are no rows of a
    table: of a key only those are kept that are not full. Records count in the order in which they come, so none is
    late; those without key or value count in no window.
    """

    def __init__(
        self, grouping: Grouping, windows: CountWindows, emit: EmitStrategy = EmitStrategy.WINDOW_CLOSE
    ) -> None:
        self._grouping = grouping
        self._windows = windows
        self._emit = emit

    def emit_strategy(self, emit: EmitStrategy) -> CountWindowedKStream[K, V]:
        """Returns the same grouped stream. With ``EmitStrategy.on_window_update()`` it sends each window with each of
        its records."""
        return CountWindowedKStream(self._grouping, self._windows, emit)

    def count(
        self,
        *options: Named | str | Materialized[K, int],
        named: Named | str | None = None,
        materialized: Materialized[K, int] | None = None,
    ) -> KStream[Windowed[K], int]:
        """Counts the records of each window: of a full one as many as it holds. Raises ``TopologyError`` for options
        that contradict each other."""
        name, materialized = table_options("count", options, named, materialized)
        return self._stream(AGGREGATE, name, materialized, COUNTING, Serdes.long())

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        *options: Named | str | Materialized[K, V],
        named: Named | str | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> KStream[Windowed[K], V]:
        """Combines the values of each window with ``reducer(aggregate, value)``; the first is the first result. Raises
        ``TopologyError`` for a function that cannot be called with two arguments."""
        require_arity("reduce", reducer, "aggregate", "value")
        name, materialized = table_options("reduce", options, named, materialized)
        return self._stream(REDUCE, name, materialized, reducing(reducer), self._grouping.value_serde)

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR | None],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KStream[Windowed[K], VR]:
        """Folds the values of each window with ``aggregator(key, value, aggregate)``, beginning with ``initializer()``.
        An aggregator that returns ``None`` deletes the aggregate; a window without one is not sent. Raises
        ``TopologyError`` for functions with other arguments."""
        require_arity("aggregate's initializer", initializer)
        require_arity("aggregate", aggregator, "key", "value", "aggregate")
        name, materialized = table_options("aggregate", options, named, materialized)
        return self._stream(AGGREGATE, name, materialized, Aggregation(initializer, aggregator), None)

    def _stream(
        self,
        prefix: str,
        name: str | None,
        materialized: Materialized[Any, Any] | None,
        aggregation: Aggregation,
        value_serde: AnySerde | None,
    ) -> KStream[Windowed[K], Any]:
        if self._grouping.combines:
            raise TopologyError("count windows cannot combine before the repartition topic; use combine=False")
        options = materialized or Materialized[Any, Any]()
        store = self._store(prefix, options, value_serde)
        place = self._grouping.repartitioned(store)
        aggregating = _Aggregating(self._windows, self._emit, aggregation, store.builder)
        node = ValueChangingNode(self._grouping.names.named(name, prefix), aggregating)
        key_serde = None if store.key_serde is None else session_windowed(store.key_serde)
        made: Place = place.then(node, key_serde, options.value_serde or value_serde, key_changed=False)
        from streamsapp.dsl.kstream import KStream  # late: it groups streams

        return KStream(made)

    def _store(self, prefix: str, options: Materialized[Any, Any], value_serde: AnySerde | None) -> TableStore:
        for field in ("retention", "versioned", "emit"):
            if getattr(options, field) is not None:
                raise TopologyError(
                    f"Materialized({field}=...): count windows are kept until they are full, and sent then; leave "
                    f"{field} out"
                )
        builder = StoreBuilder(
            name=options.store_name or self._grouping.names.store(prefix),
            type=KEY_VALUE,
            engine=Engine(options.store),
            key_serde=options.key_serde or self._grouping.key_serde,
            value_serde=open_windows(options.value_serde or value_serde or CONFIGURED),
            logging=options.logging,
            log_config=options.log_config,
        )
        return TableStore(builder, options.store_name is not None)


@dataclass(frozen=True)
class _Aggregating:
    """Makes the operators of one node, and brings their store."""

    windows: CountWindows
    emit: EmitStrategy
    aggregation: Aggregation
    builder: StoreBuilder

    def __call__(self) -> CountWindowAggregate:
        return CountWindowAggregate(self.windows, self.emit, self.aggregation, self.builder.name)

    def stores(self) -> tuple[StoreBuilder, ...]:
        return (self.builder,)

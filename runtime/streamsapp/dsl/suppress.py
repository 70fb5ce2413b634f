"""``KTable.suppress``: the node, its buffer, and the grace that it takes from the windows above it.

Called by ``KTable`` while a program is built, on the user's thread.
"""

from __future__ import annotations

from streamsapp.dsl.graph import GraphNode
from streamsapp.dsl.nodes import ProcessorGraphNode
from streamsapp.dsl.operators.suppress import Suppress, SuppressedView
from streamsapp.dsl.operators.table_views import TableView
from streamsapp.dsl.options import Emit
from streamsapp.dsl.place import Place
from streamsapp.dsl.suppressed import Suppressed
from streamsapp.dsl.table_supplier import TableSupplier
from streamsapp.errors import TopologyError
from streamsapp.processor.operator import Operator
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.kinds.suppress_buffer import SUPPRESSION

_PREFIX = "KTABLE-SUPPRESS-"


class SuppressedTable(TableSupplier):
    """A table whose updates go on later. Its changes always carry old values, for the buffer needs the value before."""

    def __init__(self, place: Place, parent: TableSupplier, suppressed: Suppressed) -> None:
        """Uses up the names that Kafka Streams uses up here."""
        if not isinstance(suppressed, Suppressed):
            raise TopologyError(
                f"suppress: {suppressed!r} is not a Suppressed; write Suppressed.until_window_closes(...)"
            )
        if parent.versioned:
            raise TopologyError(
                "suppress() is only supported for non-versioned KTables (note that version semantics might be "
                "inherited from upstream); leave versioned out of the Materialized above, or give this table a "
                "Materialized of its own"
            )
        limit, names, config = suppressed.time_limit_ms, place.graph.names, suppressed.buffer
        self._wait = closes_after(place.node) if limit is None else limit
        parent.enable_sending_old_values(force=True)
        self.waits_for_late_ms = self._wait if limit is None else None
        self._suppressed = suppressed
        self._parent = parent
        name = suppressed.name or names.processor(_PREFIX)
        self._buffer = StoreBuilder(
            name=f"{name}-store" if suppressed.name else names.store(_PREFIX),
            type=SUPPRESSION,
            engine=Engine.MEMORY,
            key_serde=place.key_serde,
            value_serde=place.value_serde,
            logging=config.logging,
            log_config=config.log_config,
        )
        self.node = ProcessorGraphNode(name, self)

    def __call__(self) -> Operator:
        final = self._suppressed.time_limit_ms is None
        return Suppress(self._buffer.name, self._wait, self._suppressed.buffer, final=final)

    def stores(self) -> tuple[StoreBuilder, ...]:
        return (self._buffer,)

    def enable_sending_old_values(self, force: bool) -> bool:
        return True

    def send_true_old_values(self) -> None:
        self._parent.send_true_old_values()

    @property
    def holds_updates(self) -> bool:
        return self._parent.holds_updates

    @property
    def emit(self) -> Emit | None:
        return self._parent.emit

    def view(self) -> TableView:
        return SuppressedView(self._buffer.name, self._parent.view())


def closes_after(node: GraphNode, below: str = "") -> int:
    """Returns the longest time after their end at which the windows above close, in milliseconds. Raises
    ``TopologyError`` unless every way up leads to windows."""
    if node.closes_after_ms is not None:
        return node.closes_after_ms
    chain = f"{node.name} -> {below}" if below else node.name
    if not node.parents:
        raise TopologyError(
            f"suppress: nothing above it has windows that close, in {chain}; put it below windowed_by(...) and an "
            "aggregation, or use Suppressed.until_time_limit(...)"
        )
    above = [each for parent in node.parents for each in parent.parents] if node.aside else node.parents
    return max(closes_after(parent, chain) for parent in above)

"""``Late``: where the records go that come too late for an operator.

Made by user code while a program is built, on its own thread, and read there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streamsapp.dsl.arity import require, require_arity
from streamsapp.dsl.fitting import fit_place
from streamsapp.dsl.nodes import SideOutputNode, SinkGraphNode
from streamsapp.dsl.operators.late import late_node
from streamsapp.dsl.options import Produced
from streamsapp.dsl.place import Place
from streamsapp.dsl.table_supplier import TableSource
from streamsapp.errors import TopologyError
from streamsapp.topology.name_rules import topic_name

if TYPE_CHECKING:
    from streamsapp.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Late(Generic[K, V]):
    """Says where records go that come too late: ``Late("late-orders")`` writes them to a topic, with key, value,
    timestamp and headers as they came. ``Late(function)`` calls ``function(stream)`` once, while the program is built,
    with the :class:`~streamsapp.KStream` of these records: ``Late(lambda late: late.foreach(print))``.

    A record goes there once for each operator that is given a ``Late``, also if it misses only some of its windows. It
    is counted in ``dropped-records`` as without. ``produced`` has the serdes of the topic, by default those of the
    stream. Raises ``TopologyError`` for a topic that Kafka refuses, and a function that does not take one argument.
    """

    to: str | Callable[[KStream[K, V]], object]
    produced: Produced[K, V] | None = None

    def __post_init__(self) -> None:
        require("Late", self.produced, Produced, "Late(topic, Produced(key_serde, value_serde))")
        if not callable(self.to):
            object.__setattr__(self, "to", topic_name("Late", self.to))
            return
        require_arity("Late", self.to, "stream")
        if self.produced is not None:
            raise TopologyError("Late(function) writes no topic itself; leave produced out, or give it to to()")

    def add_below(self, place: Place) -> None:
        """Adds what takes the late records of the node at a place. Its serdes are those of the records that come to the
        node. Names follow the node's, so that no other node is renamed."""
        name = late_node(place.name)
        below = place.then(SideOutputNode(name), place.key_serde, place.value_serde, key_changed=place.key_changed)
        if isinstance(self.to, str):
            self._write(below, self.to)
            return
        from streamsapp.dsl.kstream import KStream  # late: it offers what needs this

        self.to(KStream(below))

    def _write(self, place: Place, topic: str) -> None:
        produced = self.produced or Produced[Any, Any]()
        fit_place(f"Late({topic!r})", place, produced.key_serde, produced.value_serde, "Produced")
        filled: Produced[Any, Any] = Produced(
            produced.key_serde or place.key_serde, produced.value_serde or place.value_serde, produced.partitioner
        )
        place.end(SinkGraphNode(produced.name or f"{place.name}-sink", topic, filled))


def send_old_versions(operation: str, late: Late[Any, Any] | None, place: Place, table: TableSource) -> None:
    """Has a table that keeps versions send aside what is older than its history. Raises ``TopologyError`` for a table
    without, to which no record comes too late."""
    require_late(operation, late)
    if late is None:
        return
    if table.history_ms is None:
        raise TopologyError(
            f"{operation}: late=... is for a table that keeps versions: no record comes too late for others; give it "
            "Materialized(store_name, versioned=...), or leave late out"
        )
    table.sends_late = True
    late.add_below(place)


def require_late(operation: str, late: object) -> None:
    """Raises ``TopologyError`` for what is no ``Late``."""
    require(operation, late, Late, 'late=Late("topic")')

"""Builds joins of two streams as of a time.

Called by ``KStream`` on the thread that builds the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from streamsapp.dsl.arity import keys_taken, require
from streamsapp.dsl.fitting import fit_place, fitting, same_keys
from streamsapp.dsl.join_options import Joined
from streamsapp.dsl.join_side import JoinSide
from streamsapp.dsl.late import Late, require_late
from streamsapp.dsl.nodes import ProcessorGraphNode
from streamsapp.dsl.operators.as_of_join import AsOfView, JoinAsOfAfterGrace, KeepRight
from streamsapp.dsl.place import Place
from streamsapp.dsl.stream_table_join import Joining, TableJoinNode, grace_buffer
from streamsapp.errors import TopologyError
from streamsapp.processor.api import Duration, duration_ms
from streamsapp.state.api import StoreBuilder
from streamsapp.state.builders import Stores
from streamsapp.state.kinds.grace_buffer import GraceType


@dataclass(frozen=True)
class AsOfJoin:
    """The options of one join as of a time, as they were given. ``operation`` is the name of the method."""

    operation: str
    joiner: Callable[..., Any]
    within: Duration
    joined: Joined[Any, Any, Any] | None
    late: Late[Any, Any] | None

    def place(self, left: JoinSide, right: JoinSide) -> Place:
        """Adds the nodes, and returns the place behind the join. Raises ``TopologyError`` for what cannot be joined."""
        operation = self.operation
        require(operation, self.joined, Joined, "Joined(key_serde, value_serde, other_value_serde)")
        require_late(operation, self.late)
        if left.place.graph is not right.place.graph:
            raise TopologyError(f"{operation}: the other stream comes from another StreamsBuilder; build both with one")
        options = self.joined or Joined[Any, Any, Any]()
        fit_place(operation, left.place, options.key_serde, options.value_serde, "Joined")
        fitting(operation, right.place.key_serde, options.key_serde, "Joined", "key_serde")
        fitting(operation, right.place.value_serde, options.other_value_serde, "Joined", "other_value_serde")
        within_ms, grace_ms = self._times(options)
        base = options.name
        this = left.repartitioned(base and f"{base}-left", options.key_serde, options.value_serde)
        other = right.repartitioned(base and f"{base}-right", options.key_serde, options.other_value_serde)
        same_keys(operation, this.key_serde, other.key_serde)
        names = this.graph.names
        kept_name = names.named(base, "KSTREAM-ASOFOTHER-", "-right")
        name = names.named(base, "KSTREAM-ASOFJOIN-")
        store = self._store(other, options, names.resource(f"{kept_name}-store", given=base is not None))
        keep = _Keeping(store, grace_ms is not None, self.late is not None, within_ms + (grace_ms or 0))
        keeps = ProcessorGraphNode(kept_name, keep)
        this.graph.add(keeps, other.node)
        if self.late is not None:
            self.late.add_below(
                replace(other, node=keeps, name=kept_name, key_serde=store.key_serde, value_serde=store.value_serde)
            )
        return self._joined(this, keeps, name, options, (store.name, within_ms, grace_ms))

    def _joined(
        self,
        this: Place,
        keeps: ProcessorGraphNode,
        name: str,
        options: Joined[Any, Any, Any],
        kept: tuple[str, int, int | None],
    ) -> Place:
        store, within_ms, grace_ms = kept
        buffer = None if grace_ms is None else grace_buffer(this, name, options, GraceType(grace_ms))
        keys = keys_taken(self.operation, self.joiner, ("key",), "value", "other value")
        view = partial(AsOfView, store, within_ms)
        left = self.operation == "left_join_as_of"
        joining = Joining(view, self.joiner, keys, left, buffer=buffer, after_grace=JoinAsOfAfterGrace)
        node = TableJoinNode(name, joining, (store,))
        this.graph.copartition(node, keeps)
        place = this.then(node, options.key_serde or this.key_serde, None, key_changed=False)
        if grace_ms is not None:
            this.graph.add(node, keeps)
        return place

    def _times(self, options: Joined[Any, Any, Any]) -> tuple[int, int | None]:
        within_ms = duration_ms(self.within)
        grace_ms = None if options.grace is None else duration_ms(options.grace)
        if within_ms < 0:
            raise TopologyError(f"{self.operation}: within must be at least 0 ms, got {within_ms}")
        if grace_ms is not None and grace_ms < 0:
            raise TopologyError(f"{self.operation}: Joined(grace={grace_ms} ms): a grace is not negative")
        return within_ms, grace_ms

    def _store(self, other: Place, options: Joined[Any, Any, Any], name: str) -> StoreBuilder:
        """The store of the right side. A record may be as old as the bound for a left one that waits for the grace."""
        within_ms, grace_ms = self._times(options)
        kept_ms = within_ms + (grace_ms or 0) + 1
        supplier = Stores.persistent_window_store(name, kept_ms, within_ms)
        key_serde = options.key_serde or other.key_serde
        return Stores.window_store_builder(supplier, key_serde, options.other_value_serde or other.value_serde)


@dataclass(frozen=True)
class _Keeping:
    """Makes the operators of the right side, and brings their store."""

    store: StoreBuilder
    tells_time: bool
    sends_late: bool
    #: The time in milliseconds by which a record may be late.
    waits_for_late_ms: int

    def __call__(self) -> KeepRight:
        return KeepRight(self.store.name, self.tells_time, self.sends_late)

    def stores(self) -> tuple[StoreBuilder, ...]:
        return (self.store,)

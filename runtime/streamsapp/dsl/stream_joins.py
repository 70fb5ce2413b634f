"""Builds joins of two streams: names, stores and nodes as Kafka Streams has them.

Called by ``KStream.join`` and its siblings while a program is built, on the user's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from streamsapp.dsl.arity import require, takes_key
from streamsapp.dsl.fitting import fit_place, same_keys
from streamsapp.dsl.graph import GraphNode
from streamsapp.dsl.join_nodes import StreamJoinNode
from streamsapp.dsl.join_options import StreamJoined
from streamsapp.dsl.join_side import JoinSide
from streamsapp.dsl.late import Late, require_late
from streamsapp.dsl.nodes import ProcessorGraphNode, RepartitionNode
from streamsapp.dsl.operators.stream_join import (
    InnerJoinSide,
    Joiner,
    KeepForJoin,
    OuterJoinSide,
    PriorReach,
    Reach,
    SelfJoin,
)
from streamsapp.dsl.operators.unjoined import Outer
from streamsapp.dsl.place import Place
from streamsapp.dsl.windows import JoinWindows
from streamsapp.errors import TopologyError
from streamsapp.processor.operator import Operator, OperatorSupplier
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.left_or_right import left_or_right_serde
from streamsapp.serdes.lists import list_serde
from streamsapp.serdes.wrapping import CONFIGURED
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.builders import WindowStoreSupplier
from streamsapp.state.kinds.join_window import JoinWindowType
from streamsapp.state.kinds.outer_join import OUTER_JOIN
from streamsapp.state.kinds.store_type import StoreType


@dataclass(frozen=True)
class JoinKind:
    """A kind of join: the sides whose records are results without a partner, and the name under which it is asked
    for."""

    operation: str
    left: bool = False
    right: bool = False
    #: Only with partners that are older.
    prior: bool = False


#: By the method that asks for it.
JOIN_KINDS = {
    kind.operation: kind
    for kind in (
        JoinKind("join"),
        JoinKind("left_join", left=True),
        JoinKind("outer_join", left=True, right=True),
        JoinKind("join_prior", prior=True),
    )
}


@dataclass(frozen=True)
class _WithStores:
    """A supplier of an operator and of the stores it is connected to."""

    make: OperatorSupplier
    builders: tuple[StoreBuilder, ...]
    waits_for_late_ms: int | None = None

    def __call__(self) -> Operator:
        return self.make()

    def stores(self) -> tuple[StoreBuilder, ...]:
        return self.builders


def join_streams(
    kind: JoinKind,
    left: JoinSide,
    right: JoinSide,
    joiner: Callable[..., Any],
    windows: JoinWindows,
    stream_joined: StreamJoined[Any, Any, Any] | None = None,
    *,
    late: Late[Any, Any] | None = None,
) -> Place:
    """Returns the place behind a join of two streams."""
    operation = kind.operation
    require_late(operation, late)
    if not isinstance(windows, JoinWindows):
        raise TopologyError(f"{operation} of two streams needs JoinWindows, not {windows!r}; use JoinWindows.of(...)")
    require(operation, stream_joined, StreamJoined, "StreamJoined(key_serde, value_serde, other_value_serde)")
    if left.place.graph is not right.place.graph:
        raise TopologyError(f"{operation}: the other stream comes from another StreamsBuilder; build both with one")
    options: StreamJoined[Any, Any, Any] = stream_joined or StreamJoined()
    fit_place(operation, left.place, options.key_serde, options.value_serde, "StreamJoined")
    fit_place(operation, right.place, options.key_serde, options.other_value_serde, "StreamJoined")
    this = left.repartitioned(options.name and f"{options.name}-left", options.key_serde, options.value_serde)
    other = right.repartitioned(options.name and f"{options.name}-right", options.key_serde, options.other_value_serde)
    same_keys(operation, this.key_serde, other.key_serde)
    return _Build(kind, this, other, _keyed(operation, joiner), windows, options).place(late)


class _Build:
    """Builds one join."""

    def __init__(
        self,
        kind: JoinKind,
        left: Place,
        right: Place,
        joiner: Joiner,
        windows: JoinWindows,
        options: StreamJoined[Any, Any, Any],
    ) -> None:
        self._kind = kind
        self._left = left
        self._right = right
        self._joiner = joiner
        self._windows = windows
        self._options = options
        self._key_serde: AnySerde | None = options.key_serde or left.key_serde or right.key_serde
        self._left_serde: AnySerde | None = options.value_serde or left.value_serde
        self._right_serde: AnySerde | None = options.other_value_serde or right.value_serde

    def place(self, late: Late[Any, Any] | None) -> Place:
        """Adds the nodes, and returns the place behind them. Names are given out in Kafka Streams' order."""
        kind, name, names = self._kind, self._options.name, self._left.graph.names
        this_suffix = "-outer-this-join" if kind.right else "-this-join"
        other_suffix = "-outer-other-join" if kind.left else "-other-join"
        this_windowed = names.named(name, "KSTREAM-WINDOWED-", "-this-windowed")
        other_windowed = names.named(name, "KSTREAM-WINDOWED-", "-other-windowed")
        this_generated = names.processor("KSTREAM-OUTERTHIS-" if kind.right else "KSTREAM-JOINTHIS-")
        other_generated = names.processor("KSTREAM-OUTEROTHER-" if kind.left else "KSTREAM-JOINOTHER-")
        merge = names.named(name, "KSTREAM-MERGE-", "-merge")

        suppliers = self._options.this_store_supplier, self._options.other_store_supplier
        this_store = self._window_store(this_generated, this_suffix, self._left_serde, suppliers[0])
        other_store = self._window_store(other_generated, other_suffix, self._right_serde, suppliers[1])
        outer_store = self._outer_store(this_generated) if kind.left else None

        windowed = (
            self._keep(self._left, this_windowed, this_store, late),
            self._keep(self._right, other_windowed, other_store, late),
        )
        sides = (
            (name + this_suffix if name else this_generated, self._side(True, other_store, outer_store)),
            (name + other_suffix if name else other_generated, self._side(False, this_store, outer_store)),
        )
        itself = partial(SelfJoin, self._joiner, self._windows, this_store.name, (kind.left, kind.right))
        node = StreamJoinNode(
            merge, windowed, sides, _WithStores(itself, (this_store,), self._waits_for_late), takes_null_keys=kind.left
        )
        self._left.graph.add(node, self._left.node, self._right.node)
        self._left.graph.copartition(node)
        return Place(self._left.graph, node, merge, self._key_serde)

    def _keep(self, place: Place, name: str, store: StoreBuilder, late: Late[Any, Any] | None) -> ProcessorGraphNode:
        def keep() -> KeepForJoin:
            return KeepForJoin(store.name, _topic_serde(node, store), late is not None)

        node = ProcessorGraphNode(name, _WithStores(keep, (store,)))
        place.graph.add(node, place.node)
        if late is not None:
            late.add_below(
                replace(place, node=node, name=name, key_serde=self._key_serde, value_serde=store.value_serde)
            )
        return node

    def _side(self, is_left: bool, other: StoreBuilder, outer: StoreBuilder | None) -> _WithStores:
        windows, joiner = self._windows, self._joiner
        reach = Reach(windows.before_ms, windows.after_ms) if is_left else Reach(windows.after_ms, windows.before_ms)
        if self._kind.prior:
            reach = PriorReach(reach.before_ms)
        side_joiner = joiner if is_left else _reversed(joiner)
        if outer is None:
            return _WithStores(partial(InnerJoinSide, side_joiner, reach, other.name), (other,), self._waits_for_late)
        unjoined = Outer(outer.name, windows, self._kind.left, self._kind.right)
        make = partial(OuterJoinSide, side_joiner, reach, other.name, unjoined, is_left)
        return _WithStores(make, (other, outer), self._waits_for_late)

    @property
    def _waits_for_late(self) -> int:
        """The lateness up to which records count, in milliseconds of stream time. As long as partners are kept, a late
        record finds them; records without a partner have become results by then."""
        windows, kind = self._windows, self._kind
        if kind.left or kind.right or kind.prior:
            return windows.grace_ms
        return windows.grace_ms + max(0, min(windows.before_ms, windows.after_ms))

    def _window_store(
        self, generated: str, suffix: str, value_serde: AnySerde | None, supplier: WindowStoreSupplier | None
    ) -> StoreBuilder:
        windows, store_name = self._windows, self._options.store_name
        base = generated if store_name is None else store_name + suffix
        logged = windows.size_ms + windows.grace_ms
        # A partner may be as far away as the wider bound, itself included, and late by the grace.
        needed = max(windows.before_ms, windows.after_ms) + windows.grace_ms + 1
        kind = JoinWindowType(max(logged, needed), windows.size_ms, logged_ms=logged)
        made = self._store(base, kind, value_serde)
        if supplier is None:
            return made
        _check_supplier(self._kind.operation, supplier, windows.size_ms, logged)
        return replace(made, name=supplier.name, engine=supplier.engine, logging=True, log_config={})

    def _outer_store(self, this_generated: str) -> StoreBuilder:
        supplier = self._options.this_store_supplier
        store_name = self._options.store_name if supplier is None else supplier.name
        if store_name is None:
            base = "KSTREAM-OUTERSHARED-" + this_generated.rpartition("-")[2]
        else:
            base = store_name + ("-outer-shared-join" if self._kind.right else "-left-shared-join")
        return self._store(base, OUTER_JOIN, list_serde(left_or_right_serde(self._left_serde, self._right_serde)))

    def _store(self, base: str, kind: StoreType, value_serde: AnySerde | None) -> StoreBuilder:
        options = self._options
        given = options.store_name is not None or options.this_store_supplier is not None
        return StoreBuilder(
            name=self._left.graph.names.resource(f"{base}-store", given=given),
            type=kind,
            engine=Engine(options.store),
            key_serde=self._key_serde,
            value_serde=value_serde,
            logging=options.logging,
            log_config=options.log_config,
        )


def _topic_serde(node: GraphNode, store: StoreBuilder) -> AnySerde | None:
    """Returns the serde of the values of a repartition topic right above, if it is the store's, too."""
    topic = node.parents[0]
    if isinstance(topic, RepartitionNode) and topic.value_serde is store.value_serde:
        return store.value_serde or CONFIGURED
    return None


def _check_supplier(operation: str, supplier: WindowStoreSupplier, size_ms: int, kept_ms: int) -> None:
    """Raises ``TopologyError`` for a store that would not keep what the join needs, as Kafka Streams does."""
    if not supplier.retain_duplicates:
        raise TopologyError(
            f"{operation}: store {supplier.name} would keep one record of a key and time; "
            "make its supplier with retain_duplicates=True"
        )
    if (supplier.window_size_ms, supplier.retention_ms) != (size_ms, kept_ms):
        raise TopologyError(
            f"{operation}: store {supplier.name} has windows of {supplier.window_size_ms} ms, kept for "
            f"{supplier.retention_ms} ms; these JoinWindows need {size_ms} ms (before + after), kept for {kept_ms} ms "
            "(with their grace)"
        )


def _keyed(operation: str, joiner: Callable[..., Any]) -> Joiner:
    if takes_key(operation, joiner, "value", "other value"):
        return joiner
    return lambda key, value, other: joiner(value, other)


def _reversed(joiner: Joiner) -> Joiner:
    return lambda key, this, other: joiner(key, other, this)

"""Builds ``KStream.deduplicate``: the topic that brings records of an id together, the node and its store.

Called by ``KStream`` while a program is built, on the user's thread. The partitioner runs on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamsapp.dsl.arity import takes_key
from streamsapp.dsl.late import Late, require_late
from streamsapp.dsl.names import repartition_names
from streamsapp.dsl.nodes import ProcessorGraphNode, RepartitionNode
from streamsapp.dsl.operators.deduplicate import Deduplicate, Deduplication
from streamsapp.dsl.options import name_of
from streamsapp.dsl.place import Place
from streamsapp.errors import TopologyError
from streamsapp.processor.api import Duration, duration_ms
from streamsapp.serdes.api import AnySerde, Serde
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.serdes.serdes import Serdes
from streamsapp.serdes.undeclared import UNDECLARED_KEY
from streamsapp.state.api import StoreBuilder
from streamsapp.state.builders import Stores

_OPERATION = "deduplicate"


@dataclass(frozen=True)
class DeduplicationOptions:
    """The options of one ``deduplicate``, as they were given."""

    by: Callable[..., Any] | None
    within: Duration
    grace: Duration | None
    same_key: bool
    by_serde: AnySerde | None
    late: Late[Any, Any] | None
    named: Any

    def place(self, place: Place) -> Place:
        """Adds the nodes, and returns the place behind them. Raises ``TopologyError`` for what cannot be meant."""
        within_ms, grace_ms = self._times()
        by = _of_key_and_value(self.by)
        serde = self._serde(place)
        given = name_of(self.named)
        name = place.graph.names.named(given, "KSTREAM-DEDUPLICATE-")
        store = place.graph.names.resource(f"{name}-passed", given=given is not None)
        moved = by is not None and not self.same_key
        if moved or place.key_changed:
            place = _through_topic(place, name, given is not None, _partitioner(by, serde) if by and moved else None)
        how = Deduplication(by, within_ms, grace_ms, store, self.late is not None)
        supplier = Stores.persistent_window_store(store, within_ms + grace_ms, within_ms)
        builder = Stores.window_store_builder(supplier, serde, Serdes.string())
        node = _DeduplicateNode(name, _Deduplicating(how, builder))
        place = place.then(node, place.key_serde, place.value_serde, key_changed=moved)
        if self.late is not None:
            self.late.add_below(place)
        return place

    def _times(self) -> tuple[int, int]:
        require_late(_OPERATION, self.late)
        within_ms = duration_ms(self.within)
        if within_ms < 1:
            raise TopologyError(f"{_OPERATION}: within must be at least 1 ms, got {within_ms}")
        grace_ms = within_ms if self.grace is None else duration_ms(self.grace)
        if grace_ms < 0:
            raise TopologyError(f"{_OPERATION}: grace must be at least 0 ms, got {grace_ms}")
        return within_ms, grace_ms

    def _serde(self, place: Place) -> AnySerde:
        """The serde of ids."""
        if self.by_serde is not None and not isinstance(self.by_serde, Serde):
            raise TopologyError(f"{_OPERATION}(by_serde={self.by_serde!r}): that is not a serde; see Serdes")
        if self.by is None:
            if self.by_serde is not None or self.same_key:
                raise TopologyError(f"{_OPERATION}: by_serde and same_key are for by=...; without it the id is the key")
            return place.key_serde or UNDECLARED_KEY
        return self.by_serde or UNDECLARED_KEY


@dataclass(frozen=True)
class _Deduplicating:
    """Makes the operators of one node, and brings their store."""

    how: Deduplication
    builder: StoreBuilder

    def __call__(self) -> Deduplicate:
        return Deduplicate(self.how)

    @property
    def waits_for_late_ms(self) -> int:
        """The time in milliseconds by which a record may be late."""
        return self.how.grace_ms

    def stores(self) -> tuple[StoreBuilder, ...]:
        return (self.builder,)


class _DeduplicateNode(ProcessorGraphNode):
    """Lets records pass as they are, also those without a key."""

    takes_null_keys = True


def _of_key_and_value(by: Callable[..., Any] | None) -> Callable[[Any, Any], Any] | None:
    if by is None or takes_key(_OPERATION, by):
        return by
    return lambda key, value: by(value)


def _through_topic(place: Place, name: str, given: bool, partitioner: Callable[..., Any] | None) -> Place:
    """Returns the place behind a topic, in the partitions of the keys or of the ids."""
    node = RepartitionNode(
        repartition_names(place.graph.names, name, given=given),
        place.key_serde,
        place.value_serde,
        optimizable=partitioner is None,
        partitioner=partitioner,
    )
    return place.then(node, place.key_serde, place.value_serde, key_changed=False)


def _partitioner(by: Callable[[Any, Any], Any], serde: AnySerde) -> Callable[[str, Any, Any, int], int | None]:
    """Returns the partitioner by ids. A record without one goes where its key belongs."""
    serialize = serde.serialize

    def partition(topic: str, key: Any, value: Any, partitions: int) -> int | None:
        identity = by(key, value)
        return None if identity is None else partition_for(serialize(identity), partitions)

    return partition

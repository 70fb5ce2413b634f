"""Builds ``map_async``: the node, its store, and the checks of what it is given.

Called by ``KStream`` while a program is built, on the user's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from streamsapp.dsl.arity import coroutine_takes_key, require_arity
from streamsapp.dsl.fitting import fit_place
from streamsapp.dsl.graph import GraphNode
from streamsapp.dsl.nodes import RepartitionNode, SinkGraphNode, ValueChangingNode
from streamsapp.dsl.operators.map_async import CallOrder, CallSerdes, MapAsync
from streamsapp.dsl.place import Place
from streamsapp.errors import TopologyError
from streamsapp.processor.api import Duration, duration_ms
from streamsapp.processor.async_calls import AsyncFunction
from streamsapp.serdes.api import AnySerde, Serde
from streamsapp.serdes.undeclared import UNDECLARED, UNDECLARED_KEY
from streamsapp.state.api import StoreBuilder
from streamsapp.state.kinds.waiting_records import WAITING_RECORDS
from streamsapp.topology.builder import Topology

_OPERATION = "map_async"

OrderName: TypeAlias = Literal["key", "partition", "none"]


@dataclass(frozen=True)
class AsyncMapping:
    """The options of one ``map_async``, as they were given."""

    function: Callable[..., Any]
    concurrency: int
    order: OrderName
    timeout: Duration
    retries: int
    using: Callable[[], AbstractAsyncContextManager[Any]] | None
    key_serde: AnySerde | None
    value_serde: AnySerde | None
    result_serde: AnySerde | None

    def checked(self) -> tuple[AsyncFunction, CallOrder]:
        """The function and the order. Raises ``TopologyError`` for what cannot be meant."""
        with_key = coroutine_takes_key(_OPERATION, self.function, () if self.using is None else ("opened",))
        if self.using is not None:
            require_arity(f"{_OPERATION}'s using", self.using)
        timeout_ms = duration_ms(self.timeout)
        if timeout_ms < 1:
            raise TopologyError(f"{_OPERATION}: timeout is {timeout_ms} ms; the least is 1 ms")
        if self.order not in get_args(OrderName):
            raise TopologyError(
                f"{_OPERATION}: order is {self.order!r}; it is one of {', '.join(map(repr, get_args(OrderName)))}"
            )
        concurrency = _whole("concurrency", self.concurrency, 1)
        retries = _whole("retries", self.retries, 0)
        for field in ("key_serde", "value_serde", "result_serde"):
            serde = getattr(self, field)
            if serde is not None and not isinstance(serde, Serde):
                raise TopologyError(f"{_OPERATION}({field}={serde!r}): that is not a serde; see Serdes")
        function = AsyncFunction(self.function, with_key, self.using, concurrency, timeout_ms / 1000, retries)
        return function, CallOrder(self.order)

    def place(self, place: Place, given: str | None) -> Place:
        """Adds the node, named as it is ``given``, and returns the place behind it."""
        names = place.graph.names
        name = names.named(given, "KSTREAM-MAPASYNC-")
        store = names.resource(f"{name}-waiting", given=given is not None)
        function, order = self.checked()
        fit_place(_OPERATION, place, self.key_serde, self.value_serde, _OPERATION)
        serdes = CallSerdes(
            self.key_serde or place.key_serde or UNDECLARED_KEY,
            self.value_serde or place.value_serde or UNDECLARED,
            self.result_serde or UNDECLARED,
        )
        node = _AsyncNode(name, _Calling(function, order, store, serdes))
        return place.then(node, place.key_serde, self.result_serde, key_changed=place.key_changed)


@dataclass(frozen=True)
class _Calling:
    """Makes the operators of one node, and brings their store."""

    function: AsyncFunction
    order: CallOrder
    store: str
    serdes: CallSerdes

    def __call__(self) -> MapAsync:
        return MapAsync(self.function, self.order, self.store, self.serdes)

    def stores(self) -> tuple[StoreBuilder, ...]:
        return (StoreBuilder(self.store, WAITING_RECORDS),)


class _AsyncNode(ValueChangingNode):
    """Gives records the answers of calls. The results' serde is that of the topic right below, if none was given."""

    def __init__(self, name: str, calling: _Calling) -> None:
        super().__init__(name, calling)
        self._calling = calling

    def write(self, topology: Topology) -> None:
        calling = self._calling
        if calling.serdes.result is UNDECLARED and (known := _written_below(self)) is not None:
            serdes = CallSerdes(calling.serdes.key, calling.serdes.value, known)
            self._supplier = _Calling(calling.function, calling.order, calling.store, serdes)
        super().write(topology)


def _written_below(node: GraphNode) -> AnySerde | None:
    """Returns the serde of the values of a topic that the results are written to as they are."""
    for child in node.children:
        if isinstance(child, SinkGraphNode | RepartitionNode) and child.value_serde is not None:
            return child.value_serde
    return None


def _whole(field: str, given: object, least: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise TopologyError(f"{_OPERATION}: {field} is {given!r}; it is a whole number, at least {least}")
    return given

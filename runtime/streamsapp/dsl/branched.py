"""Splits a stream into branches: ``stream.split().branch(predicate, ...)...default_branch()``.

User code calls this while it builds a program, on its own thread; predicates run on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streamsapp.dsl.arity import require_arity
from streamsapp.dsl.nodes import StatelessNode
from streamsapp.dsl.operators.stateless import Branch, PassThrough
from streamsapp.dsl.options import Branched
from streamsapp.dsl.place import Place
from streamsapp.java_names.lookup import java_names

if TYPE_CHECKING:
    from streamsapp.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")


@java_names("BranchedKStream")
class BranchedKStream(Generic[K, V]):
    """A stream being split: each record goes to the first branch whose predicate holds.

    The result maps names to streams. A branch's name is the splitter's followed by its own, or by its number: 1 for
    the first, 0 for the default branch.
    """

    def __init__(self, place: Place, name: str | None, make_stream: Callable[[Place], KStream[K, V]]) -> None:
        self._predicates: list[Callable[[Any, Any], Any]] = []
        self._children: list[str] = []
        self._streams: dict[str, KStream[Any, Any]] = {}
        self._make_stream = make_stream
        splitter = StatelessNode(
            place.graph.names.named(name, "KSTREAM-BRANCH-"), lambda: Branch(self._predicates, self._children)
        )
        self._place = place.then(splitter, place.key_serde, place.value_serde, key_changed=place.key_changed)

    def branch(
        self, predicate: Callable[[K, V], Any], branched: Branched[K, V] | str | None = None
    ) -> BranchedKStream[K, V]:
        """Adds a branch for the records that no earlier branch took and for which ``predicate(key, value)`` is true."""
        require_arity("branch", predicate, "key", "value")
        self._predicates.append(predicate)
        self._add(branched, len(self._predicates))
        return self

    def default_branch(self, branched: Branched[K, V] | str | None = None) -> dict[str, KStream[K, V]]:
        """Adds a branch for all other records, and returns the branches' streams by name."""
        self._add(branched, 0)
        return self._streams

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """Drops all other records, and returns the branches' streams by name."""
        return self._streams

    def _add(self, branched: Branched[K, V] | str | None, number: int) -> None:
        options: Branched[K, V] = Branched(branched) if isinstance(branched, str) else branched or Branched()
        place = self._place
        name = place.name + (options.name or str(number))
        place.graph.names.processor(name)  # uses up a number
        self._children.append(name)
        node = StatelessNode(name, PassThrough)
        stream = self._make_stream(place.then(node, place.key_serde, place.value_serde, key_changed=place.key_changed))
        if options.consumer is not None:
            options.consumer(stream)
            return
        result = stream if options.function is None else options.function(stream)
        if result is not None:
            self._streams[name] = result

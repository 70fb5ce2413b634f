"""The logical graph behind a program of the DSL, and the order in which it becomes a topology.

Operators add nodes as the user calls them; ``build`` writes the nodes into a ``Topology``. A node carries the number of
the call that added it last, and nodes are written by that number as soon as all their parents are: the order decides
how sub-topologies are numbered, so it is Kafka Streams' order. Called on the user's thread.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from streamsapp.dsl.names import NameGenerator
from streamsapp.errors import TopologyError, place_of_caller

if TYPE_CHECKING:
    from streamsapp.topology.builder import Topology


class GraphNode(ABC):
    """One call of the DSL, which becomes one node of the topology or several."""

    changes_key = False
    changes_value = False
    merges = False
    #: For an aggregation by window: how long after its end a window closes, in milliseconds.
    closes_after_ms: int | None = None
    #: Names of the sources that this node writes: where records of its own topics come in.
    sources: tuple[str, ...] = ()
    #: Says whether it also takes records without a key (the left stream of a left join, KIP-962).
    takes_null_keys = False
    #: Says whether it makes other records of each one and does no more: it keeps nothing and shows no user anything.
    passes_on = False
    #: Says whether it is a table that takes in what comes.
    takes_in = False
    #: Says whether its parent sends it only the records that it leaves out.
    aside = False

    def __init__(self, name: str) -> None:
        #: The name under which children find what this node wrote.
        self.name = name
        self.priority = -1
        #: ``file:line`` where the user added it.
        self.place = ""
        # Dictionaries serve as ordered sets.
        self._parents: dict[GraphNode, None] = {}
        self._children: dict[GraphNode, None] = {}

    @property
    def drops_late(self) -> bool:
        """Says whether it drops records that come too late for the stream time that it has seen."""
        return self.closes_after_ms is not None

    @property
    def parents(self) -> list[GraphNode]:
        return list(self._parents)

    @property
    def children(self) -> list[GraphNode]:
        return list(self._children)

    @property
    def parent_names(self) -> list[str]:
        return [parent.name for parent in self._parents]

    def add_child(self, child: GraphNode) -> None:
        self._children[child] = None
        child._parents[self] = None

    def remove_child(self, child: GraphNode) -> None:
        del self._children[child]
        del child._parents[self]

    @abstractmethod
    def write(self, topology: Topology) -> None:
        """Adds the parts of the topology that this node stands for; all parents have been written."""


class _Root(GraphNode):
    """The parent of all sources."""

    def write(self, topology: Topology) -> None:
        """Writes nothing: the root is no part of the topology."""


class LogicalGraph:
    """Holds all nodes of one program, and the names given out so far."""

    def __init__(self) -> None:
        self.root: GraphNode = _Root("root")
        self.names = NameGenerator()
        self._next_priority = 0
        self._nodes: dict[GraphNode, None] = {}
        self._copartitioned: list[tuple[GraphNode, ...]] = []

    def add(self, node: GraphNode, *parents: GraphNode) -> None:
        """Append a node; a node that is added again under the same parent moves back in the order of writing."""
        self._nodes[node] = None
        node.place = node.place or place_of_caller()
        for parent in parents or (self.root,):
            parent.add_child(node)
            node.priority = self._next_priority
            self._next_priority += 1

    @property
    def nodes(self) -> list[GraphNode]:
        """Every node that was ever added, in the order in which it was added first."""
        return list(self._nodes)

    def copartition(self, *nodes: GraphNode) -> None:
        """Notes that the records of these nodes are joined by key: all topics that they are read from need equally many
        partitions."""
        self._copartitioned.append(nodes)

    def write(self, topology: Topology) -> None:
        """Write every node, parents first; of the nodes that are ready, the one added first comes first."""
        written: set[GraphNode] = set()
        # The sequence number keeps the heap from comparing nodes.
        queue: list[tuple[int, int, GraphNode]] = [(self.root.priority, 0, self.root)]
        sequence = 0
        while queue:
            _, _, node = heapq.heappop(queue)
            if node in written or not written.issuperset(node.parents):
                continue
            _write(node, topology)
            written.add(node)
            for child in node.children:
                sequence += 1
                heapq.heappush(queue, (child.priority, sequence, child))
        for nodes in self._copartitioned:
            topology.copartition_sources(dict.fromkeys(name for node in nodes for name in _sources_of(node)).keys())


def _write(node: GraphNode, topology: Topology) -> None:
    """Writes a node; an error in it is reported with the line of the user's program that added it."""
    topology.place = node.place
    try:
        node.write(topology)
    except TopologyError as error:
        raise TopologyError(f"{error} (added at {node.place})") from error
    finally:
        topology.place = ""


def _sources_of(node: GraphNode) -> tuple[str, ...]:
    """Returns the sources whose records come to a node."""
    return node.sources or tuple(name for parent in node.parents for name in _sources_of(parent))


def find_downstream(start: GraphNode, matches: Callable[[GraphNode], bool]) -> GraphNode | None:
    """Returns the first match below ``start``, where records go on."""
    for child in start.children:
        if child.aside:
            continue
        found = child if matches(child) else find_downstream(child, matches)
        if found is not None:
            return found
    return None


def only_repartitioned_into_tables(start: GraphNode) -> bool:
    """Says whether everything that ``start`` sends goes through repartition topics into other tables, and no user sees
    it on the way. There is nothing below that drops records which come late."""
    return find_downstream(start, lambda node: node.drops_late) is None and _all_taken_in(start, repartitioned=False)


def _all_taken_in(node: GraphNode, *, repartitioned: bool) -> bool:
    return all(
        repartitioned
        if child.takes_in
        else child.passes_on and _all_taken_in(child, repartitioned=repartitioned or bool(child.sources))
        for child in node.children
        if not child.aside
    )


def find_upstream(start: GraphNode, matches: Callable[[GraphNode], bool]) -> GraphNode | None:
    """Returns the first match among ``start`` and its ancestors, depth first in the order in which parents were
    added."""
    if matches(start):
        return start
    for parent in start.parents:
        found = find_upstream(parent, matches)
        if found is not None:
            return found
    return None

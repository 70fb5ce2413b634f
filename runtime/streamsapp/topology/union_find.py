"""Union-find over node names: which nodes end up in the same sub-topology.

Called by the topology builder, on the thread that builds the topology.
"""

from __future__ import annotations


class UnionFind:
    """Disjoint sets of names."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def add(self, name: str) -> None:
        """A set of its own."""
        self._parents[name] = name

    def unite(self, left: str, right: str) -> None:
        """Merge the sets of the two names."""
        self._parents[self.root(left)] = self.root(right)

    def root(self, name: str) -> str:
        """The name that stands for the whole set; equal for members of the same set only."""
        parents = self._parents
        while parents[name] != name:
            parents[name] = name = parents[parents[name]]
        return name

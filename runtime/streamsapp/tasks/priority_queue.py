"""A binary heap whose order among equals is that of Kafka Streams' own heap.

The heap's shape decides which of two records with the same timestamp goes first, and which of two punctuators due at
the same time. Python's ``heapq`` sifts another way, so ties would fall differently; this heap makes the same choices,
and the same program gives the same output.

Used by tasks, on a processing thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """Smallest ``rank(item)`` first."""

    def __init__(self, rank: Callable[[T], float]) -> None:
        self._rank = rank
        #: The heap itself, for a caller that looks at a queue of one item for every record.
        self.items: list[T] = []

    def __len__(self) -> int:
        return len(self.items)

    def peek(self) -> T | None:
        """The first item, which stays."""
        return self.items[0] if self.items else None

    def offer(self, item: T) -> None:
        """Add an item: it rises past parents that are strictly larger."""
        heap, rank = self.items, self._rank
        own = rank(item)
        position = len(heap)
        heap.append(item)
        while position:
            parent = (position - 1) >> 1
            if own >= rank(heap[parent]):
                break
            heap[position] = heap[parent]
            position = parent
        heap[position] = item

    def poll(self) -> T:
        """Take the first item; ``IndexError`` when empty. The last item sinks from the root."""
        heap = self.items
        last = heap.pop()
        if not heap:
            return last
        first = heap[0]
        self._sink(last)
        return first

    def _sink(self, item: T) -> None:
        heap, rank = self.items, self._rank
        own = rank(item)
        position, size = 0, len(heap)
        while position < size >> 1:
            child = 2 * position + 1
            if child + 1 < size and rank(heap[child]) > rank(heap[child + 1]):
                child += 1
            if own <= rank(heap[child]):
                break
            heap[position] = heap[child]
            position = child
        heap[position] = item

    def clear(self) -> None:
        """Remove everything."""
        self.items.clear()

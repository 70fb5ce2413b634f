"""A binary heap whose order among equals is that of the one Kafka Streams uses.

Which of two records with the same timestamp goes first, and which of two punctuators due at the same time, is decided
by the heap's shape. Python's ``heapq`` sifts another way, so ties would fall differently; this heap makes the same
choices, and the same program gives the same output.

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
        self._heap: list[T] = []

    def __len__(self) -> int:
        return len(self._heap)

    def peek(self) -> T | None:
        """The first item, which stays."""
        return self._heap[0] if self._heap else None

    def offer(self, item: T) -> None:
        """Add an item: it rises past parents that are strictly larger."""
        heap, rank = self._heap, self._rank
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
        heap = self._heap
        last = heap.pop()
        if not heap:
            return last
        first = heap[0]
        self._sink(last)
        return first

    def exchange(self, item: T) -> T:
        """Add an item and take the first."""
        heap = self._heap
        if len(heap) == 1:  # two inputs of a task, which do this for every record
            first = heap[0]
            if self._rank(item) < self._rank(first):
                return item
            heap[0] = item
            return first
        self.offer(item)
        return self.poll()

    def _sink(self, item: T) -> None:
        heap, rank = self._heap, self._rank
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
        self._heap.clear()

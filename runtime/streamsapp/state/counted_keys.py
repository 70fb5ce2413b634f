"""Counts of keys that are changed in place while an epoch lasts, where the store has no cells of C.

Used by operators that count, on the processing thread that holds the task. A key that was counted before in the running
epoch costs one look-up: neither a new entry nor writes of the epoch and the cache, which are large with many keys.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from streamsapp.state.entries import Cell
from streamsapp.state.store_type import Layers

_pack_count = Struct(">q").pack


class CountedKeys:
    """Counts in the layers of a store whose values are longs and whose entries have timestamps."""

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._read, self._write_cell = layers.read, layers.write_cell

    def count(self, key_bytes: bytes, timestamp: int) -> Cell:
        """Counts a record of a key, and returns the cell that has its count and timestamp."""
        cell: Any = self._read(key_bytes)
        if type(cell) is Cell and cell.epoch == self._layers.epoch:
            cell[0] += 1
            if timestamp > cell[1]:
                cell[1] = timestamp
            return cell
        counted, changed_at = cell
        if counted is None:
            return self._write_cell(key_bytes, 1, timestamp)
        return self._write_cell(key_bytes, counted + 1, max(timestamp, changed_at))

    def result(self, key_bytes: bytes, timestamp: int, topic: str) -> tuple[Any, ...]:
        """Counts a record of a key, and returns the record that tells a topic of its count."""
        count, changed_at = self.count(key_bytes, timestamp)
        return topic, _pack_count(count), key_bytes, -1, None, None, changed_at, None

"""Looks up rows of a table for joins: in the table's store, or computed from the tables that it is derived from.

A view is made for one operator of one task, bound with it on the polling thread, and called on a processing thread.
User code runs in what :meth:`TableView.bind` gives: the operator calls it inside ``try``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from streamsapp import native
from streamsapp.processor.operator import NodeContext
from streamsapp.serdes.api import identity
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.engine.entries import ABSENT
from streamsapp.state.kinds.versioned import VersionedStoreImpl

#: The value of a key, not ``None``, and its timestamp; ``(None, -1)`` where the table has no such row.
Get: TypeAlias = Callable[[Any], tuple[Any, int]]

#: ``(key, timestamp)``: the same as of a time.
GetAsOf: TypeAlias = Callable[[Any, int], tuple[Any, int]]


class TableView(ABC):
    """Looks up rows of one table."""

    #: The stores that the operator must be connected to.
    store_names: tuple[str, ...] = ()

    @abstractmethod
    def bind(self, context: NodeContext) -> Get:
        """Returns the look-up for the operator that is bound to ``context``."""

    def bind_as_of(self, context: NodeContext) -> GetAsOf | None:
        """Returns the look-up of the row that was valid at a time, or ``None`` for a table that does not keep
        versions."""
        return None

    def close(self) -> None:  # noqa: B027 - most views own nothing
        """Called once after the last look-up."""


class StoredView(TableView):
    """Looks up rows of a table in a store."""

    def __init__(self, store_name: str) -> None:
        self.store_names = (store_name,)

    def bind(self, context: NodeContext) -> Get:
        store = context.store(self.store_names[0])
        from_stored = None if store.from_stored is identity else store.from_stored
        return native.StoredRows(key_bytes=store.key_bytes, read=store.read, from_stored=from_stored)

    def bind_as_of(self, context: NodeContext) -> GetAsOf | None:
        store = context.store(self.store_names[0])
        if not isinstance(store, VersionedStoreImpl):
            return None
        key_bytes, read_as_of, from_stored = store.key_bytes, store.read_as_of, store.from_stored

        def get(key: Any, timestamp: int) -> tuple[Any, int]:
            stored, written_at = read_as_of(key_bytes(key), timestamp)
            return from_stored(stored), written_at

        return get


class WindowedView(TableView):
    """Looks up rows of a windowed table, which have :class:`Windowed` keys."""

    def __init__(self, store_name: str) -> None:
        self.store_names = (store_name,)

    def bind(self, context: NodeContext) -> Get:
        store = context.store(self.store_names[0])
        key_bytes, read, from_stored = store.key_bytes, store.read, store.from_stored

        def get(windowed: Windowed[Any]) -> tuple[Any, int]:
            stored, timestamp = read(key_bytes(windowed.key), windowed.start_ms)
            return (None, -1) if stored is None else (from_stored(stored), timestamp)

        return get


class SessionView(TableView):
    """Looks up rows of a table by sessions. A row's timestamp is the end of its session."""

    def __init__(self, store_name: str) -> None:
        self.store_names = (store_name,)

    def bind(self, context: NodeContext) -> Get:
        store = context.store(self.store_names[0])
        key_bytes, read, from_stored = store.key_bytes, store.read, store.from_stored

        def get(windowed: Windowed[Any]) -> tuple[Any, int]:
            stored = read(key_bytes(windowed.key), windowed.start_ms, windowed.end_ms)
            return ABSENT if stored is None else (from_stored(stored), windowed.end_ms)

        return get


class ComputedView(TableView):
    """Looks up rows of a table that is derived from another one: ``compute(key, value)`` gives the row, or ``None`` if
    there is none."""

    def __init__(self, parent: TableView, compute: Callable[[Any, Any], Any]) -> None:
        self.store_names = parent.store_names
        self._parent = parent
        self._compute = compute

    def bind(self, context: NodeContext) -> Get:
        return native.ComputedRows(rows=self._parent.bind(context), compute=self._compute)

    def bind_as_of(self, context: NodeContext) -> GetAsOf | None:
        get_parent, compute = self._parent.bind_as_of(context), self._compute
        if get_parent is None:
            return None

        def get(key: Any, timestamp: int) -> tuple[Any, int]:
            value, written_at = get_parent(key, timestamp)
            value = compute(key, value)
            return ABSENT if value is None else (value, written_at)

        return get

    def close(self) -> None:
        self._parent.close()


class JoinedView(TableView):
    """Looks up rows of two joined tables. A row that is required on a side makes the joined row; if none is required,
    the other side's row does."""

    def __init__(
        self,
        left: TableView,
        right: TableView,
        joiner: Callable[[Any, Any], Any],
        left_required: bool,
        right_required: bool,
    ) -> None:
        self.store_names = tuple(dict.fromkeys((*left.store_names, *right.store_names)))
        self._left = left
        self._right = right
        self._joiner = joiner
        self._left_required = left_required
        self._right_required = right_required

    def bind(self, context: NodeContext) -> Get:
        get_left, get_right, joiner = self._left.bind(context), self._right.bind(context), self._joiner
        left_required, right_required = self._left_required, self._right_required

        def get(key: Any) -> tuple[Any, int]:
            left, left_at = get_left(key)
            if left is None and left_required:
                return ABSENT
            right, right_at = get_right(key)
            if right is None and (right_required or left is None):
                return ABSENT
            joined = joiner(left, right)
            return ABSENT if joined is None else (joined, max(left_at, right_at))

        return get

    def close(self) -> None:
        self._left.close()
        self._right.close()

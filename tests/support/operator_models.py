"""Models of what operators have in C for joins, aggregations and updates, in Python. ``models.in_python`` puts them in
the place of the compiled ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamsapp.dsl.operators.forward_updates import Sent
from streamsapp.processor.operator import OldIsKnown, Push
from streamsapp.record import Headers


class StoredRows:
    """Rows of a table in its store."""

    def __init__(
        self,
        *,
        key_bytes: Callable[[Any], bytes],
        read: Callable[[bytes], Any],
        from_stored: Callable[[Any], Any] | None,
    ) -> None:
        self._key_bytes, self._read, self._from_stored = key_bytes, read, from_stored

    def __call__(self, key: Any) -> tuple[Any, int]:
        stored, timestamp = self._read(self._key_bytes(key))
        return stored if self._from_stored is None else self._from_stored(stored), timestamp


class ComputedRows:
    """Rows that are made of those of another table."""

    def __init__(self, *, rows: Callable[[Any], tuple[Any, int]], compute: Callable[[Any, Any], Any]) -> None:
        self._rows, self._compute = rows, compute

    def __call__(self, key: Any) -> tuple[Any, int]:
        row, timestamp = self._rows(key)
        row = self._compute(key, row)
        return (None, -1) if row is None else (row, timestamp)


class JoinPush:
    """Joins records with rows."""

    def __init__(
        self,
        *,
        rows: Callable[..., tuple[Any, int]],
        as_of: bool,
        selector: Callable[[Any, Any], Any] | None,
        joiner: Callable[..., Any],
        keys: int,
        left: bool,
        forward: Push,
        on_error: Callable[..., None],
        dropped: Callable[[], object],
    ) -> None:
        self._rows, self._as_of, self._selector = rows, as_of, selector
        self._joiner, self._keys, self._left = joiner, keys, left
        self._forward, self._on_error, self._dropped = forward, on_error, dropped

    def __call__(self, key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        try:
            row_key = key if self._selector is None else self._selector(key, value)
            if value is None or (row_key is None and not self._left):
                self._dropped()
                return
            row = None
            if row_key is not None:
                row = self._rows(row_key, timestamp)[0] if self._as_of else self._rows(row_key)[0]
            if row is None and not self._left:
                return
            joined = self._joiner(*(key, row_key)[: self._keys], value, row)
        except Exception as error:
            self._on_error(error, key, value, timestamp, headers)
            return
        self._forward(key, joined, timestamp, headers)


class ToStored:
    """Makes values those that a store keeps."""

    def __init__(
        self,
        *,
        stored: Callable[[Any], Any],
        stored_again: Callable[[Any, Any], Any],
        refused: Callable[[Exception, Any, Any], object],
        lowest: int,
        highest: int,
    ) -> None:
        self._stored, self._stored_again, self._refused = stored, stored_again, refused
        self._numbers = range(lowest, highest + 1)

    def __call__(self, key: Any, value: Any, unless_changed: Any = None) -> Any:
        if value.__class__ is int and value in self._numbers:
            return value
        try:
            return self._stored(value) if unless_changed is None else self._stored_again(value, unless_changed)
        except Exception as error:
            self._refused(error, key, value)
            raise SystemError from error


class ForwardUpdate:
    """Sends the updates of a table at once."""

    def __init__(self, *, forward: Push, sends: int) -> None:
        self._forward, self._sends = forward, sends

    def __call__(self, key: Any, identity: Any, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
        if self._sends == Sent.NEW_VALUE:
            self._forward(key, new, timestamp, headers)
        elif self._sends != Sent.NOTHING:
            self._forward(key, (new, old if self._sends == Sent.NEW_AND_OLD else None), timestamp, headers)


class HoldUpdate:
    """Holds the updates of a table."""

    def __init__(self, *, entries: dict[Any, Any], record: Callable[[], Any] | None) -> None:
        self._entries, self._record = entries, record

    def __call__(self, key: Any, identity: Any, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
        earlier = self._entries.pop(identity, None)
        record = None if self._record is None else self._record()
        self._entries[identity] = (key, new, old if earlier is None else earlier[2], timestamp, headers, record)

    def holds(self, key: Any, identity: Any) -> bool:
        return identity in self._entries


class FoldPush:
    """Folds the values of keys into aggregates."""

    def __init__(
        self,
        *,
        initializer: Callable[[], Any] | None,
        fold: Callable[..., Any],
        deleting: Callable[[], object] | None,
        key_bytes: Callable[[Any], bytes],
        read: Callable[[bytes], Any],
        write: Callable[[bytes, Any, int], object],
        to_stored: Callable[..., Any],
        from_stored: Callable[[Any], Any] | None,
        raw: Callable[[Any], bytes] | None,
        rereads: bool,
        old_is_known: OldIsKnown | None,
        true_old: bool,
        at_commit: bool,
        topic: str | None,
        emit: Callable[[Any], None] | None,
        update: Callable[..., None],
        on_error: Callable[..., None],
        dropped: Callable[[], object],
    ) -> None:
        self._initializer, self._fold, self._deleting = initializer, fold, deleting or bool
        self._key_bytes, self._read, self._write = key_bytes, read, write
        self._to_stored, self._from_stored, self._raw = to_stored, from_stored or _same, raw or _same
        self._rereads, self._old_is_known = rereads, old_is_known or _of_none
        self._true_old, self._at_commit = true_old, at_commit
        self._topic, self._emit = topic, emit
        self._update, self._on_error, self._dropped = update, on_error, dropped

    def __call__(self, key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        if key is None or value is None:
            self._dropped()
            return
        try:
            key_bytes = self._key_bytes(key)
            stored, stored_at = self._read(key_bytes)
            old = self._aggregate(stored)
            new = self._folded(key, value, old)
            new_stored = self._new_stored(key, new, stored if new is old else None)
            needed = old is not None or self._initializer is not None
            if self._rereads and needed and not self._old_is_known(key, key_bytes):
                old = self._aggregate(stored)
        except Exception as error:
            self._on_error(error, key, value, timestamp, headers)
            return
        changed_at = max(timestamp, stored_at)
        self._write(key_bytes, new_stored, timestamp if new is None else changed_at)
        if new is None and self._at_commit:
            changed_at = timestamp
        if self._emit is not None and headers is None:
            raw = None if new is None else self._raw(new_stored)
            self._emit((self._topic, raw, key_bytes, -1, None, None, changed_at, None))
        else:
            old = None if self._true_old and stored is None else old
            self._update(key, key_bytes, new, old, changed_at, headers)

    def _aggregate(self, stored: Any) -> Any:
        if stored is not None:
            return self._from_stored(stored)
        return None if self._initializer is None else self._initializer()

    def _folded(self, key: Any, value: Any, old: Any) -> Any:
        if self._initializer is not None:
            return self._fold(key, value, old)
        return value if old is None else self._fold(old, value)

    def _new_stored(self, key: Any, new: Any, unless_changed: Any) -> Any:
        if new is not None:
            return self._to_stored(key, new, unless_changed)
        self._deleting()
        return None


def _same(value: Any) -> Any:
    return value


def _of_none(key: Any, key_bytes: bytes) -> bool:
    return False


#: All of them.
OPERATOR_PARTS = (StoredRows, ComputedRows, JoinPush, ToStored, ForwardUpdate, HoldUpdate, FoldPush)

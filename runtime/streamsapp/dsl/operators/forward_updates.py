"""Sends the updates of a table with a store downstream when they happen.

Used by the table operators; called on a processing thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import IntEnum
from typing import Any, TypeAlias

from streamsapp import native
from streamsapp.processor.operator import NodeContext, Push, Reason, handed_on_to, nowhere
from streamsapp.record import Headers
from streamsapp.serdes.api import AnySerde
from streamsapp.state.kinds.expiring import ExpiringStoreImpl, Written
from streamsapp.state.kinds.versioned import (
    PUT_RETURN_CODE_NOT_PUT,
    PUT_RETURN_CODE_VALID_TO_UNDEFINED,
    VersionedStoreImpl,
)

EXPIRED_VERSION = Reason(
    "it is older than the history of the versioned table", "a longer history of the table lets older updates in"
)

#: ``(key, identity, new, old, timestamp, headers)``: the table's value of a key has changed. ``identity`` is hashable
#: and differs where keys do, as a key's bytes do.
Update: TypeAlias = Callable[[Any, Hashable, Any, Any, int, Headers | None], None]


class Sent(IntEnum):
    """The part of an update that is sent, in the order of ``native/push/updates.c``."""

    NOTHING = 0
    NEW_VALUE = 1
    NEW_AND_NONE = 2
    NEW_AND_OLD = 3


OVER = Reason("its time to live is over", "a longer ttl of the table lets older records in")


class LateChange(tuple[Any, Any]):
    """A change ``(new, old)`` of a versioned table that comes after a later one. It does not change the present rows of
    the table, so groups and joins of tables leave it out (KIP-914)."""

    __slots__ = ()


def forward_updates(forward: Push, send_old_values: bool) -> Update:
    """Forwards every update at once; the old value travels only if a table below needs it. Where new values alone are
    handed on, as a stream, they go there directly."""
    stream = handed_on_to(forward)
    if forward is nowhere:
        sends = Sent.NOTHING  # no node asks for updates, the table is its store
    elif stream is not None:
        sends = Sent.NEW_VALUE
    else:
        sends = Sent.NEW_AND_OLD if send_old_values else Sent.NEW_AND_NONE
    return native.ForwardUpdate(forward=forward if stream is None else stream, sends=sends)


class VersionedTable:
    """A versioned store in place of the key-value store that an operator writes. The store reports what a write became:
    an update, a late change, or nothing, if it is older than the history (KIP-914)."""

    cells = None

    def __init__(
        self, context: NodeContext, store: VersionedStoreImpl, send_old_values: bool, expired: Callable[[], object]
    ) -> None:
        self.key_bytes, self.read = store.key_bytes, store.read
        self.from_stored, self.to_stored, self.raw = store.from_stored, store.to_stored, store.raw
        self._put = store.write
        self._forward = context.forward
        self._expired = expired
        self._send_old_values = send_old_values
        self._written: tuple[bytes, Any] = (b"", None)

    def write(self, key: bytes, stored: Any, timestamp: int) -> None:
        """Notes a row that :meth:`update` puts, with the time of the update."""
        self._written = key, stored

    def writes_as(self, key_serde: AnySerde, value_serde: AnySerde) -> bool:
        """Returns False: a row is put when its update is sent."""
        return False

    def update(self, key: Any, identity: Hashable, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
        """Puts the row that was written, and sends its change."""
        valid_to = self._put(*self._written, timestamp)
        if valid_to == PUT_RETURN_CODE_NOT_PUT:
            self._expired()
            return
        change = new, old if self._send_old_values else None
        latest = valid_to == PUT_RETURN_CODE_VALID_TO_UNDEFINED
        self._forward(key, change if latest else LateChange(change), timestamp, headers)


class ExpiringTable:
    """A store with a time to live in place of the key-value store that an operator writes. A row that is over when it
    is written is never there: it goes downstream as the deletion of the one that was, if there was one."""

    cells = None

    def __init__(self, context: NodeContext, store: ExpiringStoreImpl, update: Update) -> None:
        self.key_bytes, self.read = store.key_bytes, store.read
        self.from_stored, self.to_stored, self.raw = store.from_stored, store.to_stored, store.raw
        self._keep = store.keep
        self._update = update
        self._dropped = context.dropped
        self._written = Written.KEPT

    def write(self, key: bytes, stored: Any, timestamp: int) -> None:
        """Writes a row; :meth:`update` is to follow."""
        self._written = self._keep(key, stored, timestamp)

    def writes_as(self, key_serde: AnySerde, value_serde: AnySerde) -> bool:
        """Returns False: whether a row is sent is known when it is written."""
        return False

    def update(self, key: Any, identity: Hashable, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
        """Sends the change of the row that was written."""
        written = self._written
        if written is Written.OVER_AND_NOTHING_THERE:
            self._dropped(OVER)
        else:
            self._update(key, identity, None if written is Written.OVER else new, old, timestamp, headers)

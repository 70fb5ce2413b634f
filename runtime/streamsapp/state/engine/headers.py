"""Entries with the headers of the record that wrote them (KIP-1271): their forms in memory, on disk and in changelogs.

Used by the write-back layer and the engines below it, on every thread that touches a store. The headers of the record
in process are the format's for as long as the record is at a node of the store; :func:`heading` sees to that, and only
for stores that keep headers.

========  ==============================================================================
form
========  ==============================================================================
raw       value; the changelog's record has the headers, and the timestamp
physical  headers (their number, then names and values by length) ‖ physical form without
stored    :class:`Headed`
========  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getsizeof
from typing import Any, NamedTuple

from streamsapp.errors import StateStoreError
from streamsapp.record import Headers, InputRecord, check_headers
from streamsapp.state.engine.entries import ABSENT, Entry, LoggedEntry, PlainFormat, headers_size
from streamsapp.state.engine.sized_parts import INT, SizedParts, sized


class Headed(NamedTuple):
    """A stored value with headers."""

    value: Any
    #: ``None`` where there are none.
    headers: Headers | None

    def __sizeof__(self) -> int:
        return tuple.__sizeof__(self) + getsizeof(self.value) + headers_size(self.headers)


def loggable(headers: Headers | None) -> Headers | None:
    """Returns headers as the changelog has them: a value that is text is encoded, as the client does where it is sent.
    Raises for what cannot be logged."""
    if not headers:
        return headers
    check_headers(headers)
    # The type says bytes; headers that users add may be anything that passes the check.
    given: list[tuple[str, Any]] = list(headers)
    if not any(isinstance(value, str) for _, value in given):
        return headers
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in given]


def pack_headers(headers: Headers | None) -> bytes:
    """Returns the bytes of headers: their number, and each name and value behind its length."""
    parts = [INT.pack(len(headers or ()))]
    for name, value in headers or ():
        parts += (sized(name.encode()), sized(value))
    return b"".join(parts)


def unpack_headers(data: bytes) -> tuple[Headers | None, int]:
    """Returns headers, ``None`` for none, and where their bytes end. Raises ``StateStoreError`` for bytes that are
    none."""
    parts = SizedParts(data)
    try:
        return parts.headers(), parts.at
    except ValueError as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> StateStoreError:
    return StateStoreError(
        f"an entry of a store has headers that cannot be read: {error}; delete the state of the task, which is then "
        "restored from its changelogs"
    )


class HeadersFormat:
    """Translates between the forms of entries with headers, over the format of the same entries without."""

    has_headers = True
    keeps_values = False
    number_size = 0

    def __init__(self, plain: PlainFormat) -> None:
        self._plain = plain
        self.kept = plain.kept
        #: The headers of the record in process; ``None`` where it has none, or there is none.
        self.now: Headers | None = None
        self.to_stored: Callable[[Any], Any] = self._to_stored
        self.from_stored: Callable[[Any], Any] = self._from_stored
        self.stored_again: Callable[[Any, Any], Any] = self._stored_again

    def _to_stored(self, value: Any) -> Headed:
        return Headed(self._plain.to_stored(value), self.now)

    def _from_stored(self, stored: Any) -> Any:
        return None if stored is None else self._plain.from_stored(stored.value)

    def _stored_again(self, value: Any, stored: Any) -> Headed:
        return Headed(self._plain.stored_again(value, stored.value), self.now)

    def raw(self, stored: Any) -> bytes:
        return self._plain.raw(stored.value)

    def headers(self, entry: Entry) -> Headers | None:
        """Returns those of the value; of a deletion, those of the record that deleted."""
        stored = entry[0]
        if stored is None:
            return entry.headers if entry.__class__ is LoggedEntry else None
        headers: Headers | None = stored.headers
        return headers

    def deletion(self, timestamp: int) -> Entry:
        """Returns the entry by which a key is deleted, with the headers of the record in process."""
        return (None, timestamp) if self.now is None else LoggedEntry.of(None, timestamp, self.now)

    def physical(self, entry: Entry) -> bytes:
        stored, timestamp = entry
        return pack_headers(stored.headers) + self._plain.physical((stored.value, timestamp))

    def restored(self, record: InputRecord) -> bytes | None:
        physical = self._plain.restored(record)
        return None if physical is None else pack_headers(record.headers()) + physical

    def entry(self, physical: bytes) -> Entry:
        headers, at = unpack_headers(physical)
        value, timestamp = self._plain.entry(physical[at:])
        return Headed(value, headers), timestamp

    def readable(self, entry: Entry) -> Entry:
        stored, timestamp = entry
        if stored is None:
            return ABSENT
        return stored, self._plain.readable((stored.value, timestamp))[1]


#: ``(key, value, timestamp, headers)``, as :data:`streamsapp.processor.operator.Push`.
_Push = Callable[[Any, Any, int, Headers | None], None]
_OnError = Callable[[Exception, Any, Any, int, Headers | None], None]


def heading(formats: Sequence[HeadersFormat], push: _Push, on_error: _OnError) -> _Push:
    """Returns a push function under which these stores know the headers of the record. What it reaches below may write
    to the same stores: the headers of the record above are theirs again afterwards."""

    def push_under_headers(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        try:
            # A copy: the record goes on, and user code may change its list.
            now = list(loggable(headers) or ()) or None
        except Exception as error:
            on_error(error, key, value, timestamp, headers)
            return
        before = [each.now for each in formats]
        for each in formats:
            each.now = now
        try:
            push(key, value, timestamp, headers)
        finally:
            for each, earlier in zip(formats, before, strict=True):
                each.now = earlier

    return push_under_headers

"""The operators of grouped tables: they regroup the changes of a table, and aggregate them by adding and subtracting.

Bound on the polling thread when a task is created; pushed on a processing thread.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from streamsapp.dsl.operators.aggregate import StoredTableOperator
from streamsapp.dsl.operators.combine import SAME_AS_BYTES
from streamsapp.dsl.operators.forward_updates import LateChange, Update
from streamsapp.dsl.operators.held import Held
from streamsapp.dsl.operators.stateless import no_pair, pair_of
from streamsapp.errors import StreamsError
from streamsapp.processor.operator import NodeContext, Operator, Push, knowing_old, nowhere
from streamsapp.record import Headers
from streamsapp.state.kinds.key_value import KeyValueStoreImpl

#: Values of one of these classes that are equal have the same bytes.
_EQUAL_AS_BYTES = frozenset({str, bytes, int, bool})
#: The version of Python's object format that writes no references, so that equal objects have equal bytes.
_WITHOUT_REFERENCES = 2


#: Rows whose changes are held at most. Those that have not changed for longest are sent when there are more.
MAX_ROWS = 20_000

#: A row in its group: ``(group, grouped value)``.
GroupedRow: TypeAlias = tuple[Any, Any]
#: ``(new, old, timestamp, headers)``: the change of a row in its groups.
GroupedChange: TypeAlias = tuple[GroupedRow | None, GroupedRow | None, int, Headers | None]


class RegroupTable(Operator):
    """Maps the old and the new row of a change into groups: one is to subtract, the other to add.

    Rows that stay in their group travel as one record; otherwise the subtraction goes first. Combined, the changes of a
    row travel as one with each commit: what it was before the first of them, and what it is after the last one.
    """

    def __init__(self, selector: Callable[[Any, Any], tuple[Any, Any] | None], *, combines: bool) -> None:
        self._selector = selector
        self._combines = combines
        self._changes: dict[Hashable, GroupedChange] = {}
        self._held = Held(self._changes, lambda: list(self._changes.values()), _send)

    def bind(self, context: NodeContext) -> Push:
        if context.forward is nowhere:
            return nowhere
        combines = self._combines and context.combines
        return self._bind_combining(context) if combines else self._bind_sending(context)

    def _bind_sending(self, context: NodeContext) -> Push:
        row, on_error = self._row, context.on_error

        def push(key: Any, change: Any, timestamp: int, headers: Headers | None) -> None:
            if change.__class__ is LateChange:
                return
            try:
                if key is None:
                    raise _null_key(context.node_name)
                new, old = row(key, change[0]), row(key, change[1])
            except Exception as error:
                on_error(no_pair(error, "group_by"), key, change, timestamp, headers)
                return
            _forward(context, new, old, timestamp, headers)

        return push

    def _bind_combining(self, context: NodeContext) -> Push:
        row, on_error, changes, held = self._row, context.on_error, self._changes, self._held

        def push(key: Any, change: Any, timestamp: int, headers: Headers | None) -> None:
            if change.__class__ is LateChange:
                return
            try:
                if key is None:
                    raise _null_key(context.node_name)
                identity = key if key.__class__ in SAME_AS_BYTES else _identity(key)
                new = row(key, change[0])
                earlier = changes.get(identity)
                old = row(key, change[1]) if earlier is None else earlier[1]
            except Exception as error:
                on_error(no_pair(error, "group_by"), key, change, timestamp, headers)
                return
            if earlier is not None:
                del changes[identity]  # they are in the order of their last updates
            changes[identity] = new, old, timestamp, headers
            if len(changes) > MAX_ROWS:
                held.emit_oldest(context, MAX_ROWS // 2)

        return knowing_old(push, lambda key, key_bytes: key.__class__ in SAME_AS_BYTES and key in changes)

    def _row(self, key: Any, value: Any) -> GroupedRow | None:
        pair = None if value is None else self._selector(key, value)
        if pair is None:
            return None
        group, grouped = pair if pair.__class__ is tuple else pair_of(pair)
        return None if group is None or grouped is None else (group, grouped)

    def emit_held(self, context: NodeContext, limit: int) -> int:
        return self._held.emit(context, limit)

    @property
    def held_bytes(self) -> int:
        return self._held.bytes


def _send(context: NodeContext, changes: list[GroupedChange]) -> None:
    for change in changes:
        _forward(context, *change)


def _forward(
    context: NodeContext, new: GroupedRow | None, old: GroupedRow | None, timestamp: int, headers: Headers | None
) -> None:
    forward = context.forward
    try:
        stays = new is not None and old is not None and _is_same(new[0], old[0])
    except Exception as error:
        context.on_error(error, None, (new, old), timestamp, headers)
        return
    if stays and new is not None and old is not None:
        forward(new[0], (new[1], old[1]), timestamp, headers)
        return
    if old is not None:
        forward(old[0], (None, old[1]), timestamp, headers)
    if new is not None:
        forward(new[0], (new[1], None), timestamp, headers)


class AggregateTable(StoredTableOperator):
    """Subtracts the old row from a group's aggregate, then adds the new one.

    ``add_first(key, row)`` makes an aggregate where there is none; ``add`` and ``subtract`` take
    ``(key, row, aggregate)``.
    """

    def __init__(
        self,
        add_first: Callable[[Any, Any], Any],
        add: Callable[[Any, Any, Any], Any],
        subtract: Callable[[Any, Any, Any], Any],
        store_name: str,
        emit_at_commit: bool,
        send_old_values: bool,
    ) -> None:
        super().__init__(store_name, emit_at_commit, send_old_values)
        self._add_first = add_first
        self._add = add
        self._subtract = subtract

    def bind_to_store(self, context: NodeContext, store: KeyValueStoreImpl, update: Update) -> Push:
        add_first, add, subtract = self._add_first, self._add, self._subtract
        key_bytes_of, read, write = store.key_bytes, store.read, store.write
        from_stored, to_stored, on_error = store.from_stored, store.to_stored, context.on_error
        at_commit, rereads = self._emit_at_commit, self._rereads(store)
        old_is_known = self._old_is_known(context)

        def push(key: Any, change: Any, timestamp: int, headers: Headers | None) -> None:
            new_row, old_row = change
            changed_at = timestamp
            try:
                if key is None:
                    raise _null_key(context.node_name)
                key_bytes = key_bytes_of(key)
                stored, stored_at = read(key_bytes)
                old = aggregate = None if stored is None else from_stored(stored)
                if old_row is not None and old is not None:
                    aggregate = subtract(key, old_row, old)
                    changed_at = max(timestamp, stored_at)
                if new_row is not None:
                    aggregate = add_first(key, new_row) if aggregate is None else add(key, new_row, aggregate)
                    changed_at = max(timestamp, stored_at)
                unchanged = stored if aggregate is old else None
                new_stored = None if aggregate is None else to_stored(key, aggregate, unchanged)
                if rereads and old is not None and not (old_is_known and old_is_known(key, key_bytes)):
                    old = from_stored(stored)
            except Exception as error:
                on_error(error, key, change, timestamp, headers)
                return
            write(key_bytes, new_stored, timestamp if aggregate is None else changed_at)
            if aggregate is None and at_commit:
                changed_at = timestamp
            update(key, key_bytes, aggregate, old, changed_at, headers)

        return push


def _is_same(group: Any, other: Any) -> bool:
    """Says whether groups are one in the bytes of their topic for certain; to Python 1, 1.0 and True are equal, 0.0 and
    -0.0, and what is made of them. Of groups that are taken for two, one is left and the other one entered, which comes
    to the same."""
    kind = group.__class__
    if kind is not other.__class__ or group != other:
        return False
    return kind in _EQUAL_AS_BYTES or repr(group) == repr(other)


def _identity(key: Any) -> Hashable:
    """Returns what is equal for two keys only if their bytes are, for certain; bytes of lists and dictionaries, which
    have no hash. The changes of keys that are taken for two travel one after the other, which comes to the same."""
    try:
        hash(key)
    except TypeError:
        try:
            return marshal.dumps(key, _WITHOUT_REFERENCES)
        except ValueError:
            return object()
    return key, repr(key)


def _null_key(node_name: str) -> StreamsError:
    return StreamsError(
        f"{node_name} got a change of a table without a key; rows of a table have keys: check what feeds it"
    )

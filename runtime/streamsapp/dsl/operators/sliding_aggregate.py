"""Aggregations of a grouped stream by sliding window (KIP-450, Kafka Streams' ``KStreamSlidingWindowAggregate``).

Bound on the polling thread when a task is created; pushed on a processing thread. A window begins at each record less
the time difference (its left window), and one millisecond after each record that another one follows within the
difference (its right window). A record costs a range read of the windows of two time differences, and a write for each
that it belongs to. Aggregates have the timestamp of the latest record in them: so a window shows whether anything lies
in the window beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from streamsapp.dsl.operators.aggregate import NULL_KEY_OR_VALUE
from streamsapp.dsl.operators.forward_updates import Update
from streamsapp.dsl.operators.windowed import WindowedAggregate, WindowInProcess
from streamsapp.dsl.windows import SlidingWindows
from streamsapp.processor.operator import NodeContext, Push
from streamsapp.record import Headers
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.engine.entries import ABSENT, Entry
from streamsapp.state.kinds.window import WindowStoreImpl


class _Touched(NamedTuple):
    """A window that a record changes: the aggregate that it starts from, and whether the record itself belongs to it.
    The aggregate is the window's own or, if the window is new, that of the window beside it."""

    start: int
    base: Entry
    folds: bool = True
    own: bool = True


class SlidingAggregate(WindowedAggregate[SlidingWindows]):
    """Folds a record into the windows around it, and makes the new windows that the record begins."""

    takes_null_values = False
    #: The window right of a record starts after it.
    _starts_ahead_ms = 1

    def _closes_after(self) -> tuple[int, int]:
        # The end of a window belongs to it.
        return self._windows.difference_ms + 1, self._windows.grace_ms

    def start(self, context: NodeContext) -> None:
        super().start(context)
        context.store(self._store_name).keep_recent()

    def _add(self, context: NodeContext, store: WindowStoreImpl, update: Update, expired: Callable[[], object]) -> Push:
        (initializer, fold, _, takes_window), difference = self._aggregation, self._windows.difference_ms
        around: Callable[..., Iterable[_Touched]] = _around
        early: Callable[..., Iterable[_Touched]] = _early
        if takes_window:
            knowing = WindowInProcess(fold, lambda touched: touched[0] + difference)
            fold, around, early = knowing.fold, knowing.each(_around), knowing.each(_early)
        key_bytes_of, near, write = store.key_bytes, store.near, store.write
        from_stored, to_stored = store.from_stored, store.to_stored
        on_error, dropped, grace_ms = context.on_error, context.dropped, self._windows.grace_ms
        at_commit, rereads, true_old = self._emit_at_commit, self._rereads(store), self._true_old(context)
        time = self._time

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None or value is None:
                dropped(NULL_KEY_OR_VALUE)
                return
            if timestamp > (stream_time := time.latest):
                time.latest = stream_time = timestamp
            closed_until = stream_time - grace_ms
            if timestamp + difference < closed_until:
                expired()
                return
            try:
                key_bytes = key_bytes_of(key)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            if timestamp < difference:
                touched = early(near(key_bytes, 0, timestamp + 1), timestamp)
            else:
                first = max(0, timestamp - 2 * difference)
                touched = around(near(key_bytes, first, timestamp + 1, reverse=True), timestamp, difference)
            for start, (stored, stored_at), folds, own in touched:
                end = start + difference
                if folds and end < closed_until:
                    expired()
                    continue
                try:
                    old = initializer() if stored is None else from_stored(stored)
                    new = fold(key, value, old) if folds else old
                    new_stored = None if new is None else to_stored(key, new, stored if new is old else None)
                    if rereads and folds:
                        old = initializer() if stored is None else from_stored(stored)
                except Exception as error:
                    on_error(error, key, value, timestamp, headers)
                    return
                changed_at = max(timestamp, stored_at) if folds else stored_at
                write(key_bytes, start, new_stored, timestamp if new is None else changed_at)
                if not folds or (true_old and stored is None) or (at_commit and not own):
                    old = None  # at commits, what downstream knows of the window
                if at_commit and new is None:
                    changed_at = timestamp
                update(Windowed(key, start, end), (key_bytes, start), new, old, changed_at, headers)

        return push


def _around(found: Iterable[tuple[int, Entry]], timestamp: int, difference: int) -> list[_Touched]:
    """Returns the windows that a record touches. ``found`` are those of its key that start up to two differences before
    it, the latest first."""
    touched: list[_Touched] = []
    starts = set()
    left = right = ABSENT
    left_exists = right_exists = False
    previous = None
    for start, entry in found:
        starts.add(start)
        if start == timestamp + 1:
            right_exists = True
        elif start + difference > timestamp:
            right = entry if right is ABSENT else right
            touched.append(_Touched(start, entry))
        elif start + difference == timestamp:
            left_exists = True
            touched.append(_Touched(start, entry))
            if entry[1] >= timestamp:
                return touched  # a record of this time was here before: all windows exist
            previous = entry[1]
        else:
            left, previous = entry, entry[1]
            break
    if previous is not None and previous + 1 not in starts and previous + 1 + difference >= timestamp:
        touched.append(_Touched(previous + 1, ABSENT))
    if not left_exists:
        holds_previous = previous is not None and timestamp - difference <= previous
        touched.append(_Touched(timestamp - difference, left if holds_previous else ABSENT, own=False))
    if not right_exists and right[1] > timestamp:
        touched.append(_Touched(timestamp + 1, right, folds=False, own=False))
    return touched


def _early(found: Iterable[tuple[int, Entry]], timestamp: int) -> list[_Touched]:
    """Returns the same for a record whose left window would begin before 0: all of these share the window that begins
    at 0. ``found`` comes in order of time."""
    touched: list[_Touched] = []
    starts = set()
    combined = right = ABSENT
    right_exists = False
    previous = None
    for start, entry in found:
        starts.add(start)
        if start == 0:
            combined = entry
            previous = entry[1] if entry[1] < timestamp else None
        elif start <= timestamp:
            right = entry
            touched.append(_Touched(start, entry))
        else:
            right_exists = True
    if right is ABSENT:
        right = combined
    if not right_exists and right[1] > timestamp:
        touched.append(_Touched(timestamp + 1, right, folds=False, own=False))
    if previous is not None and previous + 1 not in starts:
        touched.append(_Touched(previous + 1, ABSENT))
    touched.append(_Touched(0, combined))
    return touched

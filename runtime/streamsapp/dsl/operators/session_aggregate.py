"""Aggregations of a grouped stream by session (Kafka Streams' ``KStreamSessionWindowAggregate``).

Bound on the polling thread when a task is created; pushed on a processing thread. A record costs one serialisation of
its key, a range read of the sessions it may belong to, and a write for each of these and for the session that they
become.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamsapp.dsl.operators.forward_updates import Update
from streamsapp.dsl.operators.windowed import NULL_KEY, WindowedAggregate
from streamsapp.dsl.windows import SessionWindows
from streamsapp.processor.operator import NodeContext, Push
from streamsapp.record import Headers
from streamsapp.serdes.windowed import windowed
from streamsapp.state.kinds.recent_entries import Item
from streamsapp.state.kinds.session import SessionStoreImpl


class SessionAggregate(WindowedAggregate[SessionWindows]):
    """Folds a record into one session, which takes the place of all sessions that the record is near to."""

    def _closes_after(self) -> tuple[int, int]:
        # A session is in its store under its end, which still belongs to it.
        return 1, self._windows.gap_ms + self._windows.grace_ms

    def start(self, context: NodeContext) -> None:
        super().start(context)
        context.store(self._store_name).keep_recent()

    def _add(
        self, context: NodeContext, store: SessionStoreImpl, update: Update, expired: Callable[[], object]
    ) -> Push:
        initializer, fold, merger, _ = self._aggregation
        assert merger is not None
        key_bytes_of, near, write, give_up = store.key_bytes, store.near, store.write, store.give_up
        from_stored, to_stored = store.from_stored, store.to_stored
        on_error, dropped = context.on_error, context.dropped
        at_commit, rereads, true_old = self._emit_at_commit, self._rereads(store), self._true_old(context)
        gap_ms, open_ms = self._windows.gap_ms, self._windows.gap_ms + self._windows.grace_ms
        time = self._time

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None:
                dropped(NULL_KEY)
                return
            if timestamp > (stream_time := time.latest):
                time.latest = stream_time = timestamp
            start = end = timestamp
            told = headers if at_commit else None  # as Kafka Streams' caches have the headers, and updates have none
            merged: list[tuple[Item, Any]] = []
            replaced = epoch = None
            try:
                key_bytes = key_bytes_of(key)
                new = initializer()
                for session in near(key_bytes, timestamp - gap_ms):
                    other_end, other_start, stored, _ = session
                    if other_start > timestamp + gap_ms:
                        break  # sessions of a key do not overlap: later ones start later
                    other = from_stored(stored)
                    new = merger(key, new, other)
                    merged.append((session, other))
                    start = other_start if other_start < start else start  # noqa: FURB136 - calls cost
                    end = other_end if other_end > end else end  # noqa: FURB136
                if end < stream_time - open_ms:
                    expired()
                    return
                new = fold(key, value, new)
                unchanged = merged[0][0][2] if merged and new is merged[0][1] else None
                new_stored = None if new is None else to_stored(key, new, unchanged)
                if rereads:
                    merged = [(session, from_stored(session[2])) for session, _ in merged]
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            if start != end or end != timestamp:
                for session, other in merged:
                    other_end, other_start, _, _ = session
                    give_up(key_bytes, session, timestamp)
                    gone = windowed(key, other_start, other_end)
                    update(gone, (key_bytes, other_start, other_end), None, other, other_end, told)
            elif merged:  # the session of this very moment: others would overlap
                (_, _, _, epoch), other = merged[0]
                replaced = other if true_old else None  # its deletion has to be sent
            write(key_bytes, start, end, new_stored, timestamp, epoch)
            update(windowed(key, start, end), (key_bytes, start, end), new, replaced, end, told)

        return push

"""Deletes the entries of a task's stores whose time to live is over, as its stream time reaches them.

A record that would move the stream time so far is put off until all of them are gone (``native/push/loop.c``), in the
order of their times: so it finds none of them, and what tables send downstream comes before what the record leads to.
Made with the task; used on the processing thread that holds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from streamsapp.state.kinds.expiring import ExpiringStoreImpl, NextDue
from streamsapp.tasks.punctuation import Fire

if TYPE_CHECKING:
    # Which is imported after this where a task's parts are.
    from streamsapp.tasks.record_queue import ProcessingControl


class _Expiring(NamedTuple):
    store: ExpiringStoreImpl
    #: The node whose table is in the store, else its name.
    node: str
    #: Deletes the entry that is over first, and sends its deletion on.
    take_over: Callable[[int], None]


class EntryExpiry(NextDue):
    """The stores of one task whose entries have a time to live. Loops in C read ``next_due`` for every record; it is
    never later than the first time at which an entry is over."""

    __slots__ = ("_stores",)

    def __init__(self) -> None:
        super().__init__()
        self._stores: list[_Expiring] = []
        #: Infinite without such stores: nothing is ever due.
        self.next_due = math.inf

    def begin(
        self,
        stores: Mapping[str, Any],
        tables: Mapping[str, tuple[str, Callable[[int], None]]],
        stream_time: Callable[[], int],
    ) -> None:
        """Takes the stores of a task that begins to process. ``tables`` has the node that keeps a table in a store, and
        the function by which it deletes the row that is over first. ``stream_time`` returns that of the task."""
        self.now = stream_time
        for name, store in stores.items():
            if isinstance(store, ExpiringStoreImpl):
                node, take_over = tables.get(name) or (name, partial(_take_over, store))
                self._stores.append(_Expiring(store, node, take_over))
                store.follow(self)
                # Not known before the stores are read: all are restored by then.
                self.next_due = -1

    def sweep(self, now: int, control: ProcessingControl, limit: int, fire: Fire) -> int:
        """Deletes what is over by now, the earliest first and of equal times what the first store has: up to so many
        entries, unless ``control`` says to stop. Returns how many. If none is left, the next one is due later."""
        swept = 0
        while True:
            first = min(self._stores, key=_due)
            self.next_due = first.store.first_due
            if self.next_due > now or swept >= limit or control.stop:
                return swept
            fire(first.take_over, first.node, int(self.next_due))
            swept += 1


def _due(expiring: _Expiring) -> float:
    return expiring.store.first_due


def _take_over(store: ExpiringStoreImpl, _: int) -> None:
    store.take_over()

"""Sends records that come too late aside, beside what an operator does with them.

Used by operators whose program has a :class:`~streamsapp.dsl.late.Late`; others have nothing of it. Bound on the
polling thread when a task is created; called on a processing thread.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from streamsapp.processor.operator import NodeContext, Push, Reason
from streamsapp.record import Headers


def late_node(name: str) -> str:
    """Returns the name of the node that takes the late records of another one."""
    return f"{name}-late"


class LateRecords:
    """Notes that the record in process came too late for a part of an operator's work, and then sends it aside once,
    as it came."""

    def __init__(self, context: NodeContext, reason: Reason) -> None:
        self._send = context.child(late_node(context.node_name))
        self._dropped = partial(context.dropped, reason)
        self._missed = False

    def miss(self) -> None:
        """Counts the record as dropped, as without a side output, and notes it."""
        self._dropped()
        self._missed = True

    def behind(self, push: Push) -> Push:
        """Wraps the operator's push function: a record that it misses goes aside when it is through."""
        send = self._send

        def push_and_send(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            push(key, value, timestamp, headers)
            if self._missed:
                self._missed = False
                send(key, value, timestamp, headers)

        return push_and_send

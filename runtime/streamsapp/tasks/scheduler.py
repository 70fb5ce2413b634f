"""Chooses the ready task that a free processing thread takes (Kafka Streams threading proposal: the most buffered
first).

Called by the task manager, under its lock, on a processing thread.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Protocol

from streamsapp.tasks.stream_task import StreamTask

#: Picking takes as long with a thousand tasks as with this many. As they come in the order in which they got ready,
#: each gets its turn.
_COMPARED = 32


class TaskScheduler(Protocol):
    """Chooses among tasks that have work; called often, so keep it short."""

    def pick(self, ready: Collection[StreamTask]) -> StreamTask:
        """One of ``ready``, which is never empty and has those first that have been ready longest."""
        ...


class MostBufferedFirst:
    """Chooses two tasks in turn. The task with the most buffered records comes so that no input buffer stays full. The
    task that was ready longest comes so that none waits for the backlog of others. The latter is taken after at most
    two turns for each task that was ready before it."""

    def __init__(self) -> None:
        self._longest_ready_next = False

    def pick(self, ready: Collection[StreamTask]) -> StreamTask:
        longest_ready = next(iter(ready))
        if len(ready) == 1:
            return longest_ready
        self._longest_ready_next = not self._longest_ready_next
        return max(islice(ready, _COMPARED), key=_buffered) if self._longest_ready_next else longest_ready


def _buffered(task: StreamTask) -> int:
    return task.buffered_records

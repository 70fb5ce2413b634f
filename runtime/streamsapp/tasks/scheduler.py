"""Which ready task a free processing thread takes next (seed 000: the most buffered records first; pluggable).

Called by the task manager, under its lock, on a processing thread.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from streamsapp.tasks.stream_task import StreamTask


class TaskScheduler(Protocol):
    """Chooses among tasks that have work; called often, so keep it short."""

    def pick(self, ready: Collection[StreamTask]) -> StreamTask:
        """One of ``ready``, which is never empty."""
        ...


class MostBufferedFirst:
    """The task with the most buffered records, so that no input buffer stays full."""

    def pick(self, ready: Collection[StreamTask]) -> StreamTask:
        if len(ready) == 1:
            return next(iter(ready))
        return max(ready, key=_buffered)


def _buffered(task: StreamTask) -> int:
    return task.buffered_records

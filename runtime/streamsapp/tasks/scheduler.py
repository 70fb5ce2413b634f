"""Which ready task a free processing thread takes next (seed 000: the most buffered records first; pluggable).

Called by the task manager, under its lock, on a processing thread.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Protocol

from streamsapp.tasks.stream_task import StreamTask

#: Picking takes as long with a thousand tasks as with this many; and as they come in the order in which they got ready,
#: each gets its turn.
_COMPARED = 32


class TaskScheduler(Protocol):
    """Chooses among tasks that have work; called often, so keep it short."""

    def pick(self, ready: Collection[StreamTask]) -> StreamTask:
        """One of ``ready``, which is never empty."""
        ...


class MostBufferedFirst:
    """The task with the most buffered records, so that no input buffer stays full; of many, among the longest ready."""

    def pick(self, ready: Collection[StreamTask]) -> StreamTask:
        if len(ready) == 1:
            return next(iter(ready))
        return max(islice(ready, _COMPARED), key=_buffered)


def _buffered(task: StreamTask) -> int:
    return task.buffered_records

"""Counts the entries of tasks' stores, as they are shown with each batch.

RocksDB's own figure costs nothing, but has an entry once more each time it was written, until it compacts: a word that
is counted in every batch is many rows. So stores that are not large are counted, as far as that takes little time.
Used on the thread that runs lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic, thread_time

from streamsapp.record import TaskId
from streamsapp.state.task_stores import TaskStores

#: Entries of a store that is counted, at most: these take some 30 ms.
_MOST = 20_000
#: The part of all time that counting may take, and seconds that it may take at once.
_PART, _AT_ONCE = 0.01, 0.1


@dataclass(frozen=True)
class _Counted:
    #: Moves whenever entries may have changed.
    writes: int
    estimate: int
    rows: int


@dataclass
class StateRows:
    """The rows of the tasks of one lane, as far as they are known."""

    clock: Callable[[], float] = monotonic
    #: CPU of this thread: a busy machine makes nothing dearer.
    cpu: Callable[[], float] = thread_time
    _counted: dict[tuple[TaskId, str], _Counted] = field(default_factory=dict)
    _spent: float = 0.0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def of(self, task: TaskId, stores: TaskStores, statistics: Mapping[str, Mapping[str, int]]) -> int:
        """Returns the committed entries of a task's stores that are on disk, exactly where they could be counted.
        ``statistics`` are those of the stores now."""
        return sum(
            self._rows(task, name, stores, figures)
            for name, figures in statistics.items()
            if "estimate_num_keys" in figures
        )

    def _rows(self, task: TaskId, name: str, stores: TaskStores, figures: Mapping[str, int]) -> int:
        estimate, writes = figures["estimate_num_keys"] + figures["backlog_entries"], figures["written_keys"]
        known = self._counted.get((task, name))
        if known is not None and (known.writes, known.estimate) == (writes, estimate):
            return known.rows
        if estimate > _MOST or self._spent > _AT_ONCE + _PART * (self.clock() - self._began):
            # A row that has come since may or may not have been there before.
            return estimate if known is None else max(0, min(estimate, known.rows + estimate - known.estimate))
        began = self.cpu()
        rows = stores.count(name)
        self._spent += self.cpu() - began
        self._counted[task, name] = _Counted(writes, estimate, rows)
        return rows

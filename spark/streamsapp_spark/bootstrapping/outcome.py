"""Reports what a bootstrap did when it is done: a line for people, a document for programs. Pure.

Used by ``bootstrap`` on the driver's main thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.remote.bootstraps import BootstrapBegun, BootstrapDone


@dataclass(frozen=True)
class Outcome:
    """A bootstrap that is done."""

    application_id: str
    begun: BootstrapBegun
    done: BootstrapDone
    #: That this call took; ``None``: it was done before, and nothing was to do.
    seconds: float | None = None

    @property
    def _records(self) -> int:
        return sum(each.records for each in self.done.tasks)

    @property
    def _offsets(self) -> int:
        return sum(each.until - each.start for each in self.begun.ranges)

    def text(self) -> str:
        tasks = f"{len(self.done.tasks)} tasks"
        if self.seconds is None:
            done_at = self.done.done_at
            return f"{self.application_id}: the bootstrap was done at {done_at}, {tasks}; nothing to do"
        return (
            f"{self.application_id}: {tasks}, {self._records:,} records ({self._offsets:,} offsets of history) in "
            f"{self.seconds:.1f} s, {self._records / max(self.seconds, 0.001):,.0f}/s; instances go on from there"
        )

    def as_data(self) -> dict[str, object]:
        return {
            "applicationId": self.application_id,
            "doneAt": self.done.done_at,
            "seconds": self.seconds,
            "records": self._records,
            "offsets": self._offsets,
            "tasks": [{"task": each.task, "records": each.records} for each in self.done.tasks],
        }

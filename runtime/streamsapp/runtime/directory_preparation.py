"""The interface by which the restoration thread has the directories of its tasks prepared: snapshots are put there.

Called on the restoration thread. Without remote state there is nothing to prepare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streamsapp.record import TopicPartition
from streamsapp.state.engine.missing_blocks import MissingBlocks
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_plan import ConsumedOffset


@dataclass(frozen=True)
class PreparedDirectory:
    """A task's directory has all files, some of them with blocks missing."""

    #: The positions from which the task continues in inputs without offsets in the group.
    inputs: Mapping[TopicPartition, ConsumedOffset] = field(default_factory=dict)
    #: The next changelog offset of each store at these positions. A store that stands further has taken in more than
    #: they cover; empty if that is no obstacle.
    stores: Mapping[str, int] = field(default_factory=dict)
    #: Why it is not known whether there are such positions.
    unknown: Exception | None = None
    #: The blocks that its files lack; ``None`` if they are whole.
    missing: MissingBlocks | None = None
    #: Why the task cannot be restored at all.
    error: Exception | None = None


class DirectoryPreparer(Protocol):
    """Brings snapshots to tasks whose stores are closed, on threads of its own, and hears how they go on."""

    def begin(self, task: StreamTask, done: Callable[[PreparedDirectory], None]) -> bool:
        """Return whether there is anything to prepare; if so, ``done`` is called on another thread at its end."""
        ...

    def promoted(self, task: StreamTask) -> None:
        """A task that is being prepared is waited for now."""
        ...

    def cancel(self, task: StreamTask) -> None:
        """End the preparation; no thread waits for it any more. The next one of its directory begins after it has
        ended."""
        ...

    def complete(self, task: StreamTask) -> None:
        """An active task has all its state."""
        ...

    def damaged(self, task: StreamTask, error: Exception) -> None:
        """Its state is damaged, as ``error`` says, and is about to be wiped. Any thread."""
        ...

    def handed_over(self, task: StreamTask) -> None:
        """An active task that ran here ended at a commit: what it left is as good as a replica's."""
        ...


class _NothingToPrepare:
    """Without remote state."""

    def begin(self, task: StreamTask, done: Callable[[PreparedDirectory], None]) -> bool:
        return False

    def promoted(self, task: StreamTask) -> None:
        """Never called."""

    def cancel(self, task: StreamTask) -> None:
        """Never called."""

    def complete(self, task: StreamTask) -> None:
        """Do nothing: there are no measurements."""

    def damaged(self, task: StreamTask, error: Exception) -> None:
        """Do nothing: the changelog is whole."""

    def handed_over(self, task: StreamTask) -> None:
        """Do nothing: no record says which instance had the directory."""


NOTHING_TO_PREPARE: DirectoryPreparer = _NothingToPrepare()

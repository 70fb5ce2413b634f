"""Listeners and handlers: a running instance reports its news to them, and asks them for decisions.

Restore and standby listeners are called on the restoration thread, state listeners and the uncaught exception handler
on the polling thread.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeAlias

from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.client_state import ClientState


class StateRestoreListener(Protocol):
    """Is notified how active tasks are restored from their changelogs; one listener for all stores (KIP-167).

    Called on the restoration thread: keep it short, since restoring waits for it. Offsets are those of the changelog.
    """

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        """Called when restoring begins; ``ending_offset`` is exclusive."""

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """Called when a batch of ``num_restored`` records was applied; ``batch_end_offset`` is inclusive."""

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """Called when the store is complete, with the number of records that it took."""

    def on_restore_suspended(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """Called when the task was taken away before its store was complete (KIP-869)."""


class SuspendReason(Enum):
    """The reason why a standby task's store is no longer updated (KIP-988)."""

    #: The task becomes active on this instance.
    PROMOTED = "promoted"
    #: The standby task is closed: it goes to another instance, or this one ends.
    MIGRATED = "migrated"


class StandbyUpdateListener(Protocol):
    """Is notified how standby and warm-up tasks follow their changelogs; one listener for all stores (KIP-988).

    Called on the restoration thread: keep it short. Idle changelogs bring no call; how far a standby is behind at any
    time is in ``StreamsRuntime.lags()``.
    """

    def on_update_start(self, topic_partition: TopicPartition, store_name: str, starting_offset: int) -> None:
        """Called before the first batch, with the offset at which updating begins."""

    def on_batch_loaded(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        task_id: TaskId,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int,
    ) -> None:
        """Called when a batch of ``batch_size`` records was applied, up to ``batch_end_offset`` (inclusive); as far as
        is known, the changelog ends at ``current_end_offset``."""

    def on_update_suspended(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        store_offset: int,
        current_end_offset: int,
        reason: SuspendReason,
    ) -> None:
        """Called when updating ends; ``store_offset`` is the offset that the store would have read next."""


class UncaughtExceptionResponse(Enum):
    """The consequence of an exception that nothing else handled (KIP-671)."""

    #: The task starts again from the last commit; the thread goes on.
    REPLACE_THREAD = "replace_thread"
    #: This instance stops.
    SHUTDOWN_CLIENT = "shutdown_client"
    #: Every instance of the application stops.
    SHUTDOWN_APPLICATION = "shutdown_application"


UncaughtExceptionHandler: TypeAlias = Callable[[Exception], UncaughtExceptionResponse]

#: ``(new_state, old_state)``
StateListener: TypeAlias = Callable[[ClientState, ClientState], None]

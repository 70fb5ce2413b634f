"""What a user can be told by a running instance, and what a user can answer.

Restore listeners are called on the restoration thread, state listeners on the polling thread, the uncaught exception
handler on the polling thread.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeAlias

from streamsapp.record import TopicPartition
from streamsapp.runtime.client_state import ClientState


class StateRestoreListener(Protocol):
    """Progress of restoring active tasks from their changelogs; shared by all stores (KIP-167)."""

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        """Restoring begins; ``ending_offset`` is exclusive."""

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """A batch was applied; ``batch_end_offset`` is inclusive. Keep it short: restoring waits."""

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """The store is complete."""

    def on_restore_suspended(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """The task was taken away before its store was complete (KIP-869)."""


class UncaughtExceptionResponse(Enum):
    """What happens after an exception that nothing else handled (KIP-671)."""

    #: The task starts again from the last commit; the thread goes on.
    REPLACE_THREAD = "replace_thread"
    #: This instance stops.
    SHUTDOWN_CLIENT = "shutdown_client"
    #: Every instance of the application stops.
    SHUTDOWN_APPLICATION = "shutdown_application"


UncaughtExceptionHandler: TypeAlias = Callable[[Exception], UncaughtExceptionResponse]

#: ``(new_state, old_state)``
StateListener: TypeAlias = Callable[[ClientState, ClientState], None]

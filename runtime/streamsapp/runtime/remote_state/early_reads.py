"""A task that runs before the files of its snapshot are all here: what it reads is brought, and the rest follows.

Made on the thread that prepares the task's directory, which fills its files when nothing else waits. Stores ask for
blocks on whatever thread reads them: processing, restoration, polling, queries. That thread waits, for a round trip as
a rule. A block that cannot be brought ends the task, which is then restored anew: it has a part of its state.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from streamsapp.clock import Clock
from streamsapp.errors import StateOutOfReachError, StateStoreError, StreamsError, TaskCorruptedError
from streamsapp.record import TaskId
from streamsapp.remote.object_store import ObjectDamagedError, ObjectMissingError, ObjectStoreError
from streamsapp.remote.partial_files import PartialFiles
from streamsapp.runtime.remote_state.precedence import Precedence
from streamsapp.runtime.remote_state.priority_thread_pool import PriorityThreadPool, WorkItem
from streamsapp.runtime.remote_state.restore_progress import PAUSE, STALL_TIMEOUT
from streamsapp.state.engine.missing_blocks import Block

#: Blocks that one read has brought at the same time.
_TOGETHER = 8
#: Seconds for which files are not filled while reads wait, before it is looked again whether they do.
_LET_READ = 0.02


class EarlyReads:
    """Brings the blocks of one task's database, and knows how to go on where that fails: a ``MissingBlocks``."""

    def __init__(
        self, task_id: TaskId, files: PartialFiles, clock: Clock, readers: PriorityThreadPool, precedence: Precedence
    ) -> None:
        """``readers`` and ``precedence`` are those of all tasks of the instance."""
        self.task_id = task_id
        self.files = files
        self._clock = clock
        self._readers = readers
        self._precedence = precedence
        self._closed = threading.Event()
        self._given_up = threading.Lock()
        self._told_at = -math.inf

    def bring(self, blocks: Sequence[Block]) -> bool:
        if len(blocks) == 1:
            return self._bring(blocks[0])
        with ThreadPoolExecutor(min(_TOGETHER, len(blocks)), "early-reads") as pool:
            return any(list(pool.map(self._bring, blocks)))

    def soon(self, work: Callable[[], None]) -> None:
        self._readers.start()
        self._readers.submit(WorkItem(lambda _: work()), 0)

    def when_whole(self, act: Callable[[], None]) -> None:
        self.files.when_whole(act)

    def close(self) -> None:
        self._closed.set()
        self.files.close()

    def fill(self) -> bool:
        """Bring some of what is missing, unless reads wait; whether there may be more. Raises ``TaskCorruptedError``
        where the task cannot go on, and ``StreamsError`` for what may pass."""
        if not self._precedence.begin_filling():
            self.pause(_LET_READ)
            return not self._closed.is_set()
        try:
            return not self._given_up.locked() and self.files.fill()
        except Exception as error:
            if self._closed.is_set():
                return False
            raise self._explained(error) from error
        finally:
            self._precedence.end_filling()

    def give_up(self) -> bool:
        """The rest does not come any more; whether no other thread has found that out before."""
        return self._given_up.acquire(blocking=False)

    def is_worth_telling(self) -> bool:
        """Says whether nothing was told of a fault that lasts for a while."""
        now = self._clock.monotonic()
        if now - self._told_at < STALL_TIMEOUT:
            return False
        self._told_at = now
        return True

    def pause(self, seconds: float) -> None:
        """Wait, but not any longer than the database is open."""
        self._closed.wait(seconds)

    def _bring(self, block: Block) -> bool:
        with self._precedence.reading():
            return self._brought(block)

    def _brought(self, block: Block) -> bool:
        began = self._clock.monotonic()
        while True:
            try:
                return self.files.bring(*block)
            except Exception as error:
                explained = self._explained(error)
                if isinstance(explained, TaskCorruptedError | StateStoreError):
                    raise explained from error
                if self._clock.monotonic() - began > STALL_TIMEOUT:
                    raise StateOutOfReachError(
                        f"task {self.task_id} needs a part of its state that the object store has not given for "
                        f"{STALL_TIMEOUT:.0f} s: {error}; it is restored anew, from its changelog if need be"
                    ) from error
            self.pause(PAUSE)

    def _explained(self, error: Exception) -> StreamsError:
        """Returns the error that says what this one means to the task."""
        if self._closed.is_set():
            return StateStoreError(f"the state of task {self.task_id} is closed; the task is no longer open here")
        if isinstance(error, ObjectMissingError):
            return StateOutOfReachError(
                f"the snapshot that task {self.task_id} reads was deleted meanwhile: {error}; the newest one is next"
            )
        if isinstance(error, ObjectDamagedError):
            return TaskCorruptedError(f"a part of the state of task {self.task_id} is damaged: {error}")
        if isinstance(error, OSError):
            return StateStoreError(
                f"a part of the state of task {self.task_id} cannot be written: {error}; free or enlarge the disk of "
                "the state directory; nothing that was committed is lost"
            )
        if isinstance(error, ObjectStoreError):
            return error
        raise error

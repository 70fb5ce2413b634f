"""Recovery from failures: chooses the tasks that start again from the last commit, and renews the producer.

Called on the polling thread. Failures are noted as they come; ``revive`` is called once no commit is under way, because
a commit under way needs the frozen writes of tasks that failed after they ended their epoch.
"""

from __future__ import annotations

import enum
import logging

from streamsapp.collector.record_collector import RecordCollector
from streamsapp.errors import ReplicaLostError, StateOutOfReachError, StreamsError, TaskCorruptedError
from streamsapp.runtime.instance_tasks import InstanceTasks
from streamsapp.runtime.restoration import RestorationThread
from streamsapp.runtime.set_aside import SetAside
from streamsapp.runtime.streams_producer import StreamsProducer
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager

log = logging.getLogger(__name__)

#: How long to wait for the threads to let go of their tasks before reviving them, in seconds.
STANDSTILL = 30.0


class UncommittedOutput(enum.Enum):
    """The condition of the output since the last commit."""

    #: It can be committed.
    SOUND = "sound"
    #: It is lost: all tasks go on from the last commit, with a new producer.
    LOST = "lost"
    #: It is lost, and other instances run the tasks.
    TAKEN_OVER = "taken over"


class Recovery:
    """Remembers what failed, and starts it again."""

    def __init__(
        self,
        instance_tasks: InstanceTasks,
        tasks: TaskManager,
        collector: RecordCollector,
        producer: StreamsProducer,
        restoration: RestorationThread,
        set_aside: SetAside,
        *,
        exactly_once: bool,
    ) -> None:
        self._set_aside = set_aside
        self._instance_tasks = instance_tasks
        self._tasks = tasks
        self._collector = collector
        self._producer = producer
        self._restoration = restoration
        self._exactly_once = exactly_once
        self._sent = UncommittedOutput.SOUND
        self._failed: list[StreamTask] = []
        self._corrupted: list[StreamTask] = []

    @property
    def sound(self) -> bool:
        """True if the records sent since the last commit can be committed."""
        return self._sent is UncommittedOutput.SOUND

    def task_failed(self, task: StreamTask) -> None:
        """Start the task again; under exactly once it takes the transaction with it, unless it is a replica."""
        self._failed.append(task)
        if self._exactly_once and task.role is TaskRole.ACTIVE:
            self.lost()

    def failed_alone(self, task: StreamTask, error: BaseException) -> None:
        """Start the task again, and perhaps set its sub-topology aside; nothing of it is in the transaction."""
        self._failed.append(task)
        self._set_aside.failed(task.id.subtopology, f"{type(error).__name__}: {error}")

    def task_corrupted(self, task: StreamTask, error: TaskCorruptedError) -> None:
        """Its state is wiped. The records that it sent since the last commit are in the open transaction."""
        if isinstance(error, StateOutOfReachError):
            log.warning("%s", error)
        elif not isinstance(error, ReplicaLostError):
            self._restoration.damaged(task, error)
        self._corrupted.append(task)
        if self._exactly_once and task.initialized:
            self.lost()

    def lost(self) -> None:
        """Start all tasks again from the last commit."""
        if self.sound:
            self._sent = UncommittedOutput.LOST

    def taken_over(self) -> None:
        """Other instances run the tasks: here they stop without committing."""
        self._sent = UncommittedOutput.TAKEN_OVER

    def revive(self) -> None:
        """Start again what failed."""
        if self._corrupted:
            corrupted, self._corrupted = self._corrupted, []
            self._instance_tasks.revive(corrupted, wipe=True)
        if not self.sound:
            self._revive_all()
        elif self._failed:
            failed, self._failed = self._failed, []
            self._instance_tasks.revive(failed)

    def _revive_all(self) -> None:
        if not self._tasks.stand_still(STANDSTILL):
            raise StreamsError("tasks did not stop to be revived; a processor hangs")
        self._producer.close()
        self._collector.reset(self._tasks.abandon_commit())
        taken_over = self._sent is UncommittedOutput.TAKEN_OVER
        if taken_over:
            # Before the producer is started, which may take long.
            self._instance_tasks.close(self._instance_tasks.active)
            self._sent = UncommittedOutput.LOST
        self._producer.replace()
        if not taken_over:
            # A task that a commit was begun without has nothing in it, and has not come back.
            stuck = set(self._tasks.stuck)
            self._instance_tasks.revive([task for task in self._instance_tasks.active if task not in stuck])
        failed = (*self._failed, *self._restoration.take_dropped())
        self._instance_tasks.revive([task for task in failed if task.role is not TaskRole.ACTIVE])
        self._failed, self._sent = [], UncommittedOutput.SOUND
        self._tasks.go_on()

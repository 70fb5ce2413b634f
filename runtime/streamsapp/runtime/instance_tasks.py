"""The life of this instance's tasks: created from an assignment, restored, run, recycled, revived, closed.

Called on the polling thread only. A task goes to the restoration thread and comes back from it by queue; afterwards it
is at the task manager, and never at both (Kafka Streams threading proposal). Replicas stay at the restoration thread. A
task that changes between active and standby keeps its stores open.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from streamsapp.deadline import ClosingTime
from streamsapp.errors import StateStoreError
from streamsapp.membership.api import Holdings
from streamsapp.record import TaskId
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.assignment_changes import changes
from streamsapp.runtime.input_feeder import InputFeeder
from streamsapp.runtime.remote_state.snapshots import Snapshots
from streamsapp.runtime.restoration import RestorationThread
from streamsapp.tasks.alignment import TimeAlignment
from streamsapp.tasks.assembly import TaskAssembly
from streamsapp.tasks.states import TaskRole, TaskState
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager

log = logging.getLogger(__name__)

#: How long a thread may take to let go of a task, in seconds.
LET_GO = 30.0
#: How long closing waits for last snapshots, in seconds.
LAST_SNAPSHOTS = 30.0


#: Of an assignment in which no task goes on at its heir at once.
NO_CUTS: Mapping[TaskId, int] = MappingProxyType({})


class GivenUp(NamedTuple):
    """The tasks that an instance does not have any more."""

    #: Some of them stand still until the group has assigned them anew.
    waited_for: bool
    #: There are any; the others go on at their heirs.
    handed_over: bool


class InstanceTasks:
    """Every task this instance owns, wherever it is."""

    def __init__(
        self,
        assembly: TaskAssembly,
        directory: Path,
        feeder: InputFeeder,
        tasks: TaskManager,
        restoration: RestorationThread,
        closing: ClosingTime,
        snapshots: Snapshots | None = None,
    ) -> None:
        """``directory``: below it every task of the application keeps its state in one of its own."""
        self._assembly = assembly
        self._directory = directory
        self._feeder = feeder
        self._tasks = tasks
        self._restoration = restoration
        self._closing = closing
        self._snapshots = snapshots
        #: Keeps tasks together in stream time.
        self.alignment = TimeAlignment()
        #: All tasks by id, replicas too; read by status and metrics.
        self.all: dict[TaskId, StreamTask] = {}
        #: Active tasks that go to other instances when they are committed, and what becomes of them here.
        self.giving_up: Mapping[TaskId, TaskRole | None] = {}
        #: A task was handed over and closed before its last commit was through: the group has to see to it.
        self._left_in_doubt = False
        self._layout: ApplicationLayout | None = None

    def on_disk(self) -> frozenset[TaskId]:
        """Tasks that have a directory here, of whatever age."""
        names = [each.name for each in self._directory.glob("*_*")]
        return frozenset(TaskId.parse(name) for name in names if _TASK_DIRECTORY.fullmatch(name))

    @property
    def active(self) -> list[StreamTask]:
        """The tasks that this instance processes or restores in order to process them."""
        return [task for task in list(self.all.values()) if task.role is TaskRole.ACTIVE]

    def holdings(self, generation: int) -> Holdings:
        """The holdings that this instance reports to the group when it joins; ``generation``: of the last assignment.
        Called on the membership's thread."""
        tasks = list(self.all.values())
        return Holdings(
            generation=generation,
            active=frozenset(
                task.id for task in tasks if task.role is TaskRole.ACTIVE and not task.control.handed_over
            ),
            lags={task.id: self._restoration.reading.lag(task) for task in tasks if task.role is not TaskRole.ACTIVE},
            on_disk=self.on_disk() - {task.id for task in tasks},
        )

    def pause(self, *, paused: bool) -> None:
        """Stop or resume processing and replicas."""
        self._restoration.paused = paused
        (self._tasks.pause if paused else self._tasks.resume)()

    # ---- assigned ----------------------------------------------------------------------------------------------

    def assign(
        self,
        layout: ApplicationLayout,
        wanted: Mapping[TaskId, TaskRole],
        moving: Collection[TaskId] = (),
        cuts: Mapping[TaskId, int] = NO_CUTS,
    ) -> None:
        """Take these roles. Tasks that go to others stop, and are given up when they are at rest; what is new starts at
        once; all others are not touched. Tasks that are ``moving`` may come here next. ``cuts``: the numbers with which
        tasks are committed for the last time, by task."""
        if any(task_id not in self.all or self.all[task_id].role is not TaskRole.ACTIVE for task_id in moving):
            self._feeder.expect_tasks()
        self._layout = layout
        # A task that was handed over and comes back is made anew: its heir may have run it meanwhile.
        altered = [
            each.id
            for each in self.all.values()
            if each.id in wanted and (each.control.handed_over or _reads_others(each, layout))
        ]
        for task in self.all.values():
            task.control.cut = 0
        changed = changes({task_id: task.role for task_id, task in self.all.items()}, wanted, altered)
        self.giving_up = changed.given_up
        self._tasks.retire(changed.given_up)
        for task_id in changed.given_up:  # from now on it takes no more records
            self._end_with(self.all[task_id], cuts.get(task_id, 0))
        for task_id, role in changed.renamed.items():
            self.all[task_id].role = role
        self.close([self.all[task_id] for task_id in sorted(changed.dropped)])
        promoted = [self.all[task_id].recycled(TaskRole.ACTIVE) for task_id in sorted(changed.promoted)]
        created = [self._create(task_id, role) for task_id, role in changed.created.items()]
        for task in promoted:
            self.all[task.id] = task
            self._restoration.promote(task)
        for task in created:
            self.all[task.id] = task
            self._restoration.add(task)

    def _end_with(self, task: StreamTask, cut: int) -> None:
        if cut and task.initialized and not task.control.handed_over:
            task.control.cut = cut
            task.touched = True  # or the last commit would leave out what has nothing new

    def at_rest(self) -> bool:
        """Return whether nothing is left to be committed of the tasks that go to others."""
        return self._tasks.at_rest(self.giving_up)

    def give_up(self) -> GivenUp:
        """The tasks that go to others are committed: close them, or keep their stores as replicas. Tasks that read
        other topics now begin again. Returns which of them others wait for."""
        leaving = [self.all[task_id] for task_id in self.giving_up]
        staying = {task.id: role for task in leaving if (role := self.giving_up[task.id]) is not None}
        self.giving_up = {}
        replicas = {
            task.id
            for task in leaving
            if staying.get(task.id, TaskRole.ACTIVE) is not TaskRole.ACTIVE and task.state is TaskState.RUNNING
        }
        self.close([task for task in leaving if task.id not in replicas], clean=True)
        demoted = [self.all[task_id] for task_id in sorted(replicas)]
        self._detach(demoted)
        recycled = {task.id: task.recycled(staying[task.id]) for task in demoted}
        for task_id, role in staying.items():
            self.all[task_id] = recycled.get(task_id) or self._create(task_id, role)
            self._restoration.add(self.all[task_id])
        left = [task for task in leaving if staying.get(task.id) is not TaskRole.ACTIVE]
        return GivenUp(waited_for=any(not task.control.handed_over for task in left), handed_over=bool(left))

    def _create(self, task_id: TaskId, role: TaskRole) -> StreamTask:
        assert self._layout is not None
        plan = self._layout.plans[task_id]
        return self._assembly.task(plan, self._directory / str(task_id), role)

    # ---- restored ----------------------------------------------------------------------------------------------

    def take_restored(self) -> bool:
        """Run the tasks whose stores are complete; whether there were any."""
        restored = []
        while not self._restoration.restored.empty():
            task = self._restoration.restored.get_nowait()
            if self.all.get(task.id) is task:
                restored.append(task)
        if not restored:
            return False
        for task in restored:
            task.initialize()
            inputs = {each: (at.offset, at.metadata) for each, at in task.start_offsets.items()}
            task.stores.restored(task.changelog_positions, inputs)
            self.alignment.add(task)
            self._tasks.add(task)
            if self._snapshots is not None:
                self._snapshots.own(task)
        self._tasks.retire(self.giving_up)
        self._feeder.add(restored)
        return True

    @property
    def all_running(self) -> bool:
        """True if no active task is being created or restored."""
        return all(task.state is TaskState.RUNNING for task in self.active)

    # ---- failed ------------------------------------------------------------------------------------------------

    def revive(self, tasks: Iterable[StreamTask], *, wipe: bool = False) -> None:
        """Start tasks again from the last commit; no thread holds them and no commit of theirs is under way.

        Each goes through the restoration thread once more: whether the last commit went through may be unknown, and the
        changelog has the answer.
        """
        # A task that failed twice, or was taken away, is left out: what runs under its id now is sound.
        sound = [task for task in dict.fromkeys(tasks) if self.all.get(task.id) is task]
        self._detach(sound)
        self._restoration.close(sound, wipe=wipe)
        for task in sound:
            if task.control.handed_over:  # it may be its heir's: the group knows that
                self._left_in_doubt = True
                self._forget(task)
                continue
            self.all[task.id] = self._create(task.id, task.role)
            self._restoration.add(self.all[task.id])
        self._tasks.retire(self.giving_up)

    def take_in_doubt(self) -> bool:
        """Return whether tasks were closed that may be their heirs' or nobody's; says so once."""
        in_doubt, self._left_in_doubt = self._left_in_doubt, False
        return in_doubt

    # ---- closed ------------------------------------------------------------------------------------------------

    def close(self, tasks: Iterable[StreamTask], *, clean: bool = False) -> None:
        """Close tasks wherever they are; what they did since the last commit is dropped. Their stores are closed by the
        restoration thread, in its turn: that takes milliseconds each. ``clean`` says that no other instance has them
        yet."""
        closing = list(tasks)
        for task in closing:
            self._left_now(task.id)
        self._detach(closing)
        self._restoration.close(closing, clean=clean)
        for task in closing:
            self._forget(task)

    def _forget(self, task: StreamTask) -> None:
        self.all.pop(task.id, None)
        self.giving_up = {task_id: role for task_id, role in self.giving_up.items() if task_id in self.all}

    def _left_now(self, task_id: TaskId) -> None:
        """Directories are cleaned up by their age: that of a task without input is old when the task leaves, and still
        open."""
        with suppress(FileNotFoundError):
            os.utime(self._directory / str(task_id))

    def request_snapshots(self) -> None:
        """Have a snapshot of every active task taken soon; no thread waits for them."""
        if self._snapshots is not None:
            self._snapshots.request_all()

    def last_snapshots(self) -> None:
        """The instance is about to end, in good order: the object store gets the state of the last commit."""
        timeout = self._closing.remote.left(LAST_SNAPSHOTS)
        if self._snapshots is not None and timeout > 0 and not self._snapshots.take_all(timeout):
            log.warning("not every task got a last snapshot; what is missing is read from the changelogs")

    def close_all(self, *, clean: bool) -> None:
        """The instance ends, in good order or not: no thread processes or feeds the tasks from here on. Their stores
        are being closed."""
        self.close(self.all.values(), clean=clean)

    def wait_until_closed(self) -> None:
        """Returns when every store is closed."""
        if not self._restoration.wait_until_done(self._closing.end.left(LET_GO, part=0.5), self._closing.end):
            raise StateStoreError("the restoration thread does not come to an end; stores may be open")

    def _detach(self, tasks: Collection[StreamTask]) -> None:
        """Take tasks away from the threads that process and feed them."""
        for task in tasks:
            if self._snapshots is not None:
                self._snapshots.release(task)
            self._tasks.remove(task.id, self._closing.end.left(LET_GO, part=0.5))
            self._close_user_code(task)
        self._feeder.remove(tasks)

    def _close_user_code(self, task: StreamTask) -> None:
        try:
            task.close_user_code()
        except Exception:
            log.exception("task %s: a processor raised in close(); going on", task.id)


def _reads_others(task: StreamTask, layout: ApplicationLayout) -> bool:
    """Return whether the task reads other topics than it did: some that match its patterns came, or are gone."""
    return task.plan.inputs.keys() != layout.plans[task.id].inputs.keys()


_TASK_DIRECTORY = re.compile(r"\d+_\d+")

"""A process that runs lanes: the tasks it has, their stores, and the clients they share.

Made once per process and kept for as long as it lives. So stores stay open, producers stay known to the broker, and the
consumer has fetched ahead when the next batch comes. ``run`` is called on one thread; the threads that restore tasks
and take their snapshots are an instance's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import NoReturn, TypeVar

from streamsapp.clock import SystemClock
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.deadline import ClosingTime
from streamsapp.errors import StreamsError, TaskCorruptedError
from streamsapp.kafka.refusals import Refusals
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.membership.assignor.assignor import HighAvailabilityTaskAssignor
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.snapshot_writer import SnapshotFencedError
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.changelog_retention import ChangelogRetention
from streamsapp.runtime.extensions import Extensions
from streamsapp.runtime.instance_context import InstanceContext
from streamsapp.runtime.micro_batches.inputs import LaneInputs
from streamsapp.runtime.micro_batches.lane import Lane, MovedOnError
from streamsapp.runtime.micro_batches.model import LaneOrder, LaneReport, TaskOrder
from streamsapp.runtime.process_settings import CYCLIC_GC
from streamsapp.runtime.state_components import StateComponents
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.tasks.assembly import TaskAssembly
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.topology.builder import Topology

log = logging.getLogger(__name__)

T = TypeVar("T")

#: The time between the beginnings of two commits of an open order, in seconds.
_COMMITS = 0.05
#: The time between two looks at what other threads have ended, in seconds.
_LOOK = 0.05
#: The time that closing tasks' stores may take, and that last snapshots may be refused, in seconds.
_CLOSE, _LAST_SNAPSHOTS = 60.0, 30.0


@dataclass
class _Stretch:
    """An open order from one report to the next."""

    order: LaneOrder
    starts: Mapping[TopicPartition, int]
    seconds: float = 0.0
    restore_seconds: float = 0.0
    commit_seconds: list[float] = field(default_factory=list)
    #: Records were fetched that its last commit did not take.
    has_more: bool = False


class LaneProcess:
    """Runs whatever lane it is given."""

    def __init__(self, topology: Topology, config: StreamsConfig, layout: ApplicationLayout) -> None:
        """``config.state_dir`` is this process's alone."""
        self._config = config
        self._layout = layout
        self._clock = SystemClock()
        self._failures: SimpleQueue[ThreadFailure] = SimpleQueue()
        self._closing = ClosingTime(self._clock)
        self._admin = TopicAdmin(client_properties.admin(config))
        self._retention = ChangelogRetention(self._admin, self._clock)
        extensions = Extensions(MostBufferedFirst(), HighAvailabilityTaskAssignor(), _no_handler)
        context = InstanceContext(config, self._clock, extensions, self._admin, self._closing, self._failures)
        self._stores = StateComponents(topology, context, lambda: True)
        self._stores.lock()
        self._inputs = LaneInputs(config, self._clock)
        self._tasks: dict[TaskId, StreamTask] = {}
        self._lanes: dict[int, Lane] = {}
        #: Of lanes that have failed here.
        self._refusals: dict[int, Refusals] = {}
        self._division = 0
        CYCLIC_GC.change()
        for thread in self._stores.threads:
            thread.start()
        self._assembly = TaskAssembly(config, self._stores.resources, self._clock, self._global_stores())

    def run(
        self, order: LaneOrder, alive: Callable[[], object] = bool, check: Callable[[], object] = bool
    ) -> LaneReport:
        """Carry out the order and commit it. ``alive`` is called often while work goes on, ``check`` when a lane is
        opened: it raises when the driver that gave the order is not the right one any more.

        On any failure, the lane's tasks are closed, and nothing of the batch counts: the next process that gets the
        order begins at the offsets that the group has committed.
        """
        return self._tried(order, lambda: self._run(order, alive, check))

    def run_on(
        self,
        orders: Sequence[LaneOrder],
        seconds: float,
        alive: Callable[[], object] = bool,
        check: Callable[[], object] = bool,
    ) -> list[LaneReport]:
        """Read on in the lanes of open orders for so many seconds, and commit what comes, each lane in turn. Every
        commit is a batch as ``run`` has one: of the tasks that have something to do, up to what was fetched, or as many
        records as the order allows. Returns a report of each lane. ``alive``, ``check`` and failures are those of
        ``run``; other lanes have committed what they did."""
        stretches = [_Stretch(order, order.starts) for order in orders]
        until = time.monotonic() + seconds
        while True:
            began = time.monotonic()
            committed = [self._tried(each.order, partial(self._commit_due, each, alive, check)) for each in stretches]
            now = time.monotonic()
            if now >= until:
                return [self._told(each) for each in stretches]
            has_more = any(each.has_more for each in stretches)
            if any(committed) and not has_more:
                time.sleep(min(max(0.0, began + _COMMITS - now), until - now))
            self._inputs.fetch_on(0.0 if has_more else _COMMITS, wait=not has_more)

    def _tried(self, order: LaneOrder, run: Callable[[], T]) -> T:
        """Once more, if others had the lane or state was damaged, with the tasks restored."""
        try:
            self._see_to_division(order.division)
            try:
                self._take_failures(order.number)
                return run()
            except (MovedOnError, TaskCorruptedError) as error:
                log.info("lane %d: %s; its tasks are restored", order.number, error)
                # The error does not name the task that met damage; restoring all takes little longer.
                self._drop(order.number, wipe=isinstance(error, TaskCorruptedError))
                return run()
        except BaseException:
            self._refusals.setdefault(order.number, Refusals())
            self._drop(order.number)
            raise

    def _see_to_division(self, division: int) -> None:
        """Tasks lie in other lanes after each division. Lanes that were not given up before had no process any more, as
        far as the driver knew."""
        if division != self._division:
            for number in list(self._lanes):
                self._drop(number)
            self._division = division

    def close(self) -> None:
        """End in a process that goes on. Uncommitted work is dropped."""
        for number in list(self._lanes):
            self._drop(number)
        if self._stores.remote is not None:
            self._stores.remote.stop(self._closing.end)
        self._stores.restoration.stop()
        if self._stores.global_thread is not None:
            self._stores.global_thread.stop()
        for thread in self._stores.threads:
            thread.join(_CLOSE)
        self._inputs.close()
        if not any(thread.is_alive() for thread in self._stores.threads):
            self._admin.close()
        self._stores.release()
        CYCLIC_GC.restore()

    def _run(self, order: LaneOrder, alive: Callable[[], object], check: Callable[[], object]) -> LaneReport:
        began = time.monotonic()
        lane = self._lane(order.number, check)
        tasks = self._opened(lane, order.tasks, alive)
        restored, seconds = time.monotonic(), 0.0
        if tasks:
            lane.begin(tasks, order.starts)
            lane.process(tasks, order, alive)
            seconds = lane.commit(tasks)
            self._retention.see_to(tasks)
        reports = tuple(lane.report(task) for task in tasks)
        took = time.monotonic() - began
        published = self._give_up(lane, alive) if order.gives_up else frozenset[TaskId]()
        return LaneReport(order.number, reports, took, restored - began, seconds, self._outage(), published)

    def _commit_due(self, stretch: _Stretch, alive: Callable[[], object], check: Callable[[], object]) -> bool:
        """One commit of an open order, if any of its tasks has something to do; returns whether there was one."""
        began = time.monotonic()
        lane = self._lane(stretch.order.number, check)
        new = {order.id for order in stretch.order.tasks if order.id not in self._tasks}
        tasks = self._opened(lane, stretch.order.tasks, alive)
        restored = time.monotonic()
        stretch.has_more = self._inputs.give_all(tasks, stretch.order.commit_records)
        due = [task for task in tasks if task.id in new or lane.is_due(task)]
        if due:
            lane.begin(due, stretch.starts)
            lane.process_given(due, alive)
            stretch.commit_seconds.append(lane.commit(due))
            self._retention.see_to(due)
            stretch.restore_seconds += restored - began
            stretch.seconds += time.monotonic() - began
        return bool(due)

    def _told(self, stretch: _Stretch) -> LaneReport:
        number, commits = stretch.order.number, stretch.commit_seconds
        lane = self._lanes.get(number)  # none is left where another lane's turn has found damage in it
        tasks = [] if lane is None else [self._tasks[each] for each in sorted(lane.tasks)]
        reports = () if lane is None else tuple(lane.report(task) for task in tasks if lane.has_news(task))
        mean = sum(commits) / len(commits) if commits else 0.0
        return LaneReport(number, reports, stretch.seconds, stretch.restore_seconds, mean, self._outage())

    def _outage(self) -> tuple[int, str] | None:
        outage = None if self._stores.remote is None else self._stores.remote.snapshots.outage
        if outage is None:
            return None
        return self._clock.now_ms() - int(1000 * (self._clock.monotonic() - outage[0])), outage[1]

    def _lane(self, number: int, check: Callable[[], object]) -> Lane:
        """Made first of all: the process that ran these tasks before cannot write once their changelogs are read. That
        process may be of the next driver. It would then restore them in vain, or go on if it has divided tasks into
        other lanes, so that both count."""
        if number not in self._lanes:
            check()  # so that no process is fenced in vain
            refusals = self._refusals.get(number)
            self._lanes[number] = Lane(number, self._config, self._layout, self._inputs, self._clock, refusals)
            # A driver that takes over from now on finds this lane and fences it. An earlier takeover shows here.
            check()
        return self._lanes[number]

    # ---- tasks -------------------------------------------------------------------------------------------------

    def _opened(self, lane: Lane, orders: Sequence[TaskOrder], alive: Callable[[], object]) -> list[StreamTask]:
        """The tasks, restored; tasks that are here already stay as they are."""
        new = {order.id: order for order in orders if order.id not in self._tasks}
        for task_id in new:
            directory = self._stores.directory / str(task_id)
            task = self._tasks[task_id] = self._assembly.task(self._layout.plans[task_id], directory)
            lane.tasks.add(task_id)
            self._stores.restoration.add(task)
        missing = set(new)
        while missing:
            with suppress(Empty):
                task = self._stores.restoration.restored.get(timeout=_LOOK)
                if self._tasks.get(task.id) is task:
                    self._start(lane, task, new[task.id])
                    missing.discard(task.id)
            self._take_failures(lane.number)
            alive()
        return [self._tasks[order.id] for order in orders]

    def _start(self, lane: Lane, task: StreamTask, order: TaskOrder) -> None:
        task.initialize()
        inputs = {each: (at.offset, at.metadata) for each, at in task.start_offsets.items()}
        for partition, at in inputs.items():
            (lane.committed if task.start_offsets[partition].in_group else lane.adopted)[partition] = at
        task.stores.restored(task.changelog_positions, inputs)
        if self._stores.remote is not None:
            self._stores.remote.snapshots.own(task)
        starts = {each: target.start for each, target in order.targets.items()}
        self._inputs.add(task, starts | {each: at.offset for each, at in task.start_offsets.items()})

    def _drop(self, number: int, *, wipe: bool = False) -> None:
        """Close a lane and its tasks; uncommitted work is gone."""
        lane = self._lanes.pop(number, None)
        if lane is not None:
            self._close(lane.tasks, clean=False, wipe=wipe)
            lane.close()

    def _close(self, task_ids: Iterable[TaskId], *, clean: bool, wipe: bool = False) -> None:
        leaving = [self._tasks.pop(task_id) for task_id in list(task_ids) if task_id in self._tasks]
        for task in leaving:
            if self._stores.remote is not None:
                self._stores.remote.snapshots.release(task)
            self._inputs.remove(task)
            try:
                task.close_user_code()
            except Exception:
                log.exception("task %s: a processor raised in close(); going on", task.id)
        self._stores.restoration.close(leaving, wipe=wipe, clean=clean)
        if leaving and not self._stores.restoration.wait_until_done(_CLOSE, self._closing.end):
            raise StreamsError("the restoration thread does not come to an end; stores may be open")

    def _give_up(self, lane: Lane, alive: Callable[[], object]) -> frozenset[TaskId]:
        """Close the lane's tasks in good order; returns those whose state the object store has."""
        published = self._published(lane, alive)
        self._close(lane.tasks, clean=True)
        del self._lanes[lane.number]
        lane.close()
        return published

    def _published(self, lane: Lane, alive: Callable[[], object]) -> frozenset[TaskId]:
        if self._stores.remote is None:
            return frozenset()
        snapshots = self._stores.remote.snapshots
        if not snapshots.take(lane.tasks, _LAST_SNAPSHOTS, alive):
            log.warning("not every task got a last snapshot; what is missing is read from the changelogs")
            return frozenset()
        return frozenset(each for each in lane.tasks if snapshots.of(each) is not None)

    # ---- threads -----------------------------------------------------------------------------------------------

    def _global_stores(self) -> Mapping[str, object]:
        """Complete before any task reads them; they follow their topics from then on."""
        thread = self._stores.global_thread
        if thread is None:
            return {}
        thread.begin()
        while not thread.restored.wait(_LOOK):
            self._take_failures()
        return thread.stores

    def _take_failures(self, running: int | None = None) -> None:
        """Raise the failures that other threads could not go on after. A task that is damaged, or that others have
        claimed, costs its lane, and no other one: it is opened anew when its turn comes, unless it is the one that is
        ``running``."""
        with suppress(Empty):
            while True:
                failure = self._failures.get_nowait()
                task = None if failure.task_id is None else self._tasks.get(failure.task_id)
                damaged = isinstance(failure.error, TaskCorruptedError) and task is not None
                if not (damaged or isinstance(failure.error, SnapshotFencedError)):
                    raise failure.error
                if task is None:
                    continue
                if isinstance(failure.error, TaskCorruptedError):
                    self._stores.restoration.damaged(task, failure.error)
                [lane] = (each.number for each in self._lanes.values() if task.id in each.tasks)
                if lane == running:
                    raise failure.error if damaged else MovedOnError(str(failure.error))
                log.info("lane %d: %s; its tasks are restored", lane, failure.error)
                self._drop(lane, wipe=damaged)


def _no_handler(error: Exception) -> NoReturn:
    raise error

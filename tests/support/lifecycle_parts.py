"""An instance's lifecycle over fakes of its tasks, its membership and its clients.

Called by the tests of the runtime.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterable, Mapping
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

from streamsapp import TaskId, TopicPartition, UncaughtExceptionResponse
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.deadline import ClosingTime
from streamsapp.membership.api import Holdings, News
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.application_topics import ApplicationTopics
from streamsapp.runtime.client_state import StateHolder
from streamsapp.runtime.group_follower import GroupFollower
from streamsapp.runtime.instance_tasks import NO_CUTS, GivenUp
from streamsapp.runtime.layouts import Layouts
from streamsapp.runtime.lifecycle import Lifecycle
from streamsapp.runtime.recovery import Recovery
from streamsapp.runtime.set_aside import SetAside
from streamsapp.runtime.streams_producer import StreamsProducer
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.runtime.uncaught_exceptions import UncaughtExceptions
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.testing import MockClock
from task_parts import config, task_of, through

REPLACE, SHUT_DOWN = UncaughtExceptionResponse.REPLACE_THREAD, UncaughtExceptionResponse.SHUTDOWN_CLIENT


class FakeProducer:
    """Remembers whether it was started and closed."""

    def __init__(self, *_: object, reports: bool = True, **__: object) -> None:
        self.reports = reports
        self.started = self.closed = False

    def start(self) -> None:
        self.started = True

    def abort(self, within: float) -> None:
        """Nothing was sent."""

    def close(self) -> None:
        self.closed = True


class FakeInstanceTasks:
    """Two running tasks; writes down what is revived, and what it and the membership are asked at the end."""

    all_running = True

    def __init__(self, tasks: TaskManager, asked: list[str]) -> None:
        self._tasks = tasks
        self._asked = asked
        self.all: dict[TaskId, StreamTask] = {}
        for number in range(2):
            task = task_of(through(), number)
            self.all[task.id] = task
            tasks.add(task)
        self.revived: list[str] = []
        self.closed: list[str] = []
        self.giving_up: dict[TaskId, None] = {}
        self.assigned: list[Mapping[TaskId, TaskRole]] = []
        self.snapshots_asked_for = 0

    def request_snapshots(self) -> None:
        self.snapshots_asked_for += 1

    def assign(
        self,
        layout: ApplicationLayout,
        wanted: Mapping[TaskId, TaskRole],
        moving: Collection[TaskId] = (),
        cuts: Mapping[TaskId, int] = NO_CUTS,
    ) -> None:
        self.assigned.append(wanted)

    def at_rest(self) -> bool:
        return self._tasks.at_rest(self.giving_up)

    def holdings(self, generation: int) -> Holdings:
        return Holdings(generation)

    def take_in_doubt(self) -> bool:
        return False

    def give_up(self) -> GivenUp:
        left = [self.all.pop(task_id) for task_id in self.giving_up]
        self.giving_up = {}
        return GivenUp(waited_for=any(not task.control.handed_over for task in left), handed_over=bool(left))

    def close(self, tasks: Iterable[StreamTask]) -> None:
        self.closed += [str(task.id) for task in tasks]

    def last_snapshots(self) -> None:
        self._asked.append("last snapshots")

    def close_all(self, *, clean: bool) -> None:
        self._asked.append("close")

    def wait_until_closed(self) -> None:
        self._asked.append("wait until closed")

    def revive(self, tasks: Iterable[StreamTask], *, wipe: bool = False) -> None:
        self.revived += [f"{task.id}{' wiped' if wipe else ''}" for task in tasks]

    @property
    def active(self) -> list[StreamTask]:
        return [task for task in self.all.values() if task.role is TaskRole.ACTIVE]

    def take_restored(self) -> bool:
        return False


class FakeMembership:
    """Returns the news that the test puts; writes down the requests."""

    transactional_id = "app-1"
    safe_until = math.inf
    outage = None
    refused = False
    may_commit = True
    commit_wanted = False

    def __init__(self) -> None:
        self.news: list[News | Exception] = []
        self.asked: list[str] = []

    def poll(self) -> News | None:
        news = self.news.pop(0) if self.news else None
        if isinstance(news, Exception):
            raise news
        return news

    def rejoin(self, *, at_once: bool = False) -> None:
        self.asked.append("rejoin at once" if at_once else "rejoin")

    def drain(self) -> None:
        self.asked.append("drain")

    def request_shutdown(self) -> None:
        self.asked.append("shutdown")

    def cuts(self, number: int) -> bool:
        return False

    def handed_over(self) -> None:
        self.asked.append("handed over")

    def end_commit(self) -> None:
        self.asked.append("end commit")

    def leave(self, *, stay: bool) -> None:
        self.asked.append("leave")


class FakeRestoration:
    """Knows how far replicas are behind."""

    def __init__(self) -> None:
        self.lags: dict[TaskId, int | None] = {}
        self.told_damaged: list[tuple[TaskId, str]] = []
        self.dropped: list[StreamTask] = []

    def damaged(self, task: StreamTask, error: Exception) -> None:
        self.told_damaged.append((task.id, str(error)))

    def take_dropped(self) -> list[StreamTask]:
        dropped, self.dropped = self.dropped, []
        return dropped

    def lag(self, task: StreamTask) -> int | None:
        return self.lags.get(task.id)


class FakeAdmin:
    def __init__(self) -> None:
        self.deleted: list[dict[TopicPartition, int]] = []

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        self.deleted.append(dict(before))


class Life:
    """An instance's lifecycle whose uncaught exception handler gives one answer."""

    def __init__(
        self, answer: UncaughtExceptionResponse | Exception = REPLACE, guarantee: str = "at_least_once"
    ) -> None:
        self.asked: list[Exception] = []
        self._answer = answer
        self.tasks = TaskManager(MostBufferedFirst())
        self.membership = FakeMembership()
        self.owned = FakeInstanceTasks(self.tasks, self.membership.asked)
        self.collector = RecordCollector(10)
        self.state = StateHolder()
        self.admin = FakeAdmin()
        self.clock = MockClock()
        self.restoration = FakeRestoration()
        settings = config(processing_guarantee=guarantee)
        membership, owned = cast(Any, self.membership), cast(Any, self.owned)
        restoration = cast(Any, self.restoration)
        self.producer = StreamsProducer(settings, membership, self.collector, self.clock, ClosingTime(self.clock))
        self.group = GroupFollower(membership, None, settings, self.clock, restoration.lag)
        recovery = Recovery(
            owned,
            self.tasks,
            self.collector,
            self.producer,
            restoration,
            SetAside(self.tasks, self.clock),
            exactly_once=settings.exactly_once,
        )
        self.life = Lifecycle(
            ApplicationTopics(through(), settings, cast(Any, self.admin), self.clock),
            self.group,
            owned,
            self.producer,
            recovery,
            UncaughtExceptions(SimpleQueue(), lambda: self._handler, "global"),
            self.state,
        )

    def lay_out(self, layout: ApplicationLayout) -> None:
        """The application has started with this layout."""
        self.life.layout = layout
        self.life.layouts = Layouts(through(), config(), layout)

    def with_global_stores(self) -> threading.Event:
        """The event that says they are restored."""
        restored = threading.Event()
        self.group._global = cast(Any, SimpleNamespace(name="global", restored=restored, begin=lambda: None))
        return restored

    def _handler(self, error: Exception) -> UncaughtExceptionResponse:
        self.asked.append(error)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def fail(self, error: BaseException, *, in_task: bool = True) -> None:
        self.life.failed(ThreadFailure("processing-1", error, TaskId(0, 1) if in_task else None))

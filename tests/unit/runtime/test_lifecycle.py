"""What becomes of an instance after a failure: who is asked, which tasks start again, when, and with which producer."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamsapp import ClientState, TaskId, TopicPartition, UncaughtExceptionResponse
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.errors import ConfigError, FencedError, ProcessingError, StreamsError, TaskCorruptedError, TopicError
from streamsapp.kafka.producer import AbortableError, DeliveryTimeoutError
from streamsapp.membership.api import Assignment, Lost, News, Peer, ShutdownRequested
from streamsapp.runtime import lifecycle
from streamsapp.runtime.client_state import StateHolder
from streamsapp.runtime.failures import ThreadFailure
from streamsapp.runtime.layout import Layout
from streamsapp.runtime.lifecycle import PURGE_PERIOD, Lifecycle
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.testing import MockClock
from task_parts import config, task_of, through

REPLACE, SHUT_DOWN = UncaughtExceptionResponse.REPLACE_THREAD, UncaughtExceptionResponse.SHUTDOWN_CLIENT


class FakeProducer:
    """Remembers whether it was started and closed."""

    def __init__(self, *_: object) -> None:
        self.started = self.closed = False

    def start(self) -> None:
        self.started = True

    def close(self) -> None:
        self.closed = True


class FakeTasksLife:
    """Two running tasks; writes down what is revived."""

    all_running = True

    def __init__(self, tasks: TaskManager) -> None:
        self.all: dict[TaskId, StreamTask] = {}
        for number in range(2):
            task = task_of(through(), number)
            self.all[task.id] = task
            tasks.add(task)
        self.revived: list[str] = []
        self.closed: list[str] = []
        self.giving_up: dict[TaskId, None] = {}
        self.assigned: list[Mapping[TaskId, TaskRole]] = []

    def assign(self, layout: Layout, wanted: Mapping[TaskId, TaskRole]) -> None:
        self.assigned.append(wanted)

    def give_up(self) -> None:
        for task_id in self.giving_up:
            del self.all[task_id]
        self.giving_up = {}

    def close(self, tasks: Iterable[StreamTask]) -> None:
        self.closed += [str(task.id) for task in tasks]

    def revive(self, tasks: Iterable[StreamTask], *, wipe: bool = False) -> None:
        self.revived += [f"{task.id}{' wiped' if wipe else ''}" for task in tasks]

    @property
    def active(self) -> list[StreamTask]:
        return list(self.all.values())

    def take_restored(self) -> bool:
        return False


class FakeMembership:
    """Tells the news that the test puts; writes down what is asked."""

    transactional_id = "app-1"
    safe_until = math.inf
    may_commit = True

    def __init__(self) -> None:
        self.news: list[News | Exception] = []
        self.asked: list[str] = []

    def poll(self) -> News | None:
        news = self.news.pop(0) if self.news else None
        if isinstance(news, Exception):
            raise news
        return news

    def rejoin(self) -> None:
        self.asked.append("rejoin")

    def drain(self) -> None:
        self.asked.append("drain")

    def request_shutdown(self) -> None:
        self.asked.append("shutdown")


class FakeRestoration:
    """Knows how far replicas are behind."""

    def __init__(self) -> None:
        self.lags: dict[TaskId, int | None] = {}

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
        self.owned = FakeTasksLife(self.tasks)
        self.collector = RecordCollector(10)
        self.state = StateHolder()
        self.admin = FakeAdmin()
        self.membership = FakeMembership()
        self.clock = MockClock()
        self.restoration = FakeRestoration()
        self.life = Lifecycle(
            through(),
            config(processing_guarantee=guarantee),
            cast(Any, self.admin),
            cast(Any, self.membership),
            cast(Any, self.owned),
            cast(Any, self.restoration),
            None,
            self.tasks,
            self.collector,
            self.state,
            self.clock,
            lambda: self._handler,
        )

    def with_global_stores(self) -> threading.Event:
        """The event that says they are restored."""
        restored = threading.Event()
        self.life._global = cast(Any, SimpleNamespace(name="global", restored=restored, begin=lambda: None))
        return restored

    def _handler(self, error: Exception) -> UncaughtExceptionResponse:
        self.asked.append(error)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def fail(self, error: BaseException, *, in_task: bool = True) -> None:
        self.life.failed(ThreadFailure("processing-1", error, TaskId(0, 1) if in_task else None))


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "AtLeastOnceProducer", FakeProducer)
    monkeypatch.setattr(lifecycle, "ExactlyOnceProducer", FakeProducer)


def test_at_least_once_only_the_failed_task_starts_again() -> None:
    it = Life()
    producer = it.life.producer

    it.fail(ProcessingError("boom"))
    assert it.life.may_commit
    it.life.advance(committing=False)

    assert it.owned.revived == ["0_1"]
    assert it.life.producer is producer


def test_under_exactly_once_all_tasks_start_again_with_a_new_producer() -> None:
    it = Life(guarantee="exactly_once")
    old = cast(FakeProducer, it.life.producer)
    it.collector.add([("out", b"of the lost transaction", None, -1, None, None, 0, None)], epoch=0)

    it.fail(ProcessingError("boom"))
    assert not it.life.may_commit, "the failed task's output may be in the transaction"
    it.life.advance(committing=False)

    assert it.owned.revived == ["0_0", "0_1"]
    assert old.closed
    new = cast(FakeProducer, it.life.producer)
    assert new is not old
    assert new.started
    assert len(it.collector) == 0
    assert it.life.may_commit
    assert it.tasks.take(0) is not None, "processing goes on"


def test_nothing_is_revived_while_a_commit_is_under_way() -> None:
    it = Life()
    it.fail(ProcessingError("boom"))

    it.life.advance(committing=True)
    assert it.owned.revived == []

    it.life.advance(committing=False)
    it.life.advance(committing=False)
    assert it.owned.revived == ["0_1"]


def test_a_lost_transaction_revives_all_tasks_without_asking_anybody() -> None:
    it = Life(guarantee="exactly_once")

    it.life.abort(StreamsError("lost"))
    it.life.advance(committing=False)

    assert it.owned.revived == ["0_0", "0_1"]
    assert it.asked == []


def test_a_failure_of_a_thread_without_a_task_revives_all_tasks() -> None:
    it = Life()

    it.fail(StreamsError("polling"), in_task=False)
    it.life.advance(committing=False)

    assert it.owned.revived == ["0_0", "0_1"]


@pytest.mark.parametrize(
    ("guarantee", "revived"),
    [("at_least_once", ["0_1 wiped"]), ("exactly_once", ["0_1 wiped", "0_0", "0_1"])],
)
def test_a_corrupted_task_is_wiped_without_asking_and_takes_its_transaction_with_it(
    guarantee: str, revived: list[str]
) -> None:
    it = Life(SHUT_DOWN, guarantee)

    it.fail(TaskCorruptedError("damaged"))
    it.life.advance(committing=True)
    assert it.owned.revived == []
    it.life.advance(committing=False)

    assert it.owned.revived == revived
    assert it.asked == []


def test_the_handlers_answer_ends_the_instance_with_the_error() -> None:
    it = Life(SHUT_DOWN)
    error = ProcessingError("boom")

    it.fail(error)

    assert it.asked == [error]
    assert it.life.ended
    assert it.life.error is error
    assert it.state.state is ClientState.PENDING_ERROR
    assert it.owned.revived == []


def test_the_first_error_is_the_one_that_ended_the_instance() -> None:
    it = Life(SHUT_DOWN)
    first = ProcessingError("first")

    it.fail(first)
    it.fail(ProcessingError("second"))

    assert it.life.error is first


@pytest.mark.parametrize("error", [TopicError("gone"), ConfigError("wrong"), FencedError("taken over"), SystemExit()])
def test_what_would_only_fail_again_ends_the_instance_without_asking(error: BaseException) -> None:
    it = Life(REPLACE)

    it.fail(error)

    assert it.life.ended
    assert it.asked == []


def test_a_handler_that_raises_ends_the_instance() -> None:
    it = Life(RuntimeError("the handler is broken"))

    it.fail(ProcessingError("boom"))

    assert it.life.ended
    assert isinstance(it.life.error, ProcessingError)


def test_a_paused_application_stays_paused_when_its_tasks_are_revived() -> None:
    it = Life(guarantee="exactly_once")
    it.tasks.pause()

    it.fail(ProcessingError("boom"))
    it.life.advance(committing=False)

    assert it.owned.revived == ["0_0", "0_1"]
    assert it.tasks.take(0) is None


def test_consumed_records_of_repartition_topics_are_deleted_now_and_then() -> None:
    it = Life()
    it.life.layout = Layout(plans={}, sources={}, repartition_topics=frozenset({"in"}))
    for task in it.owned.all.values():
        task._committed[TopicPartition("in", task.id.partition)] = 7
        task._committed[TopicPartition("users", task.id.partition)] = 9

    it.life.committed(now=0.0)
    it.life.committed(now=PURGE_PERIOD - 1)
    assert it.admin.deleted == [{TopicPartition("in", 0): 7, TopicPartition("in", 1): 7}]

    it.life.committed(now=PURGE_PERIOD)
    assert len(it.admin.deleted) == 2


# ---- in the group --------------------------------------------------------------------------------------------------

FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)
NO_PLANS = Layout(plans={}, sources={}, repartition_topics=frozenset())


def joined(guarantee: str = "exactly_once", **assigned: Any) -> Life:
    it = Life(guarantee=guarantee)
    it.life.layout = NO_PLANS
    it.membership.news = [Assignment(frozenset({FIRST, SECOND}), generation=1, **assigned)]
    it.life.advance(committing=False)
    return it


def test_an_assignment_is_taken_whether_or_not_a_commit_is_under_way() -> None:
    it = joined()
    it.membership.news = [Assignment(frozenset({FIRST}), standby=frozenset({SECOND}), generation=2)]

    it.life.advance(committing=True)

    assert it.owned.assigned[-1] == {FIRST: TaskRole.ACTIVE, SECOND: TaskRole.STANDBY}
    assert it.life.assignment is not None
    assert it.life.assignment.generation == 2


def test_tasks_are_given_up_when_they_are_committed_and_the_group_is_told() -> None:
    it = joined()
    it.owned.giving_up = {SECOND: None}
    it.owned.all[SECOND].touched = True
    it.life.advance(committing=False)
    assert it.life.wants_commit
    assert it.membership.asked == []

    it.owned.all[SECOND].touched = False
    it.life.advance(committing=True)
    assert it.membership.asked == [], "its epoch is being committed"
    it.life.advance(committing=False)

    assert list(it.owned.all) == [FIRST]
    assert it.membership.asked == ["rejoin"]
    assert not it.life.wants_commit


def test_who_lost_its_place_in_the_group_closes_its_tasks_without_committing_and_gets_a_new_producer() -> None:
    it = joined()
    old = it.life.producer
    it.membership.news = [Lost("the session timed out")]

    with pytest.raises(FencedError, match="the session timed out") as lost:
        it.life.advance(committing=True)
    it.life.abort(lost.value)
    assert not it.life.may_commit
    it.life.advance(committing=False)

    assert it.owned.closed == ["0_0", "0_1"]
    assert it.owned.revived == []
    assert it.life.producer is not old
    assert it.life.may_commit


def test_what_ends_the_membership_ends_the_instance() -> None:
    it = joined()
    error = FencedError("another instance has this instance's id")
    it.membership.news = [error]

    it.life.advance(committing=False)

    assert it.life.ended
    assert it.life.error is error


def test_a_member_that_asks_all_to_stop_is_heard() -> None:
    it = joined()
    it.membership.news = [ShutdownRequested()]

    it.life.advance(committing=False)

    assert it.life.ended


def test_shutting_down_the_application_tells_the_others() -> None:
    it = Life(UncaughtExceptionResponse.SHUTDOWN_APPLICATION)

    it.fail(ProcessingError("boom"))

    assert it.membership.asked == ["shutdown"]
    assert it.life.ended


def test_at_least_once_nothing_is_written_when_others_may_have_taken_over() -> None:
    it = joined("at_least_once")
    it.membership.safe_until = 5.0
    it.life.advance(committing=False)
    assert it.life.may_write

    it.clock.advance(6_000)
    assert not it.life.may_write
    with pytest.raises(AbortableError, match="no sign of life"):
        it.life.advance(committing=False)
    it.life.advance(committing=False)  # said once
    assert not it.life.may_commit

    it.membership.safe_until = 11.0
    it.life.advance(committing=False)
    assert it.life.may_commit


def test_a_warmup_replica_that_has_caught_up_is_told_and_after_a_while_again() -> None:
    it = joined(warmup=frozenset({TaskId(0, 1)}))
    it.restoration.lags[SECOND] = 10_001
    it.life.advance(committing=False)
    assert it.membership.asked == []

    it.restoration.lags[SECOND] = 10_000
    it.life.advance(committing=False)
    it.life.advance(committing=False)

    assert it.membership.asked == ["rejoin"]

    it.membership.news = [Assignment(frozenset({FIRST}), warmup=frozenset({SECOND}), generation=2)]
    it.clock.advance(2_000)
    it.life.advance(committing=False)
    assert it.membership.asked == ["rejoin", "rejoin"], "the leader put the move off"


def test_drained_means_that_others_have_everything_or_that_nobody_is_there() -> None:
    it = joined(peers={"me": Peer(active=frozenset({FIRST, SECOND}))})
    assert not it.life.drained
    it.life.layout = Layout(
        plans=dict.fromkeys((FIRST, SECOND), cast(Any, None)), sources={}, repartition_topics=frozenset()
    )

    it.life.drain()
    assert it.membership.asked == ["drain"]
    for peers, drained in (
        ({"me": Peer(active=frozenset({FIRST}), draining=True), "other": Peer(active=frozenset({SECOND}))}, False),
        ({"me": Peer(draining=True), "other": Peer(active=frozenset({FIRST, SECOND}))}, True),
        ({"me": Peer(active=frozenset({FIRST, SECOND}), draining=True)}, True),
    ):
        it.membership.news = [Assignment(frozenset({FIRST}), generation=2, peers=peers)]
        it.life.advance(committing=False)
        assert it.life.drained is drained


def test_records_that_take_too_long_to_write_get_more_time() -> None:
    it = joined("at_least_once")
    it.life.advance(committing=False)

    it.life.abort(DeliveryTimeoutError("slow"))

    assert it.life._delivery_timeout == 10.0


def test_the_group_is_joined_only_when_the_global_stores_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Life()
    restored = it.with_global_stores()
    made = SimpleNamespace(task_infos={}, repartition_topics=frozenset())
    monkeypatch.setattr(lifecycle, "make_layout", lambda *_: made)
    monkeypatch.setattr(it.admin, "wait_for_broker", lambda given_up: None, raising=False)
    started: list[Any] = []
    monkeypatch.setattr(it.membership, "start", lambda *infos: started.append(infos), raising=False)

    it.life.start()
    it.life.advance(committing=False)
    assert started == []

    restored.set()
    it.life.advance(committing=False)
    it.life.advance(committing=False)
    assert len(started) == 1


def test_nobody_takes_the_place_of_the_global_thread() -> None:
    it = Life()
    it.with_global_stores()

    it.life.failed(ThreadFailure("global", ValueError("boom")))

    assert it.life.ended
    assert len(it.asked) == 1

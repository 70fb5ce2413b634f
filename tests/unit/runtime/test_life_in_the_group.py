"""An instance in its group: it takes assignments, gives tasks up, drains, stops where others may have taken over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lifecycle_parts import FakeProducer, Life
from streamsapp import TaskId, UncaughtExceptionResponse
from streamsapp.errors import FencedError, ProcessingError
from streamsapp.kafka.sending import AbortableError, DeliveryTimeoutError
from streamsapp.membership.api import Assignment, Lost, Peer, ShutdownRequested
from streamsapp.remote.snapshot_writer import SnapshotFencedError
from streamsapp.runtime import application_topics, streams_producer
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.client_state import ClientState
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.tasks.states import TaskRole

FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)
NO_PLANS = ApplicationLayout(plans={}, sources={}, repartition_topics=frozenset())


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_producer, "AtLeastOnceProducer", FakeProducer)
    monkeypatch.setattr(streams_producer, "ExactlyOnceProducer", FakeProducer)


def joined(guarantee: str = "exactly_once", **assigned: Any) -> Life:
    it = Life(guarantee=guarantee)
    it.lay_out(NO_PLANS)
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
    assert it.membership.asked == ["rejoin at once"]
    assert not it.life.wants_commit


def test_who_lost_its_place_in_the_group_closes_its_tasks_without_committing_and_gets_a_new_producer() -> None:
    it = joined()
    old = it.producer.client
    it.membership.news = [Lost("the session timed out")]

    with pytest.raises(FencedError, match="the session timed out") as lost:
        it.life.advance(committing=True)
    it.life.abort(lost.value)
    assert not it.life.may_commit
    it.life.advance(committing=False)

    assert it.owned.closed == ["0_0", "0_1"]
    assert it.owned.revived == []
    assert it.producer.client is not old
    assert it.life.may_commit


def test_tasks_are_closed_before_one_of_them_is_assigned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    it = joined()
    it.membership.news = [Lost("the session timed out"), Assignment(frozenset({FIRST}), generation=2)]
    closed_when_assigned: list[list[str]] = []
    monkeypatch.setattr(it.owned, "assign", lambda *_: closed_when_assigned.append(list(it.owned.closed)))
    with pytest.raises(FencedError) as lost:
        it.life.advance(committing=False)
    it.life.abort(lost.value)

    it.life.advance(committing=False)

    assert closed_when_assigned == [["0_0", "0_1"]]
    assert it.owned.closed == ["0_0", "0_1"]


def test_who_is_no_longer_in_the_group_does_not_say_that_it_runs() -> None:
    """It may be for as long as the broker is away."""
    it = joined()
    it.state.to(ClientState.REBALANCING)
    it.life.advance(committing=False)
    before = it.state.state
    it.membership.news = [Lost("no answer from the coordinator for 6 s")]

    with pytest.raises(FencedError) as lost:
        it.life.advance(committing=False)
    it.life.abort(lost.value)

    assert (before, it.state.state) == (ClientState.RUNNING, ClientState.REBALANCING)


def test_tasks_that_others_run_are_closed_before_the_new_producer_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    it = joined()
    closed_at_start: list[list[str]] = []
    monkeypatch.setattr(FakeProducer, "start", lambda _: closed_at_start.append(list(it.owned.closed)))

    it.life.abort(FencedError("taken over"))
    it.life.advance(committing=False)

    assert closed_at_start == [["0_0", "0_1"]]


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


def test_at_least_once_the_last_commit_is_given_up_too_when_others_may_have_taken_over() -> None:
    it = joined("at_least_once")
    it.membership.safe_until = 5.0
    it.life.take_last_news()

    it.clock.advance(6_000)
    with pytest.raises(AbortableError, match="no sign of life"):
        it.life.take_last_news()


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
    plans = dict.fromkeys((FIRST, SECOND), cast(Any, None))
    it.lay_out(ApplicationLayout(plans=plans, sources={}, repartition_topics=frozenset()))

    it.life.drain()
    assert it.membership.asked == ["drain"]
    assert it.owned.snapshots_asked_for == 1
    for peers, drained in (
        ({"me": Peer(active=frozenset({FIRST, SECOND})), "other": Peer()}, False),  # of before the drain
        ({"me": Peer(active=frozenset({FIRST}), draining=True), "other": Peer(active=frozenset({SECOND}))}, False),
        ({"me": Peer(draining=True), "other": Peer(active=frozenset({FIRST, SECOND}))}, True),
        ({"me": Peer(active=frozenset({FIRST, SECOND}), draining=True)}, True),
    ):
        it.membership.news = [Assignment(peers["me"].active, generation=2, peers=peers)]
        it.life.advance(committing=False)
        assert it.life.drained is drained


def test_records_that_take_too_long_to_write_get_more_time() -> None:
    it = joined("at_least_once")
    it.life.advance(committing=False)

    it.life.abort(DeliveryTimeoutError("slow"))

    assert it.producer._delivery_timeout == 10.0


def test_the_group_is_joined_only_when_the_global_stores_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Life()
    restored = it.with_global_stores()
    made = SimpleNamespace(task_infos={}, repartition_topics=frozenset(), dead_letters=None)
    monkeypatch.setattr(application_topics, "make_layout", lambda *_: made)
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


def test_a_task_that_others_claimed_is_lost_as_after_a_fenced_commit() -> None:
    it = joined()
    error = SnapshotFencedError("task 0_1 stops here: pod-7 claimed it")

    with pytest.raises(SnapshotFencedError) as raised:
        it.life.failed(ThreadFailure("snapshot-1", error, SECOND))
    it.life.abort(raised.value)
    it.life.advance(committing=False)

    assert it.asked == []
    assert it.owned.closed == ["0_0", "0_1"]
    assert it.membership.asked == ["rejoin at once"]


def test_a_claim_of_others_is_no_news_for_a_task_that_left_already() -> None:
    it = Life()
    del it.owned.all[SECOND]

    it.life.failed(ThreadFailure("snapshot-1", SnapshotFencedError("claimed"), SECOND))

    assert it.asked == []
    assert not it.life.ended


def test_the_group_may_want_a_commit_before_it_assigns_anew() -> None:
    it = joined()
    it.life.nothing_to_commit()
    assert (it.life.wants_commit, it.membership.asked) == (False, [])

    it.membership.commit_wanted = True
    assert it.life.wants_commit
    it.life.nothing_to_commit()

    assert it.membership.asked == ["end commit"]

"""The messages between the membership's thread and the polling thread, in every order that matters."""

from __future__ import annotations

import pytest

from streamsapp import TaskId
from streamsapp.errors import StreamsError
from streamsapp.membership.api import Assignment, Holdings, Lost, ShutdownRequested
from streamsapp.membership.mailbox import JOIN_WAIT, REST_AFTER, MembershipMailbox
from streamsapp.membership.wire import Identity
from streamsapp.testing import MockClock

A, B = TaskId(0, 0), TaskId(0, 1)
FIRST = Identity(1, "member")


def mailbox() -> MembershipMailbox:
    return MembershipMailbox(MockClock(), "app-1")


def assignment(generation: int, *active: TaskId) -> Assignment:
    return Assignment(frozenset(active), generation=generation)


def test_the_polling_thread_is_woken_by_news_by_leave_to_commit_and_by_the_end_of_the_membership() -> None:
    woken: list[str] = []
    desk = MembershipMailbox(MockClock(), "app-1", lambda: woken.append("woken"))
    desk.put(assignment(1, A), "app-1")
    desk.open(FIRST)
    desk.fail(OSError("away"))

    assert len(woken) == 3


def test_a_polling_thread_that_comes_back_late_each_time_rests() -> None:
    clock = MockClock()
    desk = MembershipMailbox(clock, "app-1")
    for _ in range(30):
        clock.advance(250)
        desk.poll()
    assert desk.resting

    clock.advance(20)
    desk.poll()
    assert not desk.resting
    clock.advance(round(1000 * REST_AFTER))
    assert not desk.resting
    clock.advance(1)
    assert desk.resting


def test_a_polling_thread_that_comes_back_soon_with_little_to_do_rests() -> None:
    clock = MockClock()
    desk = MembershipMailbox(clock, "app-1")
    for seldom in (False, True, False):
        for _ in range(round(1000 * REST_AFTER / 50) + 2):
            clock.advance(50)
            desk.poll(seldom=seldom)
        assert desk.resting == seldom


def test_news_come_in_order() -> None:
    desk = mailbox()
    desk.put(Lost("a reason"), "app-2")
    desk.put(assignment(2, A), "app-2")
    desk.put(ShutdownRequested(), "app-2")

    assert [desk.poll() for _ in range(4)] == [Lost("a reason"), assignment(2, A), ShutdownRequested(), None]


def test_an_assignment_that_nobody_polled_is_taken_back_by_the_next_join() -> None:
    desk = mailbox()
    desk.put(assignment(1, A), "app-1")

    held = desk.take_stock(Holdings)

    assert held.active == frozenset()
    assert desk.poll() is None


def test_an_assignment_that_was_polled_counts_before_the_runtime_reflects_it() -> None:
    desk = mailbox()
    desk.put(assignment(3, A, B), "app-1")
    desk.poll()
    older, newer = (lambda: Holdings(2, frozenset({A}))), (lambda: Holdings(3, frozenset({A})))

    assert desk.take_stock(newer).active == {A, B}  # the polling thread is still at it
    desk.poll()
    assert desk.take_stock(older).active == {A, B}
    assert desk.take_stock(newer).active == {A}


def test_a_task_that_is_to_be_given_up_is_held_until_it_is() -> None:
    desk = mailbox()
    for news in (assignment(1, A, B), assignment(2, A)):
        desk.put(news, "app-1")
        desk.poll()
    desk.poll()

    assert desk.take_stock(lambda: Holdings(2, frozenset({A, B}))).active == {A, B}
    assert desk.take_stock(lambda: Holdings(2, frozenset({A}))).active == {A}


def test_nothing_is_held_after_a_loss_however_long_the_runtime_takes_to_close_it() -> None:
    desk = mailbox()
    desk.put(assignment(3, A), "app-1")
    desk.poll()
    held = Holdings(generation=3, active=frozenset({A}), lags={B: 5})
    nothing = Holdings(generation=3, lags={B: 5}, on_disk=frozenset({A}))

    desk.put(Lost("a reason"), "app-2")
    assert desk.take_stock(lambda: held) == nothing
    for _ in range(3):
        desk.poll()
        assert desk.take_stock(lambda: held) == nothing


def test_what_was_lost_is_held_again_when_it_is_assigned_again() -> None:
    desk = mailbox()
    for news in (assignment(3, A, B), Lost("a reason"), assignment(5, A)):
        desk.put(news, "app-2")
        desk.poll()
    desk.poll()

    assert desk.take_stock(lambda: Holdings(5, frozenset({A, B}))).active == {A}


def test_a_loss_makes_void_what_was_assigned_before() -> None:
    desk = mailbox()
    desk.put(assignment(1, A), "app-1")
    desk.put(Lost("a reason"), "app-2")

    assert desk.poll() == Lost("a reason")
    assert desk.poll() is None


def test_a_loss_is_heard_when_the_polling_thread_comes_for_more_after_it() -> None:
    desk = mailbox()
    desk.poll()
    assert desk.losses_heard
    desk.put(Lost("a reason"), "app-2")
    desk.put(assignment(2, A), "app-2")

    assert not desk.losses_heard
    assert desk.poll() == Lost("a reason")
    assert not desk.losses_heard  # it gives up the tasks that it had
    desk.put(Lost("another"), "app-3")
    assert desk.poll() == Lost("another")
    assert not desk.losses_heard
    assert desk.poll() is None
    assert desk.losses_heard


def test_the_transactional_id_changes_when_the_loss_is_polled() -> None:
    desk = mailbox()
    desk.put(Lost("a reason"), "app-2")
    assert desk.transactional_id == "app-1"

    desk.poll()
    assert desk.transactional_id == "app-2"


def test_a_commit_keeps_the_identity_it_began_with() -> None:
    desk = mailbox()
    desk.open(FIRST)
    assert desk.begin_commit()

    desk.close()
    desk.open(Identity(2, "member"))

    assert desk.committing == FIRST
    desk.end_commit()
    assert desk.committing is None


def test_no_commit_begins_outside_the_group() -> None:
    assert not mailbox().begin_commit()


def test_no_commit_begins_between_two_generations() -> None:
    desk = mailbox()
    desk.open(FIRST)
    desk.joining()
    desk.close()

    assert not desk.begin_commit()


def test_commits_wait_for_a_join_and_go_on_when_it_takes_long() -> None:
    clock = MockClock()
    desk = MembershipMailbox(clock, "id")
    desk.open(FIRST)
    desk.joining()
    assert not desk.begin_commit()

    clock.advance(round(JOIN_WAIT * 1000))
    assert desk.begin_commit()
    assert desk.committing == FIRST


def test_no_commit_begins_before_the_news_are_polled() -> None:
    desk = mailbox()
    desk.open(FIRST)
    desk.put(assignment(1), "app-1")
    assert not desk.begin_commit()

    desk.poll()
    assert desk.begin_commit()


def test_no_commit_begins_after_a_loss_even_once_it_is_polled() -> None:
    desk = mailbox()
    desk.open(FIRST)
    desk.put(Lost("a reason"), "app-2")
    desk.poll()

    assert not desk.begin_commit()


def test_a_join_hears_of_the_end_of_the_commit_it_waits_for() -> None:
    desk = mailbox()
    heard: list[str] = []
    desk.on_commit_ended = lambda: heard.append("end")
    desk.open(FIRST)
    desk.begin_commit()
    desk.end_commit()
    assert heard == []

    desk.begin_commit()
    desk.joining()
    desk.end_commit()
    assert heard == ["end"]


def test_what_ended_the_membership_is_raised_after_the_news_and_again() -> None:
    desk = mailbox()
    desk.open(FIRST)
    desk.put(Lost("a reason"), "app-2")
    desk.fail(StreamsError("the end"))
    desk.fail(StreamsError("another"))

    assert desk.poll() == Lost("a reason")
    for _ in range(2):
        with pytest.raises(StreamsError, match="the end"):
            desk.poll()
    assert not desk.begin_commit()


def test_a_commit_that_is_wanted_before_a_join_is_over_when_it_ends_or_there_is_nothing_to_commit() -> None:
    ended: list[str] = []
    desk = mailbox()
    desk.on_commit_ended = lambda: ended.append("ended")
    desk.want_commit()
    assert not desk.commit_wanted, "this is no member"
    desk.open(FIRST)

    for committed in (True, False):
        desk.want_commit()
        assert desk.commit_wanted
        assert desk.begin_commit() or not committed
        desk.end_commit()
        assert not desk.commit_wanted

    assert ended == ["ended", "ended"]


def test_a_commit_that_did_not_come_in_time_is_not_wanted_any_more_once_the_member_joins() -> None:
    desk = mailbox()
    desk.open(FIRST)
    desk.want_commit()

    desk.joining()

    assert not desk.commit_wanted
    assert not desk.may_commit

"""The last commit of a task that goes to another instance carries the cut, and no other commit does."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from commit_parts import Instance, retriable
from streamsapp.kafka.sending import AbortableError, NothingCommittedError
from streamsapp.runtime.commit import RETRY_FIRST

both_guarantees = pytest.mark.parametrize("transactional", [False, True], ids=["at least once", "exactly once"])


def refusing() -> KafkaException:
    return NothingCommittedError(KafkaError(KafkaError.NOT_COORDINATOR, retriable=True))


@both_guarantees
def test_the_cut_goes_with_the_last_commit_of_the_tasks_that_leave_and_with_no_other(transactional: bool) -> None:
    it = Instance(transactional=transactional, partitions=2)
    it.gate.cut = 7
    it.read("a", task=0)
    it.read("b", task=1)
    it.goes_to_another(7, task=0)

    it.run(it.commit())

    assert it.producer.events[-1] == "committed in-0@1 cut 7, in-1@1"
    assert [each.control.handed_over for each in it.all] == [True, False]
    assert it.tasks.at_rest([it.all[0].id])


@both_guarantees
def test_a_task_that_has_done_nothing_since_its_last_commit_is_committed_once_more_with_the_cut(
    transactional: bool,
) -> None:
    it = Instance(transactional=transactional)
    it.read("a")
    it.run(it.commit())
    it.gate.cut = 7
    it.goes_to_another(7)

    it.run(it.commit())

    assert it.producer.events[-1] == "committed in-0@1 cut 7"
    assert it.all[0].control.handed_over


def test_a_task_that_never_read_anything_has_no_offset_to_carry_it() -> None:
    it = Instance()
    it.gate.cut = 7
    it.goes_to_another(7)

    it.run(it.commit())

    assert not it.all[0].control.handed_over


@both_guarantees
@pytest.mark.parametrize("current", [0, 8])
def test_no_cut_is_committed_once_the_group_assigns_anew(transactional: bool, current: int) -> None:
    """The instance may have said already that the task is its own."""
    it = Instance(transactional=transactional)
    it.gate.cut = current
    it.read("a")
    it.goes_to_another(7)

    it.run(it.commit())

    assert it.producer.events[-1] == "committed in-0@1"
    assert not it.all[0].control.handed_over


@both_guarantees
def test_what_is_processed_while_the_commit_before_is_under_way_comes_before_the_cut(transactional: bool) -> None:
    it = Instance(transactional=transactional)
    it.gate.cut = 7
    it.read("a")
    commit = it.commit()
    commit.advance()
    it.work()  # its epoch has ended
    it.read("b")
    it.goes_to_another(7)
    it.run(commit)
    assert it.producer.events[-1] == "committed in-0@1"

    it.run(it.commit())

    assert it.producer.events[-1] == "committed in-0@2 cut 7"


@both_guarantees
def test_after_the_cut_nothing_of_the_task_is_committed_any_more(transactional: bool) -> None:
    it = Instance(transactional=transactional, partitions=2)
    it.gate.cut = 7
    it.read("a")
    it.goes_to_another(7)
    it.run(it.commit())
    it.all[0].touched = True
    it.read("b", task=1)

    it.run(it.commit())

    assert it.producer.events[-1] == "committed in-1@1"


def test_a_transaction_is_tried_again_with_the_cut_only_in_the_same_generation() -> None:
    it = Instance()
    it.gate.cut = 7
    it.read("a")
    it.goes_to_another(7)
    it.producer.commit_errors = [retriable(), retriable()]
    commit = it.commit()
    commit.advance()
    it.work()
    for _ in range(3):
        commit.advance()
    assert it.all[0].control.handed_over, "it may be its heir's by now"
    it.gate.cut = 8
    it.clock.advance(round(1000 * RETRY_FIRST) + 1)

    with pytest.raises(AbortableError, match="assigns anew"):
        it.run(commit)

    assert it.all[0].control.handed_over


def test_at_least_once_a_commit_that_was_refused_is_tried_again_and_the_task_is_still_here() -> None:
    it = Instance(transactional=False)
    it.gate.cut = 7
    it.read("a")
    it.goes_to_another(7)
    seen: list[bool] = []
    it.producer.commit_errors = [refusing()]
    commit = it.commit()
    for _ in range(6):
        commit.advance()
        it.work()
    seen.append(it.all[0].control.handed_over)
    it.gate.cut = 8
    it.clock.advance(round(1000 * RETRY_FIRST) + 1)
    it.run(commit)

    assert seen == [False]
    assert it.producer.events[-1] == "committed in-0@1"


def test_at_least_once_a_commit_without_an_answer_is_not_tried_again_for_the_tasks_that_left() -> None:
    """Their heirs may have gone on, and committed more."""
    it = Instance(transactional=False, partitions=2)
    it.gate.cut = 7
    it.read("a", task=0)
    it.read("b", task=1)
    it.goes_to_another(7, task=0)
    it.producer.commit_errors = [retriable()]
    commit = it.commit()
    for _ in range(6):
        commit.advance()
        it.work()
    it.clock.advance(round(1000 * RETRY_FIRST) + 1)
    it.run(commit)

    assert it.producer.events[-1] == "committed in-1@1"
    assert it.all[0].control.handed_over

"""The commit against a producer that fails in every way: data before offsets, offsets before local state."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from commit_parts import CHANGELOG, Instance, retriable
from streamsapp import ProcessorContext, Record, Serdes, TopicPartition
from streamsapp.errors import CommitError, FencedError, ProcessingError, ProductionError
from streamsapp.kafka.sending import AbortableError
from streamsapp.outgoing import OutputRecord
from streamsapp.runtime.commit import CATCH_UP, RETRY_FIRST, STEP_WAIT
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.kinds.session import SessionType
from streamsapp.state.kinds.store_type import StoreType
from streamsapp.state.kinds.versioned import VersionedType
from task_parts import through

both_guarantees = pytest.mark.parametrize("transactional", [False, True], ids=["at least once", "exactly once"])


@both_guarantees
def test_results_and_changelog_are_acknowledged_before_offsets_are_committed_and_applied_after(
    transactional: bool,
) -> None:
    it = Instance(transactional=transactional)
    it.read("a1", "b1", "a2")
    applied_at_commit: list[int | None] = []
    it.producer.on_commit = lambda: applied_at_commit.append(it.applied())

    it.run(it.commit())

    # At least once nothing takes a changelog back whose results were lost.
    first = [] if transactional else ["acknowledged"]
    assert it.producer.events == [
        "sent out a1",
        "sent out b1",
        "sent out a2",
        *first,
        f"sent {CHANGELOG} a2",
        f"sent {CHANGELOG} b1",
        *(["prepared"] if transactional else []),
        "acknowledged",
        "committed in-0@3",
    ]
    assert applied_at_commit == [None]
    assert it.applied() == 2


@both_guarantees
def test_the_control_record_of_a_transaction_counts_when_the_next_one_is_through(transactional: bool) -> None:
    """It comes some time after the commit was answered: before that, the changelog ends without it."""
    it = Instance(transactional=transactional)
    for commit, expected in enumerate([1, 3, 5] if transactional else [1, 2, 3]):
        it.read(f"a{commit}")
        it.run(it.commit())
        assert it.applied() == expected


@both_guarantees
def test_a_mark_that_a_transaction_lost_is_not_counted(transactional: bool) -> None:
    """Records of others before those here are still to come, and a topic that ends before them is another one."""
    it, changelog = Instance(transactional=transactional), TopicPartition(CHANGELOG, 0)
    for told, expected in ((1, 1), (2, 2), (17, 3 + transactional), (1, 4 + 2 * transactional)):
        it.producer.ends[changelog] = told
        it.read("a")
        it.run(it.commit())
        assert it.applied() == expected


def put_version(context: ProcessorContext, record: Record) -> None:
    context.get_state_store("store").put(record.key, record.value, int(record.value[1:]))


def put_session(context: ProcessorContext, record: Record) -> None:
    end = int(record.value[1:])
    context.get_state_store("store").put(Windowed(record.key, end, end), record.value)


@pytest.mark.parametrize(
    ("kind", "process"), [(VersionedType(1_000), put_version), (SessionType(1_000, by_time=True), put_session)]
)
def test_an_entry_that_lies_in_several_places_counts_once_in_the_changelog(
    kind: StoreType, process: Callable[[ProcessorContext, Record], None]
) -> None:
    """A store that stood beyond the end of its changelog would leave out what others write there next."""
    store = StoreBuilder("store", kind, Engine.MEMORY, Serdes.string(), Serdes.string())
    it = Instance(transactional=False, topology=through(process).add_state_store(store, "node"))
    it.read("a1", "a2", "b3")
    it.run(it.commit())
    it.read("a4")
    it.run(it.commit())

    assert sum(event.startswith(f"sent {CHANGELOG}") for event in it.producer.events) == 4
    assert it.applied() == 4


def test_all_tasks_are_committed_at_once() -> None:
    it = Instance(partitions=3)
    it.read("a", task=0)
    it.read("b", "c", task=2)

    it.run(it.commit())

    assert it.producer.events[-1] == "committed in-0@1, in-2@2"
    assert it.applied(1) is None


def test_a_full_queue_delays_the_commit_and_loses_nothing() -> None:
    it = Instance()
    it.producer.queue = it.producer._room = 1
    it.read("a1", "b1", "c1")

    it.run(it.commit())

    sent = [event for event in it.producer.events if event.startswith("sent")]
    assert sent == [f"sent {topic} {value}" for topic in ("out", CHANGELOG) for value in ("a1", "b1", "c1")]
    assert it.producer.events[-1] == "committed in-0@3"


def test_offsets_wait_for_acknowledgements_that_take_their_time() -> None:
    it = Instance()
    it.producer.slow_flushes = 3
    it.read("a1")

    it.run(it.commit())

    assert it.producer.events[-2:] == ["acknowledged", "committed in-0@1"]


@both_guarantees
def test_the_group_does_not_wait_for_a_commit_that_was_given_up_in_the_middle(transactional: bool) -> None:
    it = Instance(transactional=transactional)
    it.producer.slow_flushes = 1_000
    it.read("a1")
    commit = it.commit()
    for _ in range(20):
        commit.advance()
        it.work()
    assert it.gate.inside == transactional

    commit.give_up()

    assert it.gate.inside == 0
    assert commit.advance()


def test_a_dead_letter_that_arises_while_waiting_for_acknowledgements_goes_before_the_offsets() -> None:
    it = Instance(transactional=False)
    dead: OutputRecord = ("dead", b"letter", None, -1, None, None, 0, None)
    it.producer.on_flush += [lambda: None, lambda: it.collector.add([dead], epoch=0)]  # while the changelog is awaited
    it.read("a1")

    it.run(it.commit())

    assert it.producer.events[-3:] == ["sent dead letter", "acknowledged", "committed in-0@1"]


def test_no_changelog_is_written_at_least_once_when_a_result_could_not_be() -> None:
    """The buffer of a suppressed result would be empty in the changelog, and the result nowhere."""
    it = Instance(transactional=False)
    it.producer.slow_flushes = 3
    it.producer.poll_errors = [AbortableError("not written in time")]
    it.read("a1")

    with pytest.raises(AbortableError, match="not written in time"):
        it.run(it.commit())

    assert it.producer.events == ["sent out a1"]


def test_records_that_come_with_a_commit_are_part_of_it_unless_they_take_too_long() -> None:
    it, late = Instance(partitions=2), list[bool]()
    it.receive("a1")
    it.run(it.commit(lambda: late.append(True)))
    assert (it.producer.events[-1], late) == ("committed in-0@1", [])

    it.receive("a2")
    it.receive("b1", task=1)
    commit = it.commit(lambda: late.append(True))
    commit.advance()
    it.clock.advance(round(1000 * CATCH_UP) + 1)
    for _ in range(3):
        commit.advance()
    assert late == [True]
    it.run(commit)
    assert it.producer.events[-1] != "committed in-0@2, in-1@1"
    it.work()
    it.run(it.commit())
    assert {each.committed_offsets[TopicPartition("in", number)] for number, each in enumerate(it.all)} == {2, 1}


def test_what_is_processed_during_the_commit_waits_for_the_next_one() -> None:
    it = Instance()
    it.read("a1")
    commit = it.commit()
    commit.advance()
    it.receive("a2")
    it.work()
    assert it.tasks.scheduling(it.all[0]).epoch == 1
    assert it.all[0].stores.stores["store"].get("a") == "a2", "processing goes on and sees its own writes"

    it.run(commit)

    assert it.producer.events == ["sent out a1", f"sent {CHANGELOG} a1", "prepared", "acknowledged", "committed in-0@1"]
    it.producer.events.clear()
    it.run(it.commit())
    assert it.producer.events == ["sent out a2", f"sent {CHANGELOG} a2", "prepared", "acknowledged", "committed in-0@2"]


def test_a_commit_that_the_broker_cannot_take_now_is_tried_again_after_a_pause() -> None:
    it = Instance()
    it.producer.commit_errors = [retriable()]
    it.read("a1")
    commit = it.commit()
    for _ in range(20):
        assert not commit.advance(), "not before the pause is over"
        it.work()
    assert it.applied() is None

    it.clock.advance(int(RETRY_FIRST * 1000))
    it.run(commit)

    assert it.producer.events[-1] == "committed in-0@1"
    assert it.producer.events.count("sent out a1") == 1


def test_a_commit_that_never_goes_through_fails_after_the_time_out() -> None:
    it = Instance()
    it.producer.commit_errors = [retriable() for _ in range(1000)]
    it.read("a1")
    commit = it.commit()

    commit.advance()
    it.work()

    def keep_trying() -> None:
        for _ in range(1000):
            commit.advance()
            it.clock.advance(1_000)

    with pytest.raises(CommitError, match=r"no commit went through for 60 s: .*is the broker reachable"):
        keep_trying()
    assert it.applied() is None


@pytest.mark.parametrize("error", [AbortableError("lost"), FencedError("taken over"), CommitError("for good")])
def test_a_lost_commit_leaves_local_state_at_the_commit_before(error: Exception) -> None:
    it = Instance()
    it.read("a1")
    it.run(it.commit())
    before = it.applied()
    it.read("a2")
    it.producer.commit_errors = [error]

    with pytest.raises(type(error)):
        it.run(it.commit())

    assert it.applied() == before
    it.all[0].stores.revert()
    assert it.all[0].stores.stores["store"].get("a") == "a1"


def test_a_record_that_could_not_be_written_stops_the_commit_before_its_offsets() -> None:
    it = Instance()
    it.producer.poll_errors = [ProductionError("too large")]
    it.read("a1")

    with pytest.raises(ProductionError, match="too large"):
        it.run(it.commit())

    assert not any(event.startswith("committed") for event in it.producer.events)


def test_a_task_that_fails_before_its_epoch_ended_aborts_a_transaction() -> None:
    it = Instance(transactional=True)
    it.read("a1")
    commit = it.commit()
    it.receive("bad")
    it.work()

    with pytest.raises(AbortableError, match="a task failed in the middle of a transaction"):
        it.run(commit)

    assert isinstance(it.failures.get_nowait().error, ProcessingError)
    assert not any(event.startswith("committed") for event in it.producer.events)


def test_a_task_that_fails_does_not_keep_the_others_from_committing_at_least_once() -> None:
    it = Instance(transactional=False, partitions=2)
    it.read("a1", task=0)
    it.read("bad", task=1)

    it.run(it.commit())

    assert it.producer.events[-1] == "committed in-0@1"


def test_commits_without_changes_of_state_apply_nothing() -> None:
    it = Instance(topology=through())
    it.read("a1")

    it.run(it.commit())

    assert it.producer.events == ["sent out a1", "prepared", "acknowledged", "committed in-0@1"]


def test_a_paused_application_commits_what_it_processed_before() -> None:
    it = Instance()
    it.read("a1")
    it.tasks.pause()
    it.receive("a2")

    it.run(it.commit())

    assert it.producer.events[-1] == "committed in-0@1"
    assert it.all[0].buffered_records == 1


def test_a_commit_waits_while_the_group_assigns_anew_and_says_when_it_is_through() -> None:
    it = Instance()
    it.receive("a")
    commit = it.commit()
    it.gate.open = False
    for _ in range(10):
        commit.advance()
        it.work()
    assert not any(event.startswith("committed") for event in it.producer.events)

    it.gate.open = True
    it.run(commit)

    assert it.producer.events[-1].startswith("committed")
    assert it.gate.inside == 0


@pytest.mark.parametrize("waits_for", ["the group", "the broker"])
def test_a_commit_that_waits_leaves_the_processor_to_others(waits_for: str) -> None:
    it = Instance()
    it.read("a1")
    commit = it.commit()
    it.gate.open = waits_for != "the group"
    it.producer.commit_errors = [retriable()]
    commit.advance()
    it.work()

    steps, until = 0, time.monotonic() + 20 * STEP_WAIT
    while time.monotonic() < until:
        assert not commit.advance()
        steps += 1

    assert steps < 40, "each step waits, all but the few that came before"


def test_changelogs_of_very_many_stores_are_sent_in_several_steps() -> None:
    """Records are fetched between two steps."""

    def steps(partitions: int) -> int:
        it = Instance(partitions=partitions)
        for task in range(partitions):
            it.read("a", task=task)
        commit, count = it.commit(), 0
        commit.advance()
        it.work()
        while not any(event.startswith("committed") for event in it.producer.events):
            commit.advance()
            count += 1
        return count

    assert steps(301) >= steps(1) + 3

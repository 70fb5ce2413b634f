"""Joins of tasks that were replicas in between: the records that waited meanwhile, at others, count."""

from __future__ import annotations

from streamsapp import Consumed, JoinWindows, Produced, Serdes, StreamJoined, StreamsBuilder, Topology
from streamsapp.record import RawRecord
from streamsapp.tasks.states import TaskRole
from streamsapp.testing import TopologyTestDriver

TEXT, BYTES = Serdes.string(), Serdes.bytes()
STORE = "pairs-left-shared-join-store"


def _topology() -> Topology:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, Consumed(TEXT, TEXT)) for topic in ("left", "right"))
    options = StreamJoined(TEXT, TEXT, TEXT, store_name="pairs")
    joined = left.left_join(right, lambda one, other: f"{one}+{other}", JoinWindows.of(10), options)
    joined.to("out", Produced(TEXT, TEXT))
    return builder.build()


def _was_replica(driver: TopologyTestDriver, changelog: list[RawRecord]) -> None:
    """The driver's task is given up, follows the changelog of the records that wait, and comes back."""
    task = driver._tasks[0]
    task.close_user_code()
    replica = task.recycled(TaskRole.STANDBY)
    replica.stores.restore(STORE, changelog, len(changelog))
    driver._tasks[0] = replica.recycled(TaskRole.ACTIVE)
    driver._tasks[0].initialize()


def test_a_record_that_waits_since_the_task_was_a_replica_is_sent_when_its_window_closes() -> None:
    with TopologyTestDriver(_topology()) as elsewhere, TopologyTestDriver(_topology()) as here:
        lefts = here.create_input_topic("left", TEXT, TEXT)
        lefts.pipe_input("k", "first", 0)
        lefts.pipe_input("k", "second", 100)  # sends the first
        here.create_input_topic("right", TEXT, TEXT).pipe_input("k", "partner", 100)  # nothing waits any more

        elsewhere.create_input_topic("left", TEXT, TEXT).pipe_input("k", "waits", 95)
        topic = elsewhere._tasks[0].plan.changelogs[STORE].topic
        written = elsewhere.create_output_topic(topic, BYTES, BYTES).read_records()
        _was_replica(here, [RawRecord(topic, 0, 0, each.key, each.value, each.timestamp, None) for each in written])
        here.advance_wall_clock_time(10_000)
        lefts.pipe_input("k", "last", 200)

        results = [each.value for each in here.create_output_topic("out", TEXT, TEXT).read_records()]
        assert results == ["first+None", "second+partner", "waits+None"]

"""A task deletes what is over before the record that moves time so far, in bounded steps that commits may divide."""

from __future__ import annotations

import pytest

from streamsapp import Consumed, Materialized, Serdes, StreamsBuilder, TopicPartition, Topology
from streamsapp.tasks.stream_task import StreamTask
from task_parts import feed, raw, task_of

TEXT = Consumed(Serdes.string(), Serdes.string())
IN = TopicPartition("in", 0)


def table(ttl: int = 10) -> Topology:
    builder = StreamsBuilder()
    builder.table("in", TEXT, Materialized("rows", store="memory", ttl=ttl)).to_stream().to("out")
    return builder.build()


def keys(task: StreamTask) -> list[tuple[bytes | None, bytes | None, int]]:
    return [(record[2], record[1], record[6]) for record in task.take_output()]


def filled(count: int) -> StreamTask:
    task = task_of(table())
    feed(task, (raw(number, 0, key=b"%d" % number) for number in range(count)))
    while task.buffered_records:
        task.process(task.control, 100)
    task.take_output()
    return task


def test_a_step_deletes_as_many_entries_as_it_would_take_records_and_the_record_waits() -> None:
    task = filled(7)
    feed(task, [raw(7, 50, key=b"new")])
    steps = []
    while task.buffered_records:
        steps.append((task.process(task.control, 3), [key for key, _, _ in keys(task)]))
    assert steps == [(0, [b"0", b"1", b"2"]), (0, [b"3", b"4", b"5"]), (1, [b"6", b"new"])]
    assert not task.is_expiring


def test_a_task_that_has_more_to_delete_is_ready() -> None:
    task = filled(3)
    feed(task, [raw(3, 50, key=b"new")])
    task.process(task.control, 1)
    assert task.is_expiring
    assert task.wait_ms(0) == 0


def test_a_commit_between_two_steps_has_the_time_that_was_moved() -> None:
    task = filled(3)
    first = task.freeze()
    assert first is not None
    assert (first.offsets[IN].offset, first.offsets[IN].partition_time) == (3, 0)
    for _ in task.stores.apply(first.frozen, {}):
        pass
    feed(task, [raw(3, 50, key=b"new")])
    task.process(task.control, 1)
    middle = task.freeze()
    assert middle is not None
    assert (middle.offsets[IN].offset, middle.offsets[IN].partition_time) == (3, 50)
    for _ in task.stores.apply(middle.frozen, {}):
        pass
    while task.buffered_records:
        task.process(task.control, 1)
    last = task.freeze()
    assert last is not None
    assert (last.offsets[IN].offset, last.offsets[IN].partition_time) == (4, 50)


def test_a_stop_is_obeyed_between_two_deletions() -> None:
    task = filled(3)
    feed(task, [raw(3, 50, key=b"new")])
    task.process(task.control, 1)
    task.control.stop = True
    assert task.process(task.control, 100) == 0
    assert task.is_expiring
    task.control.stop = False
    assert task.process(task.control, 100) == 1


def test_deletions_have_no_record_and_the_time_at_which_the_row_was_over() -> None:
    task = filled(1)
    feed(task, [raw(1, 50, key=b"new")])
    assert task.process(task.control, 10) == 1
    assert keys(task) == [(b"0", None, 10), (b"new", b"v", 50)]


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_steps_do_not_change_the_order_of_inputs(limit: int) -> None:
    def run(ttl: int) -> list[bytes | None]:
        builder = StreamsBuilder()
        left = builder.table("left", TEXT, Materialized("l", store="memory", ttl=ttl))
        right = builder.table("right", TEXT, Materialized("r", store="memory", ttl=ttl))
        left.outer_join(right, lambda one, two: f"{one}{two}").to_stream().to("out")
        task = task_of(builder.build())
        for topic in ("left", "right"):
            records = [(number, 20 * (number // 2)) for number in range(12)]
            feed(task, (raw(n, at, topic=topic, key=b"%s%d" % (topic.encode(), n)) for n, at in records))
        while task.buffered_records:
            task.process(task.control, limit)
        return [key for key, value, _ in keys(task) if value is not None]

    assert run(10) == run(1 << 40)

"""Results held for the commit that a processing thread sends in slices: results that come meanwhile."""

from __future__ import annotations

from queue import SimpleQueue

from streamsapp import Consumed, Materialized, Produced, Serdes, StreamsBuilder, TimeWindows, TopicPartition, Topology
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.outgoing import OutputRecord
from streamsapp.runtime.processing import BATCH, EMIT_BATCH, EMIT_REST, ProcessingThread
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.testing import MockClock
from task_parts import feed, raw, task_of


def _counting() -> Topology:
    text, builder = Serdes.string(), StreamsBuilder()
    kept = Materialized("counts", text, Serdes.long(), store="memory", emit="commit")
    counts = builder.stream("in", Consumed(text, text)).group_by_key().count(kept)
    counts.to_stream().to("out", Produced(text, Serdes.long()))
    return builder.build()


def test_results_that_come_while_others_are_emitted_in_slices_belong_to_the_epoch_of_their_records() -> None:
    task, tasks, collector = task_of(_counting()), TaskManager(MostBufferedFirst()), RecordCollector(100_000)
    tasks.add(task)
    early = 2 * EMIT_BATCH + EMIT_REST // 2
    feed(task, [raw(offset, key=b"%d" % offset) for offset in range(early)])
    tasks.take(0)
    task.process(task.control, early)
    tasks.give_back(task, more=True)
    feed(task, [raw(early, key=b"late")])
    end = tasks.end_epochs()

    ProcessingThread("worker", tasks, collector, SimpleQueue(), MockClock())._run_once()

    sent: list[OutputRecord] = []
    collector.drain(lambda batch: sent.extend(batch) or [], 100_000)  # type: ignore[func-returns-value]
    (epoch,) = end.epochs
    assert len(sent) == epoch.offsets[TopicPartition("in", 0)].offset


def _counting_hops() -> Topology:
    """Each record counts in eight windows."""
    text, builder = Serdes.string(), StreamsBuilder()
    kept = Materialized("counts", text, Serdes.long(), store="memory", emit="commit")
    grouped = builder.stream("in", Consumed(text, text)).group_by_key()
    counts = grouped.windowed_by(TimeWindows.of(800).advance_by(100)).count(kept)
    counts.to_stream().to("out")
    return builder.build()


def test_a_commit_ends_though_the_input_at_hand_would_hold_more_results_than_are_sent_at_a_time() -> None:
    task, tasks, collector = task_of(_counting_hops()), TaskManager(MostBufferedFirst()), RecordCollector(1_000_000)
    tasks.add(task)
    at_hand = 50 * BATCH
    feed(task, [raw(offset, 1_000, key=b"%d" % offset) for offset in range(at_hand)])
    tasks.take(0)
    before = task.process(task.control, BATCH)
    tasks.give_back(task, more=True)
    end = tasks.end_epochs()
    worker = ProcessingThread("worker", tasks, collector, SimpleQueue(), MockClock())
    while not end.done:
        worker._run_once()

    (epoch,) = end.epochs
    assert epoch.offsets[TopicPartition("in", 0)].offset == before


def test_the_times_of_results_go_up_as_those_of_the_records_did_though_others_come_while_they_are_sent() -> None:
    task, tasks, collector = task_of(_counting()), TaskManager(MostBufferedFirst()), RecordCollector(100_000)
    tasks.add(task)
    early = 3 * EMIT_BATCH
    feed(task, [raw(offset, offset, key=b"%d" % offset) for offset in range(early)])
    tasks.take(0)
    task.process(task.control, early)
    tasks.give_back(task, more=True)
    # A key whose result is in the slice after the first one.
    feed(task, [raw(early, early, key=b"%d" % (EMIT_BATCH + 1))])
    tasks.end_epochs()

    ProcessingThread("worker", tasks, collector, SimpleQueue(), MockClock())._run_once()

    sent: list[OutputRecord] = []
    collector.drain(lambda batch: sent.extend(batch) or [], 100_000)  # type: ignore[func-returns-value]
    times = [timestamp for *_, timestamp, _ in sent]
    assert len(times) == early
    assert times == sorted(times)

"""Results held for the commit that a processing thread sends in slices: those that come meanwhile."""

from __future__ import annotations

from queue import SimpleQueue

from streamsapp import Consumed, Materialized, Produced, Serdes, StreamsBuilder, TopicPartition, Topology
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.runtime.processing import EMIT_BATCH, EMIT_REST, ProcessingThread
from streamsapp.tasks.output import OutputRecord
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

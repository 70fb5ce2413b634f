"""One lane in a process: its tasks, and the transaction that commits what they do in a batch.

    begin     offsets are announced to the group: a client that asks for them waits for the transaction, and a group
              that has members refuses
    process   tasks are given their input, in the order of their records' times
    commit    epochs end; results, changelogs and offsets are one transaction; the stores take the writes in

The producer is kept from batch to batch. Used on the thread that runs lanes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from streamsapp.clock import Clock
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import FencedError, StreamsError
from streamsapp.kafka.producer import ExactlyOnceProducer
from streamsapp.kafka.refusals import Refusals
from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.commit import Commit
from streamsapp.runtime.micro_batches.inputs import LaneInputs
from streamsapp.runtime.micro_batches.lanes import NoMember, transactional_id
from streamsapp.runtime.micro_batches.model import LaneOrder, LaneTaskReport
from streamsapp.runtime.micro_batches.state_rows import StateRows
from streamsapp.runtime.production_errors import ProductionErrors
from streamsapp.runtime.topics_created_anew import offsets_of_others
from streamsapp.tasks.record_queue import ProcessingControl
from streamsapp.tasks.stream_task import StreamTask, TaskEpoch
from streamsapp.tasks.task_manager import EpochEnd

#: Records between two looks at what is to be sent, and how many are handed to the client at a time.
_SLICE, _DRAIN = 2_000, 4_000
#: Results that wait here at most.
_WAITING = 50_000
#: Between two steps of a commit, in seconds.
_PAUSE = 0.0002
#: The topic of a record that is sent.
_TOPIC = itemgetter(0)


class MovedOnError(StreamsError):
    """Others have run the tasks since this process did."""


class Lane:
    """A number, a producer, and what its tasks did since the last commit."""

    def __init__(
        self,
        number: int,
        config: StreamsConfig,
        layout: ApplicationLayout,
        inputs: LaneInputs,
        clock: Clock,
        refusals: Refusals | None = None,
    ) -> None:
        """Fences the process that had the lane before. With ``refusals``, those of the lane that failed here before, a
        record that cannot be written is named."""
        self.number = number
        #: The tasks that are open here.
        self.tasks: set[TaskId] = set()
        self._clock = clock
        self._inputs = inputs
        self._give_up_after = config.max_poll_interval_ms / 1000
        self._collector = RecordCollector(_WAITING)
        failures = ProductionErrors(config, self._collector, clock)
        failures.dead_letters = layout.dead_letters
        properties = client_properties.producer(config, transactional_id(config.application_id, number))
        self._producer = ExactlyOnceProducer(
            properties, failures.failed, clock, reports=refusals is not None, refusals=refusals
        )
        self._group = NoMember(config.application_id)
        #: Offsets and metadata as this lane committed them last, or found them.
        self.committed: dict[TopicPartition, tuple[int, str]] = {}
        #: The offsets of tasks' snapshots, where the group has none.
        self.adopted: dict[TopicPartition, tuple[int, str]] = {}
        self._kept = False
        self._work: dict[TaskId, _Work] = {}
        self._reports = _Reports()
        self._internal = layout.repartition_topics
        self._control = ProcessingControl()
        self._producer.start()

    def close(self) -> None:
        """Abort the uncommitted transaction."""
        self._producer.abort()
        self._producer.close()

    def begin(self, tasks: Sequence[StreamTask], starts: Mapping[TopicPartition, int]) -> None:
        """Begin the transaction. Raises ``MovedOnError`` if the group stands elsewhere than the tasks; ``starts`` are
        where they begin as long as it stands nowhere, and no snapshot does."""
        partitions = [each for task in tasks for each in task.plan.inputs]
        known_here = {each: (at, "") for each, at in starts.items()} | self.adopted | self.committed
        here = {each: known_here[each] for each in partitions}
        self._work = {task.id: _Work(announced={each: here[each] for each in task.plan.inputs}) for task in tasks}
        try:
            self._producer.announce(here, self._group)
        except FencedError as error:
            if self._kept:  # others had the lane meanwhile, and it has come back
                raise MovedOnError(str(error)) from error
            raise
        self._kept = True
        # Not before: between the two others could have begun, and ended.
        there = self._inputs.committed(partitions)
        topics = {name: topic for task in tasks for name, topic in task.topics.items()}
        of_others = offsets_of_others(there, topics)
        for partition in partitions:
            known, found = _offset(self.committed, partition), _offset(there, partition)
            if found != known and partition not in of_others:
                raise MovedOnError(f"tasks stand at offset {known} of {partition}, and the group at {found}")

    # ---- processing --------------------------------------------------------------------------------------------

    def process(self, tasks: Sequence[StreamTask], order: LaneOrder, alive: Callable[[], object]) -> None:
        """Everything up to the targets, as far as the tasks do not wait for one input before they go on with another
        (KIP-695)."""
        targets = {each: target for it in order.tasks for each, target in it.targets.items()}
        self._punctuate(tasks)
        since = time.monotonic()
        waiting = self._inputs.give(targets)
        while self._process(tasks) or waiting:
            alive()
            if not waiting:
                continue
            self._inputs.resume(waiting)
            if self._inputs.fetch(wait=True):
                since = time.monotonic()
            self._inputs.stalled(waiting, time.monotonic() - since)
            waiting = self._inputs.give({each: targets[each] for each in waiting})

    def process_given(self, tasks: Sequence[StreamTask], alive: Callable[[], object]) -> None:
        """Everything that the tasks have been given, as far as they do not wait for other input."""
        self._punctuate(tasks)
        while self._process(tasks):
            alive()

    def is_due(self, task: StreamTask) -> bool:
        """Says whether a task can do something now."""
        now = self._clock.now_ms()
        return task.wait_ms(now) == 0 or task.context.wall_clock_punctuation.next_due <= now

    def _punctuate(self, tasks: Iterable[StreamTask]) -> None:
        for task in tasks:
            task.punctuate()
            self._send(task)

    def _process(self, tasks: Iterable[StreamTask]) -> int:
        """One round; how many records were taken."""
        taken = 0
        for task in tasks:
            while task.wait_ms(self._clock.now_ms()) == 0:
                count = task.process(self._control, _SLICE)
                self._work[task.id].records += count
                taken += count
                self._send(task)
                if not count and not task.is_expiring:
                    break
        return taken

    def _send(self, task: StreamTask) -> None:
        if task.has_output:
            output = task.take_output()
            work = self._work[task.id]
            work.outputs += len(output)
            if self._internal:
                work.passed_on += sum(map(self._internal.__contains__, map(_TOPIC, output)))
            self._collector.add(output, epoch=0)
        while not self._collector.drained:
            self._collector.drain(self._producer.send, _DRAIN)
            self._producer.poll()

    # ---- committing --------------------------------------------------------------------------------------------

    def commit(self, tasks: Iterable[StreamTask]) -> float:
        """End the epochs and commit them; the seconds that took. Raises what a commit of an instance raises."""
        began = time.monotonic()
        ended = []
        for task in tasks:
            task.emit_all_held()
            self._send(task)
            ended.append(task.freeze())
        epochs = [epoch for epoch in ended if epoch is not None]
        for task_id, work in self._work.items():
            self._reports.done.setdefault(task_id, _Done()).add(work)
        if not epochs and not any(work.outputs for work in self._work.values()):
            self._producer.abort()
            return time.monotonic() - began
        commit = Commit(_Ended(epochs), self._collector, self._producer, self._group, self._clock, self._give_up_after,
                        self._inputs.confirm)  # fmt: skip
        while not commit.advance():
            time.sleep(_PAUSE)
        # An input without a record stays where it was announced, though all up to its target has been passed over.
        for work in self._work.values():
            self.committed |= work.announced
        for epoch in epochs:
            self.committed |= {each: (at.offset, at.metadata) for each, at in epoch.offsets.items()}
        return time.monotonic() - began

    def has_news(self, task: StreamTask) -> bool:
        """Says whether a task has done or passed over anything since it was reported."""
        return task.id in self._reports.done or self._reports.places.get(task.id) != self._places(task)

    def report(self, task: StreamTask) -> LaneTaskReport:
        """Tell what a task did since it was reported."""
        self._reports.places[task.id] = self._places(task)
        done, statistics = self._reports.done.pop(task.id, _Done()), task.stores.statistics()
        return LaneTaskReport(
            task.id,
            done.records,
            done.outputs,
            {partition: self._position(task, partition) for partition in task.plan.inputs},
            dict(task.committed_offsets),
            self._reports.state_rows.of(task.id, task.stores, statistics),
            sum(
                each.get("total_sst_files_size", 0) + each.get("cur_size_all_mem_tables", 0)
                for each in statistics.values()
            ),
            task.context.dropped_records,
            dict(task.changelog_positions),
            self._due_at_ms(task),
            done.passed_on,
        )

    def _places(self, task: StreamTask) -> list[int]:
        return [self._inputs.given[each] for each in task.plan.inputs]

    def _position(self, task: StreamTask, partition: TopicPartition) -> int:
        queue = task.queues[partition]
        given = self._inputs.given[partition]
        return min(given, queue.position or 0) if queue else given

    def _due_at_ms(self, task: StreamTask) -> int | None:
        now = self._clock.now_ms()
        wait = task.wait_ms(now)
        due = min(task.context.wall_clock_punctuation.next_due, math.inf if wait is None else now + wait)
        return None if due == math.inf else int(due)


@dataclass
class _Done:
    """The work of one task, as :class:`LaneTaskReport` reports it."""

    records: int = 0
    outputs: int = 0
    passed_on: int = 0

    def add(self, more: _Done) -> None:
        self.records += more.records
        self.outputs += more.outputs
        self.passed_on += more.passed_on


@dataclass
class _Reports:
    """The things that reports of tasks are made of."""

    #: The work that was done since the tasks were reported.
    done: dict[TaskId, _Done] = field(default_factory=dict)
    #: How far the inputs of each task had been read when it was reported.
    places: dict[TaskId, list[int]] = field(default_factory=dict)
    state_rows: StateRows = field(default_factory=StateRows)


@dataclass
class _Work(_Done):
    """The work of one task since the lane began."""

    #: The offsets that are committed for inputs without any processed record.
    announced: Mapping[TopicPartition, tuple[int, str]] = field(default_factory=dict)


class _Ended:
    """Epochs that have ended already."""

    def __init__(self, epochs: list[TaskEpoch]) -> None:
        self._epochs = epochs

    def end_epochs(self, *, input_first: bool = False) -> EpochEnd:
        end = EpochEnd(set())
        end.epochs = self._epochs
        return end

    def leave_out(self) -> None:
        """No task of a batch is apart from the others."""

    def end_epochs_now(self) -> None:
        """All have ended."""

    @property
    def resting(self) -> bool:
        return True

    def wait_for_progress(self, timeout: float) -> None:
        """Nothing is under way."""
        time.sleep(min(timeout, _PAUSE))


def _offset(committed: Mapping[TopicPartition, tuple[int, str]], partition: TopicPartition) -> int | None:
    return None if partition not in committed else committed[partition][0]

"""The state of one task that all its nodes share: the record in process, time, scheduled callbacks.

Made on the polling thread with the task; read and written on the processing thread that holds the task.
"""

from __future__ import annotations

from typing import NamedTuple

from streamsapp.clock import Clock
from streamsapp.processor.async_calls import TaskCalls
from streamsapp.processor.operator import Tally
from streamsapp.record import InputRecord, RecordMetadata, TaskId
from streamsapp.tasks.lateness import Lateness
from streamsapp.tasks.processor_metadata import ProcessorMetadata
from streamsapp.tasks.punctuation import Firing, PunctuationQueue
from streamsapp.tasks.record_errors import TaskRecordErrors
from streamsapp.tasks.repeated_warnings import RepeatedWarnings

#: Results that wait for a window to close are looked for at most once in so many milliseconds of wall-clock time, as in
#: Kafka Streams (``__emit.interval.ms.kstreams.windowed.aggregation__``).
EMIT_INTERVAL_MS = 1000


class Execution(NamedTuple):
    """The way in which a task is run."""

    emit_interval_ms: int
    #: Says whether its foreign-key joins go on from an answer that came too late.
    asks_again: bool
    #: Says whether changes of a grouped table are combined until the commit.
    combines: bool
    #: Says whether a grouped row that was not there has the initial aggregate for its old value, as in Kafka Streams
    #: without record caches, whatever the program says.
    without_caches: bool = False
    #: Says whether the input is history, in which the offsets of repartition topics are the replay's own.
    over_history: bool = False
    #: Of the one task: its calls of coroutine functions. None are made where nothing else is said.
    calls: TaskCalls = TaskCalls(None)


def by_instance() -> Execution:
    """Run by an instance, or by an engine."""
    return Execution(EMIT_INTERVAL_MS, asks_again=True, combines=True)


def record_by_record() -> Execution:
    """Run by a test driver, which writes what Kafka Streams' test driver writes, record for record."""
    return Execution(0, asks_again=False, combines=False)


def over_history() -> Execution:
    """In the past: each record looks for results of closed windows, and each change goes to its group, as how fast
    records come must not matter."""
    return Execution(0, asks_again=True, combines=False, over_history=True)


class TaskContext:
    """State of one task that its nodes share. Plain attributes: they are touched for every record."""

    __slots__ = (
        "application_id",
        "clock",
        "commit_requested",
        "counts",
        "execution",
        "lateness",
        "message",
        "observed_topics",
        "processor_metadata",
        "record_errors",
        "stream_time",
        "stream_time_punctuation",
        "task_id",
        "timestamp",
        "wall_clock_punctuation",
    )

    def __init__(self, application_id: str, task_id: TaskId, clock: Clock, execution: Execution | None = None) -> None:
        self.application_id = application_id
        self.task_id = task_id
        self.clock = clock
        self.execution = execution or by_instance()
        self.lateness = Lateness()
        #: The counters of single nodes, by node and metric.
        self.counts: dict[tuple[str, str], Tally] = {}
        #: The records that it could not process, by reason and node; kept when the task starts again.
        warnings = RepeatedWarnings(clock, f"task {task_id}, ")
        self.record_errors = TaskRecordErrors(warnings)
        #: Topics for which user code has asked for a record's offset. A replay from elsewhere cannot repeat these.
        self.observed_topics: set[str] = set()
        self.reset()

    @property
    def dropped_records(self) -> int:
        """The records that were skipped by rule, or given up by a handler, and the results that were not written."""
        return self.record_errors.dropped + self.record_errors.unwritten.dropped

    @property
    def firing(self) -> Firing | None:
        """The callback that is called now."""
        return self.wall_clock_punctuation.firing or self.stream_time_punctuation.firing

    def counter(self, node: str, metric: str) -> Tally:
        """A number of a node for ``/metrics``."""
        return self.counts.setdefault((node, metric), Tally())

    def reset(self) -> None:
        """Be as before the first record: the task starts again from the last commit."""
        #: The raw record in process; ``None`` in punctuators and while results held for a commit are emitted.
        self.message: InputRecord | None = None
        #: Timestamp that plain stores log their writes with: that of the record at the node that writes.
        self.timestamp = -1
        #: Highest timestamp processed so far; -1 before the first record.
        self.stream_time = -1
        self.processor_metadata = ProcessorMetadata()
        self.commit_requested = False
        self.stream_time_punctuation = PunctuationQueue()
        self.wall_clock_punctuation = PunctuationQueue()

    def metadata(self) -> RecordMetadata | None:
        """The place from which the record in process was read."""
        message = self.message
        if message is None:
            return None
        topic = message.topic()
        self.observed_topics.add(topic)
        return RecordMetadata(topic, message.partition(), message.offset())

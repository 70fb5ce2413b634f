"""Tasks and their parts for unit tests: no broker, no disk, no threads; the same code the runtime runs.

Called by the tests of tasks, collector and runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from streamsapp import Processor, ProcessorContext, Record, Serdes, StreamsConfig, TaskId, TopicPartition, Topology
from streamsapp.clock import Clock
from streamsapp.outgoing import OutputRecord
from streamsapp.record import Headers, RawRecord
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.task_stores import TaskStores
from streamsapp.tasks.dead_letters import DeadLetters
from streamsapp.tasks.failures import FailureHandling
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_context import TaskContext
from streamsapp.tasks.task_plan import TaskPlan
from streamsapp.testing import MockClock

#: The arguments that a push function was given.
Pushed = tuple[Any, Any, int, Headers | None]


def config(**settings: Any) -> StreamsConfig:
    """A configuration that no test connects anywhere with."""
    text = {"default_key_serde": Serdes.string(), "default_value_serde": Serdes.string()}
    return StreamsConfig(**{"application_id": "app", "bootstrap_servers": "none:9092", **text, **settings})


def handling(
    context: TaskContext, settings: StreamsConfig, emitted: list[OutputRecord] | None = None
) -> FailureHandling:
    """The exception handlers of a configuration; dead letters go to ``emitted``."""
    return FailureHandling(
        context,
        ([] if emitted is None else emitted).append,
        DeadLetters(settings.dead_letter_queue_topic),
        settings.on_deserialization_error,
        settings.on_processing_error,
        settings.on_production_error,
    )


def raw(
    offset: int,
    timestamp: int = 0,
    *,
    topic: str = "in",
    partition: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Headers | None = None,
) -> RawRecord:
    """An input record."""
    return RawRecord(topic, partition, offset, key, value, timestamp, headers)


class Recorder:
    """A push function that remembers what it was given."""

    def __init__(self) -> None:
        self.pushed: list[Pushed] = []

    def __call__(self, key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        self.pushed.append((key, value, timestamp, headers))

    @property
    def timestamps(self) -> list[int]:
        return [timestamp for _, _, timestamp, _ in self.pushed]


class Each(Processor):
    """A processor made of one function ``(context, record)``."""

    def __init__(self, function: Callable[[ProcessorContext, Record], None]) -> None:
        self._function = function

    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process(self, record: Record) -> None:
        self._function(self._context, record)


def forwards(context: ProcessorContext, record: Record) -> None:
    """The processor that changes nothing."""
    context.forward(record)


def through(
    function: Callable[[ProcessorContext, Record], None] = forwards, topics: Sequence[str] = ("in",)
) -> Topology:
    """``topics`` → a processor → ``out``."""
    topology = Topology()
    topology.add_source("source", *topics)
    topology.add_processor("node", lambda: Each(function), "source")
    return topology.add_sink("sink", "out", "node")


def task_of(
    topology: Topology,
    number: int = 0,
    *,
    clock: Clock | None = None,
    settings: StreamsConfig | None = None,
    running: bool = True,
    subtopology: int = 0,
) -> StreamTask:
    """A task of one partition of one sub-topology; its stores must be in memory."""
    settings = settings or config()
    part = topology.sub_topologies()[subtopology]
    task_id = TaskId(part.id, number)
    plan = TaskPlan(
        id=task_id,
        sub_topology=part,
        inputs={TopicPartition(topic, number): node for node in part.sources for topic in node.topics},
        changelogs={s.name: TopicPartition(f"app-{s.name}-changelog", number) for s in part.stores if s.logging},
        source_changelogs={},
        topic_name=str,
        partition_count=lambda topic: 4,
    )
    context = TaskContext("app", task_id, clock or MockClock())
    stores = TaskStores(
        task_id,
        Path("no-directory-is-needed-in-memory"),
        part.stores,
        StateResources(),
        default_serdes=(settings.default_key_serde, settings.default_value_serde),
        context_timestamp=lambda: context.timestamp,
    )
    task = StreamTask(plan, stores, context, settings)
    if running:
        run(task)
    return task


def run(task: StreamTask) -> None:
    """Does to a task without a changelog what restoring does."""
    task.stores.open()
    task.transition(TaskState.RESTORING)
    task.changelog_positions.update(dict.fromkeys(task.plan.changelogs, 0))
    task.initialize()


def feed(task: StreamTask, records: Iterable[RawRecord]) -> None:
    """Put records into the input buffers, each as a batch of its own."""
    for record in records:
        task.add_records(TopicPartition(record.topic(), record.partition()), [record])


def sent(topology: Topology, *records: Any, settings: StreamsConfig | None = None) -> list[OutputRecord]:
    """Returns the records that a task of the topology sends for these."""
    task = task_of(topology, settings=settings)
    return sent_by(task, *records)


def sent_by(task: StreamTask, *records: Any) -> list[OutputRecord]:
    feed(task, records or [raw(0, 5)])
    while task.buffered_records:
        task.process(task.control, 100)
    return task.take_output()


def topics(output: list[OutputRecord]) -> list[str]:
    return [record[0] for record in output]

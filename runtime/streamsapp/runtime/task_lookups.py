"""Asks brokers what a task needs to begin: the topics that its names stand for, where the group goes on in its inputs,
and where its changelogs begin and end.

Called by the restoration thread, which asks for all tasks that have just arrived, and takes the answer later. A round
of questions has threads of its own, on which all is asked at the same time: while a broker takes long, or a transaction
that a dead instance left open is aborted, other tasks come and go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.fetching.fetched import Topics
from streamsapp.kafka.partition_offsets import Offsets
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.changelog_positions import ends
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask

T = TypeVar("T")
#: The first and the next offset of changelogs, or why they are not known.
Ends: TypeAlias = tuple[Offsets, Offsets] | KafkaException


@dataclass(frozen=True)
class LookupAnswers:
    """The answers of one round."""

    #: When it was asked, in milliseconds of the wall clock.
    asked_at_ms: int
    topics: Topics
    #: Offset and metadata, of the inputs for which the group has one.
    committed: Mapping[TopicPartition, tuple[int, str]]
    ends: Mapping[TaskId, Ends]


def in_background(work: Callable[[], None]) -> None:
    """Begin work that no thread waits for at the end of the instance."""
    threading.Thread(target=work, name="look-up", daemon=True).start()


class TaskLookups:
    """Asks for several tasks at a time."""

    def __init__(
        self,
        consumer: PartitionConsumer,
        admin: TopicAdmin,
        clock: Clock,
        start: Callable[[Callable[[], None]], None] = in_background,
    ) -> None:
        """``start`` begins work, on another thread."""
        self._consumer = consumer
        self._admin = admin
        self._clock = clock
        self._start = start

    def begin(self, tasks: Sequence[StreamTask], done: Callable[[LookupAnswers | Exception], None]) -> None:
        """Ask; ``done`` gets the answers, or why there are none, on another thread."""

        def look_up() -> None:
            try:
                found: LookupAnswers | Exception = self._found(tasks)
            except Exception as error:
                found = error
            done(found)

        self._start(look_up)

    def _found(self, tasks: Sequence[StreamTask]) -> LookupAnswers:
        asked_at_ms = self._clock.now_ms()
        names = {each.topic for task in tasks for each in (*task.plan.inputs, *task.plan.all_changelogs.values())}
        # Replicas go on in inputs only where these are their changelogs.
        reading = [task for task in tasks if task.role is TaskRole.ACTIVE or task.plan.source_changelogs]
        topics = self._begun(lambda: self._consumer.topics(names))
        committed = self._begun(lambda: self._consumer.committed([each for it in reading for each in it.plan.inputs]))
        found = self._ends(tasks)
        return LookupAnswers(asked_at_ms, topics.result(), committed.result(), found)

    def _ends(self, tasks: Sequence[StreamTask]) -> Mapping[TaskId, Ends]:
        """Asks for the ends of all changelogs at once; if that fails for any, for those of each task alone."""
        try:
            together = ends(self._admin, [each for task in tasks for each in task.plan.all_changelogs.values()])
        except KafkaException as error:
            if len(tasks) == 1:
                return {tasks[0].id: error}
            alone = {task.id: self._begun(lambda task=task: self._ends([task])) for task in tasks}  # type: ignore[misc]
            return {task_id: asked.result()[task_id] for task_id, asked in alone.items()}
        return dict.fromkeys((task.id for task in tasks), together)

    def _begun(self, request: Callable[[], T]) -> Future[T]:
        outcome: Future[T] = Future()

        def ask() -> None:
            try:
                outcome.set_result(request())
            except Exception as error:
                outcome.set_exception(error)

        self._start(ask)
        return outcome

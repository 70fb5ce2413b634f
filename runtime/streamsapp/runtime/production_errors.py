"""Records that the producer could not write: the production exception handler decides (KIP-210, KIP-1034).

Called on the polling thread, for refusals at once and for failed deliveries when the client reports them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError

from streamsapp.clock import Clock
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import ProductionError, StreamsAppError
from streamsapp.kafka.refusals import FORBIDDEN, production_error
from streamsapp.processor.handlers import ErrorContext, Response
from streamsapp.record import InputRecord, TaskId
from streamsapp.tasks.dead_letters import DeadLetters
from streamsapp.tasks.repeated_warnings import RepeatedWarnings
from streamsapp.tasks.stream_task import StreamTask

log = logging.getLogger(__name__)

#: A record that failed to be written is no longer tied to a task.
_NO_TASK = TaskId(-1, -1)


class ProductionErrors:
    """Applies the production exception handler."""

    def __init__(self, config: StreamsConfig, collector: RecordCollector, clock: Clock) -> None:
        self._handler = config.on_production_error
        #: Replaced when the topics are known.
        self.dead_letters = DeadLetters(config.dead_letter_queue_topic)
        self._collector = collector
        self._clock = clock
        #: The active tasks; replaced when there may be any.
        self.tasks: Callable[[], Sequence[StreamTask]] = list
        self._internal_prefix = f"{config.application_id}-"
        self.dropped = 0
        self._warnings = RepeatedWarnings(clock)

    def failed(self, error: KafkaError, record: InputRecord) -> None:
        """Returns to go on without the record; raises ``ProductionError`` to fail."""
        failure, topic = production_error(error, record), record.topic()
        if topic == self.dead_letters.topic or self._is_changelog(topic) or error.code() in FORBIDDEN:
            raise failure  # dropping it would lose state, or the dead letter itself; or every record
        tasks = [task for task in self.tasks() if task.sinks_of(topic)]
        described = ErrorContext(
            task_id=tasks[0].id if len(tasks) == 1 else _NO_TASK,
            node=tasks[0].sinks_of(topic)[0] if tasks else "producer",
            topic=topic,
            partition=record.partition() if (record.partition() or 0) >= 0 else None,
            offset=None,
            timestamp=record.timestamp()[1],
            headers=list(record.headers() or ()),
            key=record.key(),
            value=record.value(),
        )
        response = self._asked(described, failure)
        if tasks:
            failure = self._remembered(tasks, described, failure, response)
        if response is Response.DEAD_LETTER:
            # Its own time may be the reason why it was refused.
            self._collector.add([self.dead_letters.letter(described, failure, self._clock.now_ms())], epoch=0)
        elif response is not Response.CONTINUE:  # a handler that forgot to return one has not allowed anything
            raise failure
        self.dropped += 1
        told = f"the production exception handler answers {response.value}"
        level = self._warnings.level(f"topic {topic}, {error.name()}; {told}")
        log.log(level, "%s; %s", failure, told)

    def tell_due(self) -> None:
        """Writes the log lines about records of the last minute."""
        self._warnings.tell_due(self._clock.now_ms())

    def end(self) -> None:
        """Writes the log lines that are left."""
        self._warnings.tell_all()

    def _remembered(
        self, tasks: Sequence[StreamTask], described: ErrorContext, failure: ProductionError, response: object
    ) -> ProductionError:
        """Notes the record with the first task that may have sent it: on its way nothing says which one it was, nor
        which record it is a result of. Returns the failure with both."""
        first, names = tasks[0], ", ".join(str(task.id) for task in tasks)
        read = first.read_so_far
        one_of = f"task {names}" if len(tasks) == 1 else f"one of the tasks {names}"
        told = ProductionError(f"{failure}; sent by node {described.node}, {one_of}, for a record of {read}")
        told.happened_at = {"task": str(first.id), "node": described.node, "record": read}
        outcome = response.value if isinstance(response, Response) else Response.FAIL.value
        first.context.record_errors.unwritten.add(described, self._clock.now_ms(), outcome, str(told), read)
        return told

    def _asked(self, described: ErrorContext, failure: ProductionError) -> Response:
        try:
            return self._handler(described, failure)
        except StreamsAppError:
            raise
        except Exception as error:
            raise ProductionError(
                f"{failure}; the production exception handler raised {type(error).__name__}: {error}"
            ) from error

    def _is_changelog(self, topic: str) -> bool:
        return topic.startswith(self._internal_prefix) and topic.endswith("-changelog")

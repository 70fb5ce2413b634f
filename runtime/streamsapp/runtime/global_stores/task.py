"""The task that fills the global stores: one processor per store runs on every record of its topic.

Called by the global thread, and by the test driver, on one thread. A processor here sees all global stores and can
write them; it forwards to no other processor, has no commits and no callbacks, as in Kafka Streams. A record that fails
may become a dead letter, which Kafka Streams 4.4 does not do here: it is written before the stores keep the position.
Stores whose topic holds exactly what the processor would put (tables) are restored by copying; the others by a
processor of their own, and the one that goes on from there starts with complete stores (KIP-813).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from streamsapp.clock import Clock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import TopologyError
from streamsapp.outgoing import OutputRecord
from streamsapp.processor.handlers import ErrorContext, ExceptionHandler, Response
from streamsapp.processor.timestamps import fail_on_invalid_timestamp
from streamsapp.record import InputRecord, TopicPartition
from streamsapp.runtime.global_stores.letters import LetterWriter
from streamsapp.runtime.global_stores.stores import GLOBAL_TASK, GlobalStores
from streamsapp.state.engine.resources import StateResources
from streamsapp.tasks.dead_letters import DeadLetters
from streamsapp.tasks.failures import FailureHandling
from streamsapp.tasks.partition_group import NO_IDLING, PartitionGroup
from streamsapp.tasks.punctuation import PunctuationQueue, Schedule
from streamsapp.tasks.record_queue import ProcessingControl, RecordQueue
from streamsapp.tasks.repeated_warnings import RepeatedWarnings
from streamsapp.tasks.restored_records import RestoredRecords
from streamsapp.tasks.task_context import TaskContext
from streamsapp.tasks.wiring import WiredTopology, Wires, wire
from streamsapp.topology.nodes import GlobalStore, SubTopology

log = logging.getLogger(__name__)


class GlobalTask:
    """The global stores of one instance and the processors that fill them."""

    def __init__(
        self,
        stores: Sequence[GlobalStore],
        config: StreamsConfig,
        clock: Clock,
        resources: StateResources,
        directory: Path,
        writer: LetterWriter | None = None,
    ) -> None:
        """``directory`` is the application's; the stores live in ``global`` below it. ``writer`` takes dead letters;
        without one a record that fails is dropped, and another program that reads its topic has the letter."""
        self.by_topic = {each.topic: each for each in stores}
        self._config = config
        self._context = TaskContext(config.application_id, GLOBAL_TASK, clock)
        self._context.stream_time_punctuation = self._context.wall_clock_punctuation = _NoPunctuation()
        self._writer = writer
        #: Dead letters that are not written yet.
        self._letters: list[OutputRecord] = []
        self._failures = self._failing(DeadLetters(config.dead_letter_queue_topic))
        self._control = ProcessingControl()
        self._wired = WiredTopology()
        self._inputs: dict[TopicPartition, PartitionGroup] = {}
        # Kafka Streams asks no extractor here: what restoring copies has the topic's timestamps.
        self._restored = {
            topic: RestoredRecords(
                replace(each.source, timestamp_extractor=fail_on_invalid_timestamp), topic, config, self._context
            )
            for topic, each in self.by_topic.items()
        }
        self.stores = GlobalStores(stores, directory / "global", config, resources, lambda: self._context.timestamp)

    # ---- life --------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open what is on disk, to be restored; ``TaskCorruptedError`` asks for :meth:`wipe` before another try."""
        if self._writer is not None:
            self._failures = self._failing(self._writer.form())
        self.stores.open()
        self._wire(each for each in self.by_topic.values() if each.reprocess_on_restore)

    def start(self) -> None:
        """The stores are complete: from here on records are processed."""
        self._close_user_code()
        self._wire(self.by_topic.values())

    def wipe(self) -> None:
        """Close and delete everything, so that it can be opened and restored from the beginning."""
        self._close_user_code()
        self.stores.wipe()

    def close(self) -> None:
        """Close processors and stores."""
        try:
            self._close_user_code()
        finally:
            self.stores.close()

    # ---- records -----------------------------------------------------------------------------------------------

    def restore(self, partition: TopicPartition, records: Sequence[InputRecord]) -> int:
        """Apply a batch to a store that is not complete yet; returns how many records counted."""
        keyed = [record for record in records if record.key() is not None]
        of = self.by_topic[partition.topic]
        position = records[-1].offset() + 1
        if not of.reprocess_on_restore:
            self.stores.restore(of.store.name, self._restored[partition.topic].of(keyed), position)
        elif keyed:
            self._process(partition, keyed)
        self._commit({partition: position})
        return len(keyed)

    def update(self, partition: TopicPartition, records: Sequence[InputRecord]) -> None:
        """Process a batch, then show tasks what it wrote."""
        self._process(partition, records)
        self._commit({partition: records[-1].offset() + 1})

    def _commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Letters go first. A thread that ends before they are written reads their records again."""
        letters, self._letters = self._letters, []
        if not letters or self._writer is None or self._writer.write(letters):
            self.stores.commit(positions)

    def _process(self, partition: TopicPartition, records: Sequence[InputRecord]) -> None:
        group = self._inputs[partition] if partition in self._inputs else self._add_input(partition)
        group.add(partition, records)
        group.run(self._control, len(records))
        self._context.record_errors.warnings.taken += len(records)
        self._context.record_errors.warnings.tell_due(self._context.clock.now_ms())

    def _add_input(self, partition: TopicPartition) -> PartitionGroup:
        """Each is a group by itself: global stores are filled in the order in which records come."""
        source, config = self.by_topic[partition.topic].source, self._config
        key = (source.key_serde or config.default_key_serde).bind(partition.topic, is_key=True)
        value = (source.value_serde or config.default_value_serde).bind(partition.topic, is_key=False)
        push = self._wired.plain.pushes[source.name]
        # Kafka Streams asks no extractor here: what restoring copies has the topic's timestamps.
        extractor = fail_on_invalid_timestamp
        group = self._inputs[partition] = PartitionGroup(NO_IDLING, self._context, lambda: None)
        group.add_queue(RecordQueue(partition, source.name, push, key, value, extractor, self._failures))
        return group

    def _failing(self, letters: DeadLetters) -> FailureHandling:
        config, warnings = self._config, self._context.record_errors.warnings
        handlers = config.on_deserialization_error, config.on_processing_error
        if self._writer is None:
            handlers = _without_dead_letters(handlers[0], warnings), _without_dead_letters(handlers[1], warnings)
        return FailureHandling(self._context, self._keep, letters, *handlers, config.on_production_error)

    def _keep(self, letter: OutputRecord) -> None:
        self._letters.append(letter)

    # ---- processors --------------------------------------------------------------------------------------------

    def _wire(self, stores: Iterable[GlobalStore]) -> None:
        nodes = [node for each in stores for node in (each.source, replace(each.processor, stores=()))]
        wires = Wires(
            context=self._context,
            failures=self._failures,
            stores=self.stores.stores,
            emit=_send_nothing,
            topic_name=str,
            partition_count=lambda topic: 0,
            default_serdes=self._config.default_serdes,
            wrapper=self._config.processor_wrapper,
        )
        self._wired = wire(SubTopology(-1, tuple(nodes)).with_access_to(self.stores.stores), wires)

    def _close_user_code(self) -> None:
        self._inputs.clear()
        wired, self._wired = self._wired, WiredTopology()
        wired.close()
        self._context.record_errors.warnings.tell_all()


class _NoPunctuation(PunctuationQueue):
    def add(self, schedule: Schedule) -> None:
        raise TopologyError(
            f"processor {schedule.node} fills a global store, so it cannot schedule callbacks; schedule them in a "
            "processor that reads the store"
        )


def _send_nothing(record: OutputRecord) -> NoReturn:
    raise TopologyError(f"bug: a global store sends a record to topic {record[0]}")


def _without_dead_letters(handler: ExceptionHandler, warnings: RepeatedWarnings) -> ExceptionHandler:
    """There is no writer where history is processed."""
    told = "the dead letter of a global store's record is left to the instances; the record is dropped here"

    def handle(described: ErrorContext, error: Exception) -> Response:
        response = handler(described, error)
        if response is not Response.DEAD_LETTER:
            return response
        log.log(warnings.level(told), told)
        return Response.CONTINUE

    return handle

"""The records of a source topic that restore a table, as processing would have them. A table has no other changelog
then (topology optimisation), and a global table never has one.

A record that cannot be read, and that the handler left out at processing, is in the topic for ever. It must not get
into the store behind the handler's back. Used by the restoration and the global thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.processor.handlers import ErrorContext, ExceptionHandler, Response
from streamsapp.processor.timestamps import fail_on_invalid_timestamp, whole_number
from streamsapp.record import InputRecord, RawRecord
from streamsapp.serdes.api import or_configured
from streamsapp.tasks.dead_letters import DeadLetters
from streamsapp.tasks.failures import FailureHandling
from streamsapp.tasks.task_context import TaskContext
from streamsapp.topology.nodes import SourceNode


class RestoredRecords:
    """Reads the records of one source topic."""

    def __init__(self, source: SourceNode, topic: str, config: StreamsConfig, context: TaskContext) -> None:
        self._source, self._topic = source.name, topic
        self._key = (source.key_serde or config.default_key_serde).bind(topic, is_key=True).deserialize
        self._value = or_configured(source.value_serde, config.default_serdes).bind(topic, is_key=False).deserialize
        self._extractor = source.timestamp_extractor or config.default_timestamp_extractor
        self._partition_time = -1
        self._failures = FailureHandling(
            context,
            lambda _: None,
            DeadLetters(config.dead_letter_queue_topic),
            _without_dead_letters(config.on_deserialization_error),
            config.on_processing_error,
            config.on_production_error,
        )

    def of(self, records: Sequence[InputRecord]) -> list[InputRecord]:
        """The records that a table gets, with the times that it stores with them. Raises ``DeserializationError`` if
        the handler does not go on."""
        return list(self._read(records))

    def _read(self, records: Sequence[InputRecord]) -> Iterator[InputRecord]:
        trusted = self._extractor is fail_on_invalid_timestamp
        for record in records:
            raw_key, raw_value = record.key(), record.value()
            try:
                key = None if raw_key is None else self._key(raw_key)
                value = None if raw_value is None else self._value(raw_value)
                headers = record.headers()
            except Exception as error:
                self._failures.deserialization(self._source, record, error)
                continue
            if trusted:
                yield record
                continue
            time = self._extracted(record, key, value)
            if time >= 0:
                self._partition_time = max(self._partition_time, time)
                yield RawRecord(self._topic, record.partition(), record.offset(), raw_key, raw_value, time, headers)

    def _extracted(self, record: InputRecord, key: object, value: object) -> int:
        try:
            return whole_number(self._extractor(record, key, value, self._partition_time))
        except Exception as error:
            self._failures.extraction(self._source, record, error)


def _without_dead_letters(handler: ExceptionHandler) -> ExceptionHandler:
    """They were sent when the records were processed."""

    def handle(described: ErrorContext, error: Exception) -> Response:
        response = handler(described, error)
        return Response.CONTINUE if response is Response.DEAD_LETTER else response

    return handle

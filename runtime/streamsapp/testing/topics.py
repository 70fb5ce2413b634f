"""The two ends of a test: a topic to pipe records into and a topic to read results from (KIP-470). Used on the test's
thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from streamsapp.errors import DeserializationError, StreamsError, UserInputError
from streamsapp.java_names.lookup import JavaNames
from streamsapp.outgoing import OutputRecord
from streamsapp.processor.api import Duration, duration_ms, instant_ms
from streamsapp.record import Headers, Record
from streamsapp.serdes.api import AnySerde
from streamsapp.testing.given import as_bytes, as_pair, require_serdes

#: ``(topic, key bytes, value bytes, timestamp, headers, partition)``; without a partition the key chooses it.
Pipe = Callable[[str, bytes | None, bytes | None, int, Headers | None, int | None], None]


class TestInputTopic(JavaNames):
    """Pipes records into the topology; each is processed completely before ``pipe_input`` returns."""

    __test__ = False  # not a test case, whatever its name suggests to pytest

    def __init__(
        self,
        topic: str,
        key_serde: AnySerde,
        value_serde: AnySerde,
        start_ms: datetime | int,
        auto_advance_ms: Duration,
        pipe: Pipe,
    ) -> None:
        require_serdes(topic, key_serde, value_serde)
        self._topic = topic
        self._key = key_serde.bind(topic, is_key=True)
        self._value = value_serde.bind(topic, is_key=False)
        self._now_ms = instant_ms(start_ms)
        self._auto_advance_ms = duration_ms(auto_advance_ms)
        self._pipe = pipe

    def pipe_input(
        self,
        key: Any,
        value: Any,
        timestamp_ms: datetime | int | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None:
        """Processes one record. Without a timestamp (milliseconds since 1970, or a ``datetime`` with a zone) it gets
        the topic's own time, which then advances. Without a ``partition`` its key chooses that, as in Kafka's
        producer; records without a key are dealt in turn.

        Raises ``UserInputError`` for a partition that the topic does not have, ``SerializationError`` for a key or a
        value that the topic's serdes do not write, and any error of the topology, as the uncaught exception handler
        would see it.
        """
        key_bytes = as_bytes(self._key, self._topic, "key", key)
        value_bytes = as_bytes(self._value, self._topic, "value", value)
        if timestamp_ms is None:
            timestamp_ms = self._now_ms
            self._now_ms += self._auto_advance_ms
        self._pipe(self._topic, key_bytes, value_bytes, instant_ms(timestamp_ms), headers, partition)

    def pipe_record(self, record: Record, partition: int | None = None) -> None:
        """Processes one record, given whole. Raises ``UserInputError`` for anything else."""
        if not isinstance(record, Record):
            raise UserInputError(
                f"topic {self._topic}: {record!r:.100} is not a Record; pairs of key and value go to pipe_key_values"
            )
        self.pipe_input(record.key, record.value, record.timestamp, record.headers or None, partition)

    def pipe_records(self, records: Iterable[Record]) -> None:
        """Processes records, each given whole."""
        for record in records:
            self.pipe_record(record)

    def pipe_values(self, values: Iterable[Any]) -> None:
        """Processes values without keys."""
        for value in values:
            self.pipe_input(None, value)

    def pipe_key_values(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Processes pairs of key and value. Raises ``UserInputError`` for anything else."""
        for number, each in enumerate(pairs, 1):
            self.pipe_input(*as_pair(each, f"record {number} of topic {self._topic}"))

    def advance_time(self, duration: Duration) -> None:
        """Moves the topic's own time, from which records without a timestamp take theirs, by a ``timedelta`` or
        milliseconds."""
        self._now_ms += duration_ms(duration)


class TestOutputTopic(JavaNames):
    """Reads what the topology wrote to a topic, oldest first."""

    __test__ = False

    def __init__(
        self,
        topic: str,
        key_serde: AnySerde,
        value_serde: AnySerde,
        records: deque[OutputRecord],
        partition: int | None = None,
    ) -> None:
        """``partition``: only its records are read."""
        require_serdes(topic, key_serde, value_serde)
        self._topic = topic
        self._key = key_serde.bind(topic, is_key=True)
        self._value = value_serde.bind(topic, is_key=False)
        self._records = records
        self._partition = partition

    def is_empty(self) -> bool:
        """Says whether everything was read."""
        return self._next_place() is None

    def queue_size(self) -> int:
        """Returns the number of records that are left to read."""
        return sum(map(self._is_read_here, self._records))

    def read_record(self) -> Record:
        """Returns the next record; raises ``LookupError`` if there is none, and ``DeserializationError`` if the topic's
        serdes do not read it."""
        place = self._next_place()
        if place is None:
            part = "" if self._partition is None else f"partition {self._partition} of "
            raise LookupError(f"nothing (more) was written to {part}topic {self._topic}")
        _, value, key, _, _, _, timestamp, headers = self._records[place]
        del self._records[place]
        return Record(
            self._read(self._key, "key", key, headers),
            self._read(self._value, "value", value, headers),
            timestamp,
            list(headers or ()),
        )

    def _next_place(self) -> int | None:
        return next((place for place, record in enumerate(self._records) if self._is_read_here(record)), None)

    def _is_read_here(self, record: OutputRecord) -> bool:
        return self._partition in (None, record[3])

    def _read(self, serde: AnySerde, part: str, data: bytes | None, headers: Headers | None) -> Any:
        if data is None:
            return None
        try:
            return serde.read(data, headers)
        except StreamsError:
            raise
        except Exception as error:  # a serde may raise anything
            raise DeserializationError(
                f"topic {self._topic}: its {part} serde {serde.name!r} does not read {data!r:.100}: {error}; create "
                f"the output topic with the serde that the topology writes its {part}s with"
            ) from error

    def read_records(self) -> list[Record]:
        """Returns all records that are left."""
        return [self.read_record() for _ in range(self.queue_size())]

    def read_value(self) -> Any:
        """Returns the next record's value; raises ``LookupError`` if there is none."""
        return self.read_record().value

    def read_values(self) -> list[Any]:
        """Returns the values of all records that are left."""
        return [record.value for record in self.read_records()]

    def read_key_value(self) -> tuple[Any, Any]:
        """Returns the next record's key and value; raises ``LookupError`` if there is none."""
        record = self.read_record()
        return record.key, record.value

    def read_key_values(self) -> list[tuple[Any, Any]]:
        """Returns the key and value of all records that are left."""
        return [(record.key, record.value) for record in self.read_records()]

    def read_key_values_to_map(self) -> dict[Any, Any]:
        """Returns the last value of each key."""
        return dict(self.read_key_values())

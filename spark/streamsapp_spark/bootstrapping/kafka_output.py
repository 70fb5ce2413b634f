"""Writes the changelogs of a bootstrap to Kafka, and with ``--emit`` its results.

Used in Spark's Python workers. One transactional producer per task: the next run of the task fences it, so that an
executor that was given up for lost cannot write into what is running by then.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException

from streamsapp.clock import SystemClock
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import CommitError
from streamsapp.kafka.producer import ExactlyOnceProducer
from streamsapp.kafka.refusals import Refusals, production_error
from streamsapp.kafka.sending import AbortableError
from streamsapp.outgoing import OutputRecord
from streamsapp.record import InputRecord, TopicPartition
from streamsapp.state.managed_store import FrozenEpoch
from streamsapp.tasks.task_plan import TaskPlan

#: Records that are given to the producer at a time, and records without content in a transaction.
_CHUNK, _TRANSACTION = 5_000, 1_000_000
_TRIES, _PAUSE = 10, 1.0
_FLUSH = 60.0


class KafkaOutput:
    """The producer of one task, for as long as it is replayed."""

    def __init__(self, plan: TaskPlan, config: StreamsConfig) -> None:
        transactional_id = f"{config.application_id}-bootstrap-{plan.id}"
        properties = client_properties.producer(config, transactional_id)
        self._plan = plan
        self._properties = properties
        self._refusals = Refusals()
        self._producer = self._started()
        #: Records per store.
        self.written = 0

    def commit(self, writes: FrozenEpoch | None, results: Sequence[OutputRecord]) -> None:
        """Commits results, and the last value per key, in one transaction; which begins again where it was lost, as
        when brokers refuse what is sent together."""
        for left in reversed(range(_TRIES)):
            try:
                self.written += self._send_all(writes, results)
                return
            except AbortableError:
                if not left:
                    raise
                self.close()
                self._producer = self._started()

    def _started(self) -> ExactlyOnceProducer:
        producer = ExactlyOnceProducer(self._properties, _refused, SystemClock(), reports=True, refusals=self._refusals)
        producer.start()
        return producer

    def _send_all(self, writes: FrozenEpoch | None, results: Sequence[OutputRecord]) -> int:
        """Sends and commits; returns the number of records."""
        count = self._send(results)
        for store, changes in writes.changelogs() if writes is not None else ():
            changelog = self._plan.changelogs.get(store)
            if changelog is not None:
                for records in changes.records(*changelog, _CHUNK):
                    count += self._send(records)
        self._end_transaction()
        return count

    def fill(self, partition: TopicPartition, count: int) -> None:
        """Writes so many records without content, if any, to a partition from which they are deleted then."""
        now = SystemClock().now_ms()
        filler = (partition.topic, None, None, partition.partition, None, None, now, None)
        for start in range(0, count, _TRANSACTION):
            for chunk in range(start, min(start + _TRANSACTION, count), _CHUNK):
                self.written += self._send([filler] * (min(chunk + _CHUNK, count) - chunk))
            self._end_transaction()

    def close(self) -> None:
        """Closes the producer; records that were not committed are aborted."""
        self._producer.abort()
        self._producer.close()

    def _send(self, records: Sequence[OutputRecord]) -> int:
        rest = list(records)
        while rest:
            rest = self._producer.send(rest)
            self._producer.poll()
        return len(records)

    def _end_transaction(self) -> None:
        deadline = time.monotonic() + _FLUSH
        while not self._producer.flush(0.1):
            if time.monotonic() > deadline:
                raise CommitError(f"task {self._plan.id}: records were not written within {_FLUSH:.0f} s")
        for left in reversed(range(_TRIES)):
            try:
                self._producer.commit({}, _NO_GROUP)
                return
            except KafkaException as error:
                if not left:
                    raise CommitError(f"task {self._plan.id}: {error.args[0].str()}") from error
                time.sleep(_PAUSE)


class _NoGroup:
    """Stands for a consumer group in which nothing was consumed."""

    def commit(self, offsets: object) -> None:
        """Never called: there are no offsets."""

    def metadata(self) -> None:
        """Never called: there are no offsets."""


_NO_GROUP = _NoGroup()


def _refused(error: KafkaError, record: InputRecord) -> None:
    raise production_error(error, record)

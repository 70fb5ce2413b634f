"""Reads the inputs of one task, each an iterator of batches in offset order: ranges of Kafka's partitions, and rows of
the stage before.

Used in Spark's Python workers, on one thread.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any, TypeAlias

from streamsapp.config import StreamsConfig, client_properties
from streamsapp.errors import StreamsError
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.record import InputRecord, TopicPartition
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp.tasks.fed_records import fed_record
from streamsapp_spark.replay.stage_rows import InputRows

#: A partition's records, some at a time.
InputBatches: TypeAlias = Iterator[Sequence[InputRecord]]

#: Records taken from the client at a time: few enough to stay in the processor's cache until they are processed.
BATCH = 1_000
#: The time that the broker may send nothing of a partition that has more, in seconds.
TIMEOUT = 120.0
_WAIT = 0.5
#: The kilobytes that the client fetches ahead of one partition.
_AHEAD_KBYTES = 16_384
#: The remedy of a bootstrap and of an audit.
_AGAIN = "start again from nothing: `streamsapp reset`, then `streamsapp bootstrap`"


def from_kafka(
    of: HistoryRange, config: StreamsConfig, *, committed_only: bool = False, remedy: str = _AGAIN
) -> InputBatches:
    """Yields the records of a range, as the application reads them or ``committed_only``. Offsets without a record
    (control records, compacted ones) are passed over. Raises ``StreamsError``, with the ``remedy``, if records are
    deleted meanwhile."""
    position = of.start
    if position >= of.until:
        return
    properties = client_properties.restore_consumer(config) | {"queued.max.messages.kbytes": _AHEAD_KBYTES}
    properties |= {"isolation.level": "read_committed"} if committed_only else {}
    consumer = PartitionConsumer(properties)
    try:
        consumer.assign({of.of: position})
        idle = 0.0
        while position < of.until:
            fetched = consumer.poll(BATCH, _WAIT)
            if fetched.out_of_range:
                raise StreamsError(
                    f"records of {of.of} from offset {position} on were deleted while they were read; {remedy}"
                )
            idle = 0.0 if fetched.records or fetched.ends else idle + _WAIT
            if idle > TIMEOUT:
                raise StreamsError(
                    f"Kafka at {config.bootstrap_servers} has sent nothing of {of.of} at offset {position} for "
                    f"{TIMEOUT:.0f} s; can it be reached from there?"
                )
            for _, records in fetched.records:
                position = records[-1].offset() + 1
                wanted = records if position <= of.until else [each for each in records if each.offset() < of.until]
                if wanted:
                    yield wanted
            position = max([position, *fetched.ends.values()])
    finally:
        consumer.close()


def from_rows(rows: InputRows, inputs: int) -> dict[TopicPartition, InputBatches]:
    """Returns the records of every partition in there, of ``inputs`` at most. They come one partition after the other
    and are wanted side by side, so if there are several they are put on disk meanwhile."""
    batches: dict[TopicPartition, InputBatches] = {}
    while (partition := rows.partition()) is not None:
        if inputs == 1:
            return {partition: rows.records(partition)}
        spool = _Spool()
        for records in rows.records(partition):
            spool.add(records)
        batches[partition] = spool.read()
    return batches


class _Spool:
    """Keeps batches in a file without a name."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="streamsapp-rows-")  # noqa: SIM115 - it outlives the call

    def add(self, records: Sequence[InputRecord]) -> None:
        fields = [
            (it.topic(), it.partition(), it.offset(), it.key(), it.value(), it.timestamp()[1], it.headers())
            for it in records
        ]
        pickle.dump(fields, self._file, pickle.HIGHEST_PROTOCOL)

    def read(self) -> InputBatches:
        self._file.seek(0)
        with self._file:
            while True:
                try:
                    records: list[tuple[Any, ...]] = pickle.load(self._file)  # noqa: S301 - this process wrote it
                except EOFError:
                    return
                yield [fed_record(*fields) for fields in records]

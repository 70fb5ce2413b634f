"""The decompressed input buffer of one partition of one task, and the loop that runs records through the topology.

The polling thread appends batches (``add``), the processing thread that holds the task consumes them (``run``). The
buffer in between is a deque: two threads may use its two ends at once. The loop changes from one buffer to another
between two records, as inputs that take turns do so for every record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from streamsapp import native
from streamsapp.processor.operator import Push
from streamsapp.processor.timestamps import TimestampExtractor, fail_on_invalid_timestamp, whole_number
from streamsapp.record import Headers, InputRecord, TopicPartition
from streamsapp.serdes.api import AnySerde, identity
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.tasks.failures import FailureHandling
from streamsapp.tasks.task_context import TaskContext

#: Memory of a record beside its value: the message object and the broker's copy of key and headers.
_RECORD_OVERHEAD_BYTES = 400


class ProcessingControl:
    """One flag that every processing loop looks at before each record: set, they return at once."""

    __slots__ = ("stop",)

    def __init__(self) -> None:
        self.stop = False


_NEVER_STOP = ProcessingControl()

#: Takes a queue whose head has to wait, and returns the queue that goes on, whose head is known, and the timestamp up
#: to which its records may follow.
NextTurn: TypeAlias = Callable[["RecordQueue"], tuple["RecordQueue", int]]

#: Later than any timestamp. An integer, as comparing with an infinite float takes twice as long.
NO_BOUND = 1 << 63
#: Earlier than any.
NO_MORE = -1


class RecordQueue:
    """One partition's buffer, bound to the source node that reads it."""

    def __init__(
        self,
        partition: TopicPartition,
        source: str,
        push: Push,
        key: AnySerde,
        value: AnySerde,
        extractor: TimestampExtractor,
        context: TaskContext,
        failures: FailureHandling,
        punctuate: Callable[[], None],
    ) -> None:
        self.partition = partition
        self.source = source
        #: Takes the records; a function that is put here takes those of the next batch or turn.
        self.push = push
        self._extractor = extractor
        self._context = context
        self._failures = failures
        self._buffer: deque[InputRecord] = deque()
        taker = _Taker(self._buffer)
        reads_headers = (key.id_header or value.id_header) is not None
        deserialize_key, deserialize_value = taker.reading(key), taker.reading(value)
        trusted = extractor is fail_on_invalid_timestamp
        #: ``None`` where a record's own timestamp does not count, or its headers are read before its bytes.
        self._loop = (
            native.Loop(
                buffer=self._buffer,
                deserialize_key=_if_any(deserialize_key),
                deserialize_value=_if_any(deserialize_value),
                context=context,
                punctuate=punctuate,
            )
            if trusted and not reads_headers
            else None
        )
        #: The parts of reading that the loop holds on to.
        self._reading = (
            self._buffer,
            taker.take if reads_headers else self._buffer.popleft,
            deserialize_key,
            deserialize_value,
            trusted,
            punctuate,
        )
        #: A record that was taken out and deserialised to learn its timestamp, but whose turn has not come.
        self._head: tuple[InputRecord, Any, Any, int, Headers | None] | None = None
        #: Timestamp of the head, while it is known.
        self.head_time = NO_MORE
        self._record_bytes = _RECORD_OVERHEAD_BYTES
        #: Offset of the next record to process; ``None`` until one was processed.
        self.position: int | None = None
        #: Highest timestamp processed in this partition; -1 before the first.
        self.partition_time = -1
        #: The consumer reported the end of the partition and nothing was added since.
        self.at_end = False

    def __len__(self) -> int:
        return len(self._buffer) + (self._head is not None)

    @property
    def bytes(self) -> int:
        """Estimated memory of the buffered records."""
        return len(self._buffer) * self._record_bytes

    def add(self, records: Sequence[InputRecord]) -> None:
        """Append a batch in offset order (polling thread)."""
        self.at_end = False
        self._record_bytes = _RECORD_OVERHEAD_BYTES + sum(map(len, records)) // len(records)
        self._buffer.extend(records)

    def clear(self) -> None:
        """Drop the buffered records."""
        self._buffer.clear()
        self._head = None

    def head_timestamp(self) -> int | None:
        """Timestamp of the next record, ``None`` when there is none. Drops records that can't be read on the way."""
        if self._head is None:
            self.run(_NEVER_STOP, NO_MORE, len(self._buffer))
        return None if self._head is None else self.head_time

    def run(self, control: ProcessingControl, bound: int, limit: int, next_turn: NextTurn | None = None) -> int:
        """Process up to ``limit`` records: the head, if it is known, and the records that follow it up to the timestamp
        ``bound``. Then it processes records of other queues, if there is ``next_turn`` to name them. Returns how many
        were taken.

        Stops early when ``control.stop`` is set. Raises what the exception handlers don't absorb; the record that
        failed is then not counted as processed, so that its offset is not committed.
        """
        if self._loop is None or bound < NO_BOUND:
            return self._run(control, bound, limit, next_turn)
        taken = 0 if self._head is None else self._run(control, bound, min(limit, 1), next_turn)
        taken += self._run_in_c(self._loop, control, limit - taken)
        return taken + self._run(control, bound, limit - taken, next_turn)

    def _run_in_c(self, loop: native.Loop, control: ProcessingControl, limit: int) -> int:
        """Does so in C, up to the first record that the loop leaves to Python."""
        context = self._context
        try:
            return loop.run(
                control=control,
                push=self.push,
                due=context.stream_time_punctuation,
                limit=limit,
                partition_time=self.partition_time,
            )
        finally:
            context.message = None
            context.lateness.observe(loop.late, loop.most)
            self._note_progress(loop.partition_time, loop.done)

    def _run(self, control: ProcessingControl, bound: int, limit: int, next_turn: NextTurn | None) -> int:
        # The one loop that every record goes through: everything that can be decided before it, is.
        queue, context, failures = self, self._context, self._failures
        push, (buffer, take, deserialize_key, deserialize_value, trusted, punctuate) = self.push, self._reading
        stream_time_due, stream_time = context.stream_time_punctuation, context.stream_time
        partition_time = self.partition_time
        head = self._head
        done: InputRecord | None = None
        taken = late = most = 0
        try:
            for taken in range(limit):  # noqa: B007 - records taken, also after an exception
                if control.stop:
                    break
                if head is None:
                    if not buffer:
                        break
                    message = take()
                    try:
                        if (key := message.key()) is not None:
                            key = deserialize_key(key)
                        if (value := message.value()) is not None:
                            value = deserialize_value(value)
                        headers = message.headers()
                    except Exception as error:
                        failures.deserialization(queue.source, message, error)
                        done = message
                        continue
                    timestamp = message.timestamp()[1]
                    if timestamp < 0 or not trusted:
                        timestamp = queue._extract(message, key, value, partition_time)
                        if timestamp < 0:
                            done = message
                            continue
                    if timestamp > bound:
                        queue._head, queue.head_time = (message, key, value, timestamp, headers), timestamp
                        if next_turn is None:
                            break
                        queue._note_progress(partition_time, done)
                        done = None
                        queue, bound = next_turn(queue)
                        push, (buffer, take, deserialize_key, deserialize_value, trusted, _) = (
                            queue.push,
                            queue._reading,
                        )
                        partition_time = queue.partition_time
                        (message, key, value, timestamp, headers), queue._head = queue._head, None  # type: ignore[misc]
                else:
                    (message, key, value, timestamp, headers), head, self._head = head, None, None
                context.message = message
                if timestamp > partition_time:
                    partition_time = timestamp
                if timestamp > stream_time:
                    stream_time = context.stream_time = timestamp
                elif timestamp < stream_time:
                    behind = stream_time - timestamp
                    late, most = late + behind, behind if behind > most else most  # noqa: FURB136 - calls cost
                push(key, value, timestamp, headers)
                done = message
                # Also where time stands still: the record may have scheduled something that is due at once.
                if stream_time >= stream_time_due.next_due:
                    punctuate()
            else:
                taken = limit
        finally:
            context.message = None
            context.lateness.observe(late, most)
            queue._note_progress(partition_time, done)
        return taken

    def _note_progress(self, partition_time: int, done: InputRecord | None) -> None:
        """Notes how far the partition was processed."""
        self.partition_time = partition_time
        if done is not None:
            self.position = done.offset() + 1

    def _extract(self, message: InputRecord, key: Any, value: Any, partition_time: int) -> int:
        try:
            timestamp = whole_number(self._extractor(message, key, value, partition_time))
            if timestamp > MAX_TIMESTAMP:
                raise ValueError(f"the timestamp {timestamp} is later than any can be")
            skipped = timestamp < 0
        except Exception as error:
            self._failures.extraction(self.source, message, error)
        if skipped:
            self._failures.log_invalid_timestamp(self.source, message, timestamp)
        return timestamp


class _Taker:
    """Takes records, and holds the current one: its headers may name the schema of its bytes."""

    def __init__(self, buffer: deque[InputRecord]) -> None:
        self._take = buffer.popleft
        self._taken: InputRecord | None = None

    def take(self) -> InputRecord:
        self._taken = record = self._take()
        return record

    def reading(self, serde: AnySerde) -> Callable[[bytes], Any]:
        """Returns the serde's own function, or a function that looks at the headers for it."""
        if serde.id_header is None:
            return serde.deserialize
        return lambda data: serde.read(data, None if self._taken is None else self._taken.headers())


def _if_any(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any] | None:
    """Returns the function for the loop in C, which needs none for bytes that stay what they are."""
    return None if deserialize is identity else deserialize

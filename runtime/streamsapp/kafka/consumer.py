"""A consumer of assigned partitions that hands over whole batches per partition.

Two of them per instance: the main consumer, touched by the polling thread only, and the restore consumer, touched by
the restoration thread only. Group membership is not their business (see ``membership``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import methodcaller
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition as KafkaPartition,
)

from streamsapp import native
from streamsapp.config.client_properties import ClientProperties, client_error
from streamsapp.deadline import Deadline
from streamsapp.errors import StreamsError, TopicError
from streamsapp.kafka import offsets
from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.librdkafka_handle import handle_of
from streamsapp.kafka.requests import Requests
from streamsapp.kafka.rest import Rest
from streamsapp.kafka.retry import repeated
from streamsapp.kafka.wakeup import Wakeup
from streamsapp.record import InputRecord, TopicPartition

log = client_log(__name__)

T = TypeVar("T")

#: Start positions that the broker resolves.
BEGINNING: int = OFFSET_BEGINNING
END: int = OFFSET_END

#: How long a request to the broker may take, in seconds.
REQUEST_TIMEOUT = 30.0
#: How long to wait for the leaders of a topic, in seconds; the client finds them by itself, a little later.
LEADERS_TIMEOUT = 0.2

_error: Callable[[Message], KafkaError | None] = methodcaller("error")
_topic: Callable[[Message], str] = methodcaller("topic")
_partition: Callable[[Message], int] = methodcaller("partition")

_NOT_ALLOWED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})
_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})

#: Of Python's log, by syslog's level: what confluent-kafka makes of the client's messages.
_LEVELS = (50, 50, 50, 40, 30, 20, 20, 10)


@dataclass
class Fetched:
    """The result of one poll."""

    #: Records in offset order, per partition.
    records: list[tuple[TopicPartition, Sequence[InputRecord]]] = field(default_factory=list)
    #: Partitions whose end was reached, with the offset the next record will have.
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    #: Partitions whose position the broker no longer (or not yet) has.
    out_of_range: list[TopicPartition] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.records or self.ends or self.out_of_range)


class PartitionConsumer:
    """Fetches from explicitly assigned partitions."""

    def __init__(
        self,
        properties: ClientProperties,
        deadline: Deadline | None = None,
        wakeup: Wakeup | None = None,
        rest: float = 0.0,
    ) -> None:
        """After the ``deadline`` requests are given up with ``NoAnswerError``. A ``wakeup`` ends the wait for records
        when other threads notify it. After records that are few it is not looked for more for ``rest`` seconds or
        longer."""
        self._deadline = deadline
        self._requests = Requests(deadline)
        self._description = str(properties.get("client.id", "consumer"))
        #: Topics whose leaders the client has looked up.
        self._known: set[str] = set()
        #: Where fetching began, of the partitions that are assigned.
        self._began: dict[TopicPartition, int] = {}
        # Tokens are refreshed by a callback, which the native data path would leave out.
        callbacks = "OAUTHBEARER" in (properties.get("sasl.mechanism"), properties.get("sasl.mechanisms"))
        self._native = None if callbacks else native.data_path()
        try:
            self._consumer = Consumer({**properties, "error_cb": self._on_error}, logger=log)
        except KafkaException as error:
            raise client_error(error) or error from error
        self._wakeup = wakeup
        self._rest = Rest(rest, time.monotonic)
        #: True if nothing is left in the consumer's queue that librdkafka has told of before.
        self._emptied = False
        # A number, which nothing closes but ``close``: the descriptor of a consumer that is never closed stays open,
        # as nobody knows when librdkafka's threads have ended.
        self._notified = None if wakeup is None else wakeup.notify_of_records(self._consumer)

    # ---- assignment --------------------------------------------------------------------------------------------

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Start fetching these partitions at these offsets, beside those assigned already."""
        if positions:
            self._find_leaders({each.topic for each in positions} - self._known)
            self._began.update(positions)
            self._consumer.incremental_assign([KafkaPartition(*each, offset) for each, offset in positions.items()])

    def _find_leaders(self, topics: Iterable[str]) -> None:
        """Look for the leaders of new topics; the client does so by itself only once a second."""
        for topic in sorted(topics):
            try:
                self._consumer.list_topics(topic, LEADERS_TIMEOUT)
            except KafkaException as error:
                log.debug("%s: the leaders of %s are not known yet: %s", self._description, topic, error)
                return
            self._known.add(topic)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching; nothing of these partitions is delivered any more."""
        partitions = list(partitions)
        if partitions:
            given_up = [KafkaPartition(*each) for each in partitions]
            # The client remembers that a partition was paused, also for the next time it is assigned.
            self._consumer.resume(given_up)
            self._consumer.incremental_unassign(given_up)
            for each in partitions:
                self._began.pop(each, None)

    def reposition(self, positions: Mapping[TopicPartition, int]) -> None:
        """Go on from other offsets; what was fetched and not delivered is dropped."""
        self.unassign(positions)
        self.assign(positions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver nothing of these partitions until ``resume``."""
        self._consumer.pause([KafkaPartition(*each) for each in partitions])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver again."""
        self._consumer.resume([KafkaPartition(*each) for each in partitions])

    # ---- fetching ----------------------------------------------------------------------------------------------

    def poll(self, limit: int, timeout: float) -> Fetched:
        """Up to ``limit`` records; returns as soon as there is one, or empty after ``timeout`` seconds, or when the
        consumer's ``Wakeup`` was notified. A consumer that rests returns no records.

        Raises ``TopicError`` for a topic that is gone or may not be read, ``StreamsError`` for what the client cannot
        recover from.
        """
        if self._wakeup is None:
            return self._take(limit, timeout)
        rest = self._rest.left
        if rest > 0:
            if self._wakeup.wait_without_records(min(rest, timeout)) or timeout < rest:
                return Fetched()
            timeout -= rest
        fetched = self._poll_now(self._wakeup, limit, timeout)
        self._rest.after(sum(len(records) for _, records in fetched.records))
        return fetched

    @property
    def rests(self) -> bool:
        """True if ``poll`` returns no records now, as the last ones were few."""
        return self._rest.left > 0

    def end_rest(self) -> None:
        """Let the next ``poll`` return what is there."""
        self._rest.end()

    def _poll_now(self, wakeup: Wakeup, limit: int, timeout: float) -> Fetched:
        waits = timeout > 0 and self._emptied
        # Also without a wait: what is taken now is not to end the next one.
        notified = wakeup.wait(timeout if waits else 0)
        fetched = self._take(limit, 0)
        if timeout > 0 and not (waits or notified or fetched):
            wakeup.wait(timeout)
            fetched = self._take(limit, 0)
        return fetched

    def _take(self, limit: int, timeout: float) -> Fetched:
        if self._native is not None:
            return self._poll_native(self._native, limit, timeout)
        fetched = Fetched()
        first = self._consumer.poll(timeout)
        if first is None:
            return fetched
        messages = [first, *self._consumer.consume(limit - 1, 0)]
        if any(map(_error, messages)):
            for message in messages:
                if (error := message.error()) is not None:
                    partition = TopicPartition(message.topic() or "", message.partition() or 0)
                    offset = message.offset()
                    self._note(error, partition, -1 if offset is None else offset, fetched)
            messages = [message for message in messages if message.error() is None]
        fetched.records = _by_partition(messages)
        return fetched

    def _poll_native(self, data_path: native.DataPath, limit: int, timeout: float) -> Fetched:
        runs, errors, messages = data_path.fetch(handle_of(self._consumer), limit, timeout)
        for level, *message in messages:
            log.log(_LEVELS[level], "%s [%s] %s", *message)
        fetched = Fetched([(TopicPartition(topic, partition), records) for topic, partition, records in runs])
        self._emptied = sum(len(records) for _, records in fetched.records) + len(errors) + len(messages) < limit
        for code, text, fatal, topic, partition, offset in errors:
            error = KafkaError(code, text, fatal)
            if topic is None and code not in _NOT_ALLOWED and not fatal:
                self._on_error(error)
            else:
                self._note(error, TopicPartition(topic or "", max(partition, 0)), offset, fetched)
        return fetched

    def _note(self, error: KafkaError, partition: TopicPartition, offset: int, fetched: Fetched) -> None:
        """Note in ``fetched`` what is no record."""
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            fetched.ends[partition] = offset
        elif code in _OUT_OF_RANGE:
            self._note_out_of_range(partition, offset, fetched)
        elif code in _NOT_ALLOWED:
            raise TopicError(f"not authorised to read {partition}: {error.str()}; grant READ on the topic")
        elif code in _GONE:
            raise TopicError(f"topic {partition.topic} no longer exists: {error.str()}; create it again, then restart")
        elif error.fatal():
            raise StreamsError(f"{self._description} failed for good: {error.str()}")
        else:
            log.warning("%s: %s (goes on by itself)", self._description, error.str())

    def _note_out_of_range(self, partition: TopicPartition, offset: int, fetched: Fetched) -> None:
        """The client also tells what it found out before the partition was unassigned, or assigned anew. It has stopped
        fetching then, perhaps after the new assignment began: the partition is assigned once more, where it stands."""
        began = self._began.get(partition)
        if began is None:
            return
        if not 0 <= offset < began:
            fetched.out_of_range.append(partition)
            return
        [delivered] = self._consumer.position([KafkaPartition(*partition)])
        at = began if delivered.offset < 0 else delivered.offset
        log.warning(
            "%s: the broker has no offset %d of %s, where it was read before; fetching it again where it stands, at %d",
            self._description, offset, partition, at,
        )  # fmt: skip
        self.reposition({partition: at})

    # ---- positions ---------------------------------------------------------------------------------------------

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """Committed offset and metadata of the group, for the partitions that have one."""
        if not partitions:
            return {}
        try:
            return self._repeated(
                lambda: offsets.committed(self._consumer, partitions, REQUEST_TIMEOUT), "reading the committed offsets"
            )
        except KafkaException as error:
            named = ", ".join(map(str, partitions))
            raise StreamsError(
                f"cannot read the committed offsets of {named}: {error.args[0].str()}; if the broker "
                "answers otherwise, a transaction was never ended: look for it with kafka-transactions.sh find-hanging"
            ) from error

    def committed_by_now(
        self, partitions: Sequence[TopicPartition], timeout: float
    ) -> dict[TopicPartition, int] | None:
        """Committed offsets, of those partitions that have one; ``None`` if the broker does not tell them within
        ``timeout`` seconds."""
        try:
            return {each: at for each, (at, _) in offsets.committed(self._consumer, partitions, timeout).items()}
        except KafkaException as error:
            log.debug("committed offsets are not known now: %s", error)
            return None

    def commit(self, positions: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit offsets with their metadata; raises ``KafkaException``."""
        offsets.commit(self._consumer, positions)

    def watermarks(self, partition: TopicPartition, *, cached: bool) -> tuple[int, int] | None:
        """First offset the broker has and the one the next record gets; ``None`` if cached and not known yet."""
        asked = KafkaPartition(*partition)
        low, high = self._repeated(
            lambda: self._consumer.get_watermark_offsets(asked, timeout=REQUEST_TIMEOUT, cached=cached),
            f"looking up where {partition} begins and ends",
        )
        return None if high < 0 else (max(low, 0), high)

    def offsets_for_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The first offset at or after a time, the end where there is none."""
        asked = [KafkaPartition(*each, timestamp_ms) for each in partitions]

        def request() -> list[KafkaPartition]:
            answer = self._consumer.offsets_for_times(asked, REQUEST_TIMEOUT)
            for each in answer:
                if each.error is not None:  # one partition's leader may fail alone
                    raise KafkaException(each.error)
            return answer

        return {
            TopicPartition(each.topic, each.partition): each.offset if each.offset >= 0 else END
            for each in self._repeated(request, "looking up offsets by time")
        }

    def group_metadata(self) -> Any:
        """The metadata of a consumer outside any group: no generation, so commits with it are not fenced."""
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        """Leave the broker. A client whose request was given up is left to that request's thread."""
        if self._requests.under_way:
            return
        self._consumer.close()
        if self._notified is not None:
            os.close(self._notified)
            self._notified = None

    def _repeated(self, request: Callable[[], T], what: str) -> T:
        return self._requests.ask(lambda: repeated(request, what, self._deadline))

    def _on_error(self, error: KafkaError) -> None:
        log.warning("%s: %s", self._description, error.str())


def _by_partition(messages: list[Message]) -> list[tuple[TopicPartition, Sequence[InputRecord]]]:
    """Group records by partition, keeping their order. The broker's answers arrive partition by partition, so there
    are few runs; several runs of one partition stay several batches."""
    return [
        (TopicPartition(topic, partition), list(run))  # type: ignore[arg-type]  # a Message is an InputRecord
        for topic, of_topic in groupby(messages, _topic)
        for partition, run in groupby(of_topic, _partition)
    ]

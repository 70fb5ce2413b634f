"""Takes the answers of brokers to a fetcher's requests: records, offsets and errors.

Used on the thread that a consumer belongs to. A broker is believed about a partition as long as that is asked of it.
"""

from __future__ import annotations

from functools import partial

from confluent_kafka import KafkaError

from streamsapp import native
from streamsapp.brokers.bounds import WrongAnswerError, check_told
from streamsapp.brokers.errors import RefusedError
from streamsapp.errors import StreamsError
from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.fetching import requests
from streamsapp.kafka.fetching.assignment import FetchAssignment
from streamsapp.kafka.fetching.broker import BrokerConnection, TooOldError
from streamsapp.kafka.fetching.broker_connections import BrokerConnections
from streamsapp.kafka.fetching.decompression import all_decompressed, decompressed
from streamsapp.kafka.fetching.fetched import not_authorised
from streamsapp.kafka.fetching.partition import Doubt, FetchedPartition
from streamsapp.kafka.fetching.session import ENDED, Asked, AskedFor
from streamsapp.kafka.fetching.settings import FetchSettings
from streamsapp.kafka.producing.partitions import ELSEWHERE

log = client_log(__name__)

#: How long an answer may take beyond the time for which a broker waits for records; and the time after which the leader
#: is looked up again. In seconds.
_NO_ANSWER, _LATE = 30.0, 2.0
#: A broker that stood still may lead a partition no more, and may lack records that its leader has. When it lacks the
#: offset that was to be fetched, so many seconds pass until the leader is looked up, and asked as well.
_DOUBT = 1.0
#: How often a batch that cannot be read is fetched, after longer and longer pauses: it may be the network's fault.
_TRIES = 5

_MOVED = ELSEWHERE | {
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.INCONSISTENT_TOPIC_ID,
}


class FetchAnswers:
    """The answers of the brokers of an assignment."""

    def __init__(self, settings: FetchSettings, assignment: FetchAssignment, connections: BrokerConnections) -> None:
        self._settings = settings
        self._assignment = assignment
        self._connections = connections
        self._decompressed = partial(
            decompressed if settings.has_handler else all_decompressed, most=settings.most_opened
        )

    def receive(self) -> None:
        """Take the answers that are there. Raises ``TopicError``, ``TooOldError`` and ``StreamsError``."""
        for source, broker in self._connections.with_something_to_read():
            try:
                if (answer := broker.receive()) is not None:
                    self._take(source, broker, answer)
            except (OSError, ValueError) as error:
                self._lose(source, error)
        for source, failure in self._connections.failed():
            if isinstance(failure, TooOldError):
                raise failure
            if isinstance(failure, RefusedError) and not self._connections.answered:
                raise StreamsError(str(failure)) from failure  # later on credentials may be renewed meanwhile
            self._lose(source, failure)
        for source, broker in self._connections.late(min(_LATE, self._settings.reaching.answer)):
            if broker.late > min(_NO_ANSWER, self._settings.reaching.answer):
                self._lose(source, ConnectionError("it does not answer"))
            elif not self._assignment.others_for(source):  # it stands still, perhaps
                self._lose(source, ConnectionError("it does not answer, and leads no partition any more"))

    def _lose(self, source: int, error: Exception) -> None:
        """Forget a broker until it is tried again."""
        self._connections.lose(source, error)
        self._assignment.lost(source)

    def _take(self, source: int, broker: BrokerConnection, answer: bytearray) -> None:
        asked: AskedFor = broker.asked
        broker.asked = None
        (self._take_offsets if asked.offsets else self._take_parts)(source, broker, asked.partitions, answer)
        self._connections.well(source)

    def _take_offsets(self, source: int, broker: BrokerConnection, asked: Asked, answer: bytearray) -> None:
        throttled, offsets = requests.offsets(answer, asked)
        broker.times.leave_alone(throttled, broker)
        for name, code, offset in offsets:
            if (partition := self._assignment.asked_of(source, asked, name)) is not None:
                if code:
                    self.note_error(partition, code)
                else:
                    partition.position = offset

    def _take_parts(self, source: int, broker: BrokerConnection, asked: Asked, answer: bytearray) -> None:
        fetched = native.answer(answer)
        broker.times.leave_alone(fetched.throttle_ms, broker)
        if fetched.error in ENDED and broker.session.kept:
            broker.session.refused(fetched.error)
            return
        if fetched.error:
            raise ConnectionError(KafkaError(fetched.error).str())
        parts = fetched.parts
        told = [self._assignment.name(part.topic_id, part.partition) for part in parts]
        known = [name for name in told if name.topic]  # others were made anew meanwhile
        if not asked.keys() >= set(known) or len(set(known)) < len(known):
            check_told("Fetch", set(known) & asked.keys(), known)  # it has no news of the partitions that it leaves out
        broker.session.answered(fetched.session)
        broker.session.has_nothing = all(part.begin == part.end for part in parts)
        broker.times.told(anything=any(part.error or part.diverging or part.begin < part.end for part in parts))
        for name, part in zip(told, parts, strict=True):
            partition = self._assignment.asked_of(source, asked, name)
            if partition is not None and partition.topic_id == part.topic_id:
                if part.error:
                    self.note_error(partition, part.error)
                else:
                    self._take_records(partition, answer, part)

    # ---- records -----------------------------------------------------------------------------------------------

    def _take_records(self, partition: FetchedPartition, answer: bytearray, part: native.FetchedPart) -> None:
        if part.diverging:
            self._note_loss(partition, "what was read last is not in the log any more: it was truncated")
            return
        partition.doubt = Doubt.NONE
        if part.end > part.begin:
            data: memoryview | bytes = memoryview(answer)[part.begin : part.end]
            if len(data) < len(answer) // 2:  # or a little of it would keep all of it
                data = bytes(data)
            try:
                log_end = part.stable if self._settings.committed_only else part.high
                self._add(partition, data, part.aborted, log_end)
            except ValueError as error:
                if not partition.chunks:  # or those are taken first
                    self.note_broken(partition, error)
                raise WrongAnswerError(f"{partition.name}: {error}") from error
        partition.note_ends(part.first, part.high, part.stable)
        self._assignment.news[partition.name] = partition
        if part.replica >= 0:
            self._assignment.follow(partition, part.replica)

    def _add(
        self, partition: FetchedPartition, data: bytes | memoryview, aborted: list[tuple[int, int]], log_end: int
    ) -> None:
        """Take record batches of a partition, up to where its log ends. Raises ``ValueError`` for what cannot be a part
        of it."""
        settings = self._settings
        try:
            chunk = native.Chunk(
                topic=partition.name.topic,
                partition=partition.name.partition,
                data=data,
                position=partition.position,
                aborted=aborted if settings.committed_only else [],
                decompress=self._decompressed,
                unchecked=not settings.checked,
                log_end=log_end,
                most=settings.most_opened,
            )
        except NotImplementedError as error:
            raise TooOldError(f"{partition.name}, offset {partition.position}: {error}") from error
        if chunk.end_position > partition.position:
            partition.add(chunk)
            return
        # A broker looks where its log ends before it reads, and may have got more meanwhile: once.
        partition.ahead += 1
        if partition.ahead > 1:
            raise ValueError(f"its batches after offset {partition.position} lie beyond {log_end}, where the log ends")

    # ---- what goes wrong ---------------------------------------------------------------------------------------

    def note_error(self, partition: FetchedPartition, code: int) -> None:
        """A broker refuses a partition. Raises ``TopicError`` if it may not be read."""
        if code == KafkaError.OFFSET_OUT_OF_RANGE:
            self._note_loss(partition, "what was to be fetched is not in the log")
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise not_authorised(partition.name, KafkaError(code).str())
        else:
            partition.retry_at = self._assignment.now() + self._settings.backoff
            if code not in _MOVED:
                log.warning("%s: %s (goes on by itself)", partition.name, KafkaError(code).str())
            if partition.is_followed:
                self._assignment.return_to_leader(partition)
            if code in _MOVED:
                self._assignment.forget_leader(partition)

    def _note_loss(self, partition: FetchedPartition, what: str) -> None:
        """A broker does not have the offset that was to be fetched. A follower may be behind; a leader is believed when
        it is asked anew."""
        if partition.is_followed:
            self._assignment.return_to_leader(partition)
            return
        if partition.is_lost(self._assignment.now() + max(_DOUBT, self._settings.backoff)):
            self._assignment.news[partition.name] = partition
        log.info("%s: %s%s", partition.name, what, "" if partition.lost else "; its leader is asked once more")

    def note_broken(self, partition: FetchedPartition, error: ValueError) -> None:
        """The next records cannot be read: the leader is asked for them again. Raises ``StreamsError`` in the end."""
        partition.begin_again()
        source = self._assignment.place(partition)
        if partition.broken >= _TRIES:
            raise StreamsError(
                f"{partition.name} cannot be read: {error}; {source} sent it {_TRIES} times. Look at"
                " the topic's segments there with kafka-dump-log.sh, and at what is between it and this instance"
            ) from error
        log.warning("%s: %s (fetching it again from %s)", partition.name, error, source)
        partition.retry_at = self._assignment.now() + self._settings.backoff * 2 ** (partition.broken - 1)
        if partition.is_followed:
            self._assignment.return_to_leader(partition)

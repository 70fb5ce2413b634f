"""The instance's one producer, at least once or exactly once. Touched by the polling thread only.

Both send a collector's records and end an epoch: everything sent is acknowledged, and the input offsets that led to it
are committed, atomically under exactly once (KIP-98, KIP-447).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException

from streamsapp.clock import Clock
from streamsapp.config.client_properties import ClientProperties, chosen
from streamsapp.config.known_properties import LIBRDKAFKA
from streamsapp.deadline import Deadline
from streamsapp.errors import CommitError, ConfigError, FencedError
from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.librdkafka.producer import LibrdkafkaProducer
from streamsapp.kafka.producing.client import BatchProducer
from streamsapp.kafka.refusals import Refusals
from streamsapp.kafka.requests import NoAnswerError, Requests
from streamsapp.kafka.retry import repeated
from streamsapp.kafka.sending import AbortableError, DeliveryTimeoutError, Sending
from streamsapp.outgoing import ChangelogSlice, OutputRecord
from streamsapp.record import InputRecord, TopicPartition

log = client_log(__name__)

#: How long one attempt at a request may take, in seconds.
REQUEST_TIMEOUT = 30.0
#: The client's own default of ``transaction.timeout.ms``.
TRANSACTION_TIMEOUT_MS = 60_000

#: How long a transactional request may take by its own time-out, and before it is given up for lost, in seconds.
TRANSACTION_REQUEST, TRANSACTION_TIMEOUT = 10.0, 15.0

#: Decides about a record that could not be written: returns to drop it, raises to fail.
OnFailure = Callable[[KafkaError, InputRecord], None]

#: Delivery failures that say something about the transaction or the broker, nothing about the record.
_TRANSACTION_LOST = frozenset(
    {
        KafkaError._MSG_TIMED_OUT,
        KafkaError._STATE,
        KafkaError._FATAL,
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
    }
)

_FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
    }
)


class GroupOffsets(Protocol):
    """Commits offsets for the group; what ``membership`` provides."""

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None: ...
    def metadata(self) -> Any: ...


class RecordProducer:
    """Sends records; a failed delivery is reported by ``on_failure`` or fails the next call."""

    def __init__(
        self,
        properties: ClientProperties,
        on_failure: OnFailure,
        *,
        reports: bool = True,
        deadline: Deadline | None = None,
        may_write: Callable[[], bool] = lambda: True,
        refusals: Refusals | None = None,
    ) -> None:
        """``reports``: whether librdkafka is to say what became of each record, which costs something; the runtime's
        own client does so at no cost. After the ``deadline`` no commit is waited for. Batches are not sent once
        ``may_write`` says no: it is asked on any thread. ``refusals`` has what the clients before this one have met."""
        self._on_failure = on_failure
        self._failure: Exception | None = None
        client, given = chosen(properties)
        self._sending: Sending
        if client == LIBRDKAFKA:
            self._sending = LibrdkafkaProducer(given, refusals or Refusals(), deadline, reports=reports)
        else:
            self._sending = BatchProducer(given, deadline, may_write)

    def send(self, records: list[OutputRecord]) -> list[OutputRecord]:
        """Hand records to the client; returns the records that found no room in its queue."""
        try:
            return self._sending.send(records, self._refused)
        except KafkaException as error:
            raise self._classified(error, "cannot write") from error

    def send_changes(self, changes: ChangelogSlice) -> ChangelogSlice:
        """Hand entries of a store to the client, for its changelog; returns the entries that found no room."""
        try:
            return self._sending.send_changes(changes, self._refused)
        except KafkaException as error:
            raise self._classified(error, "cannot write") from error

    def poll(self) -> None:
        """Serve delivery reports; raises ``ProductionError`` when a record could not be written, and
        ``AbortableError`` when another client has to take this one's place."""
        self._serve()
        self._raise_failure()

    def no_more(self) -> None:
        """Nothing follows before the next look at inputs: records need not wait for others."""
        self._sending.no_more()

    def flush(self, timeout: float) -> bool:
        """Return whether everything sent is acknowledged, waiting up to ``timeout`` seconds."""
        try:
            left = self._sending.flush(timeout)
        except KafkaException as error:
            raise self._classified(error, "cannot write") from error
        self._raise_failure()
        return left == 0

    def end_of(self, partition: TopicPartition) -> int | None:
        """The offset after the last record that was written to a partition; ``None`` where it is not known."""
        return self._sending.end_of(partition)

    def close(self) -> None:
        """Drop the records that were not sent; a caller that needs it acknowledged has flushed."""
        self._sending.purge()

    def _serve(self) -> None:
        """Let the client say what has become of records; it raises here when it has failed for good."""
        try:
            self._sending.poll(0)
        except KafkaException as error:
            raise self._classified(error, "cannot write") from error

    def _classified(self, error: KafkaException, what: str) -> Exception:
        return _classified(error, what)

    def _refused(self, error: KafkaError, record: InputRecord) -> None:
        """The client did not take a record: it is not sent if the handler agrees."""
        try:
            self._on_failure(error, record)
        except Exception as failure:
            self._failure = self._failure or failure

    def _not_written(self, error: KafkaError, record: InputRecord) -> None:
        """Returns to go on without the record, which did not get to its topic."""
        self._sending.check_failure(error, record)
        self._on_failure(error, record)

    def _raise_failure(self) -> None:
        for error, record in self._sending.take_failures():
            try:
                self._undelivered(error, record)
            except Exception as told:
                self._failure = self._failure or told
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _undelivered(self, error: KafkaError, record: InputRecord) -> None:
        """A record was not written, or no record can be written any more."""
        if error.fatal() and not record.topic():
            raise self._classified(KafkaException(error), "cannot write")
        self._not_written(error, record)


class AtLeastOnceProducer(RecordProducer):
    """Offsets are committed after everything sent was acknowledged."""

    transactional = False

    def start(self) -> None:
        """Do nothing: there is no transaction."""

    def abort(self, within: float = TRANSACTION_TIMEOUT) -> None:
        """Do nothing: there is no transaction."""

    def prepare(self, offsets: Mapping[TopicPartition, tuple[int, str]], group: GroupOffsets) -> None:
        """Do nothing: offsets are committed when all else is done."""

    def _not_written(self, error: KafkaError, record: InputRecord) -> None:
        """Treat a time-out as no fault of the record's: the broker was away, or is too slow."""
        if error.code() == KafkaError._MSG_TIMED_OUT:
            raise DeliveryTimeoutError("records were not written in time")
        if not record.topic():  # it is no record's, but the producer's
            raise AbortableError(f"records were not written: {error.str()}")
        super()._not_written(error, record)

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]], group: GroupOffsets) -> None:
        """Commit offsets; everything sent before must be flushed. Raises ``KafkaException`` for what may be retried,
        ``FencedError`` when the group has gone on without this instance."""
        if not offsets:
            return
        try:
            group.commit(offsets)
        except KafkaException as error:
            if error.args[0].code() in _FENCED:
                raise _classified(error, "cannot commit") from error
            raise


class ExactlyOnceProducer(RecordProducer):
    """One transaction per commit; it begins with the first record."""

    transactional = True

    def __init__(
        self,
        properties: ClientProperties,
        on_failure: OnFailure,
        clock: Clock,
        *,
        reports: bool,
        deadline: Deadline | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        """Without ``reports`` a record that cannot be written loses the transaction and does not say why. After the
        ``deadline`` no request is waited for."""
        self._deadline = deadline or Deadline(clock)
        super().__init__(properties, on_failure, reports=reports, deadline=self._deadline, refusals=refusals)
        self._requests = Requests(self._deadline)
        self._last_request = Requests(Deadline(clock))
        self._clock = clock
        self._times_out_after = float(properties.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)) / 1000
        self._open = False
        self._began = 0.0
        self._offsets_sent = False

    def start(self) -> None:
        """Fence the producer that used this transactional id before, and abort what it left open."""
        try:
            self._requests.ask(
                lambda: repeated(self._try_to_start, "starting a transactional producer", self._deadline)
            )
        except KafkaException as error:
            if error.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
                raise self._too_long() from error
            failure = _classified(error, "cannot start a transactional producer")
            if failure is error:  # nothing was begun: another client may have more luck
                failure = AbortableError(f"cannot start a transactional producer: {error.args[0].str()}")
            raise failure from error

    def _too_long(self) -> ConfigError:
        return ConfigError(
            f"kafka property 'producer.transaction.timeout.ms': the broker does not allow"
            f" {self._times_out_after * 1000:.0f}; set it to no more than the broker's transaction.max.timeout.ms"
            " (900000 unless set), and commit_interval_ms to a tenth less, or raise that of the broker"
        )

    def _try_to_start(self) -> None:
        self._sending.init_transactions(REQUEST_TIMEOUT)

    def abort(self, within: float = TRANSACTION_TIMEOUT) -> None:
        """Give up the uncommitted transaction: left open, it would hold up the readers of the results until the broker
        aborts it. ``within``: seconds to wait for the answer, also after the deadline."""
        if not self._open:
            return
        try:
            self._last_request.ask(lambda: self._sending.abort_transaction(TRANSACTION_REQUEST), within)
        except (KafkaException, NoAnswerError) as error:
            log.warning("the transaction was left to the broker's time-out: %s", error)
        self._open = self._offsets_sent = False

    def send(self, records: list[OutputRecord]) -> list[OutputRecord]:
        self._begin()
        return super().send(records)

    def send_changes(self, changes: ChangelogSlice) -> ChangelogSlice:
        self._begin()
        return super().send_changes(changes)

    def announce(self, offsets: Mapping[TopicPartition, tuple[int, str]], group: GroupOffsets) -> None:
        """Begin a transaction that will commit offsets of these partitions, for now the offsets where they stand. A
        client that asks for committed offsets waits for its end. Raises as ``commit`` does."""
        self._begin()
        try:
            self._sending.send_offsets(offsets, group.metadata(), TRANSACTION_REQUEST)
        except KafkaException as error:
            raise self._classified(error, "cannot begin the transaction") from error

    def prepare(self, offsets: Mapping[TopicPartition, tuple[int, str]], group: GroupOffsets) -> None:
        """Begin the commit that comes next, while its last records are still on their way; no others follow. Raises as
        ``commit`` does, which reports what became of it."""
        if not offsets or self._offsets_sent:
            return
        self._begin()
        try:
            self._offsets_sent = self._sending.begin_commit(offsets, group.metadata())
        except KafkaException as error:
            raise self._classified(error, "cannot commit the transaction") from error

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]], group: GroupOffsets) -> None:
        """Commit the transaction with these offsets.

        Raises ``KafkaException`` when the call may be repeated (with the same offsets), ``AbortableError`` when the
        transaction is lost, ``FencedError`` when another instance took over.
        """
        if not self._open and not offsets:
            return
        self._begin()
        try:
            if offsets and not self._offsets_sent:
                self._sending.send_offsets(offsets, group.metadata(), TRANSACTION_REQUEST)
                self._offsets_sent = True
            self._sending.commit_transaction(TRANSACTION_REQUEST)
        except KafkaException as error:
            self._raise_failure()
            raise self._classified(error, "cannot commit the transaction") from error
        self._open = self._offsets_sent = False

    def _classified(self, error: KafkaException, what: str) -> Exception:
        """A broker that gave up on a transaction fences its producer just as a second instance does."""
        classified = _classified(error, what)
        if isinstance(classified, FencedError) and self._open and self._age() > self._times_out_after:
            return AbortableError(f"{what}: the broker aborted the transaction after {self._age():.0f} s")
        return classified

    def _age(self) -> float:
        return self._clock.monotonic() - self._began

    def _refused(self, error: KafkaError, record: InputRecord) -> None:
        if error.code() in _TRANSACTION_LOST:
            self._serve()  # says why, if the client failed for good
            raise AbortableError(f"the transaction takes no more records: {error.str()}")
        super()._refused(error, record)

    def _not_written(self, error: KafkaError, record: InputRecord) -> None:
        if error.code() in _TRANSACTION_LOST:
            failure: Exception = self._classified(KafkaException(error), "cannot write")
            raise (
                failure
                if isinstance(failure, FencedError)
                else AbortableError(f"the transaction is lost: {error.str()}")
            )
        super()._not_written(error, record)

    def _begin(self) -> None:
        if not self._open:
            try:
                self._sending.begin_transaction()
            except KafkaException as error:
                raise self._classified(error, "cannot begin a transaction") from error
            self._open = True
            self._began = self._clock.monotonic()


def _classified(error: KafkaException, what: str) -> Exception:
    """librdkafka's flags turned into what the caller can do about it."""
    cause: KafkaError = error.args[0]
    if cause.code() in _FENCED:
        return FencedError(f"{what}: another instance took over ({cause.str()}); this one stops writing")
    if cause.txn_requires_abort():
        # Also when the generation ended with the commit on its way: this is a member all the same, or will hear of it.
        return AbortableError(f"{what}: {cause.str()}")
    if cause.retriable() and not cause.fatal():
        return error
    return CommitError(f"{what}: {cause.str()}")

"""Sends records with librdkafka's producer, where the configuration says ``client: librdkafka``.

Used by ``kafka.producer``, on the thread that a producer belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition as KafkaPartition

from streamsapp.config.client_properties import ClientProperties, client_error
from streamsapp.deadline import Deadline
from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.group_member import Member
from streamsapp.kafka.librdkafka.group_metadata import check_group_metadata, group_metadata
from streamsapp.kafka.refusals import Refusals, production_error, raw_record
from streamsapp.kafka.renewal import Renewal
from streamsapp.kafka.requests import NoAnswerError, Requests
from streamsapp.kafka.sending import AbortableError, Failure, Offsets, OnRefused
from streamsapp.outgoing import ChangelogSlice, OutputRecord
from streamsapp.record import InputRecord, TopicPartition

log = client_log(__name__)

#: After so many seconds a transactional request is given up for lost.
_REQUEST_LOST = 15.0
#: How long a call that can take nothing waits for that to change, in seconds.
_WAIT = 0.005
#: librdkafka takes 0 for "not set" and would write the current time; one millisecond later is the nearest there is.
_EARLIEST = 1
#: For records whose time says nothing (buffers of ``suppress``); they carry a negative one, Kafka's for none.
_NOW = 0

_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})


class LibrdkafkaProducer:
    """A producer of librdkafka's."""

    def __init__(
        self, properties: ClientProperties, refusals: Refusals, deadline: Deadline | None, *, reports: bool
    ) -> None:
        """``reports``: whether librdkafka reports what became of each record. It takes the interpreter for every
        report, and waits for it whenever another thread works. After the ``deadline`` no request is waited for.
        ``refusals`` has what the clients before this one have met."""
        self._refusals = refusals
        self._transactional = "transactional.id" in properties
        if self._transactional:
            check_group_metadata()
        self._failures: list[Failure] = []
        self._requests = Requests(deadline)
        self._renewal = Renewal(properties)
        callbacks = {"error_cb": _on_error} | ({"on_delivery": self._delivered} if reports else {})
        self._settings: dict[str, Any] = {**refusals.applied(properties), **callbacks}
        try:
            self._producer = self._made()
        except KafkaException as error:
            raise client_error(error) or error from error

    def _made(self) -> Producer:
        return Producer(self._settings, logger=log)

    # ---- records -----------------------------------------------------------------------------------------------

    def send(self, records: list[OutputRecord], on_refused: OnRefused) -> list[OutputRecord]:
        """Hand records to the client; returns the records that found no room in its queue."""
        produce: Callable[..., None] = self._producer.produce
        rest = iter(self._searched(records, on_refused) if self._refusals.searching else records)
        for record in rest:
            try:
                if record[6] > 0:
                    produce(*record)
                else:
                    produce(*record[:6], _NOW if record[6] else _EARLIEST, record[7])
            except BufferError:
                self._producer.poll(_WAIT)
                return [record, *rest]
            except KafkaException as error:
                on_refused(error.args[0], raw_record(record))
        return []

    def send_changes(self, changes: ChangelogSlice, on_refused: OnRefused) -> ChangelogSlice:
        """Hand entries of a store to the client, for its changelog; returns the entries that found no room."""
        return changes.part(len(changes) - len(self.send(changes.records(), on_refused)))

    def _searched(self, records: list[OutputRecord], on_refused: OnRefused) -> Iterator[Any]:
        """The records, each with the means to identify it if it is the record that was not written. Records that made
        the transaction before fail are left out: the handler decides about them."""
        for record in records:
            refusal = self._refusals.refusal(record)
            if refusal is not None:
                on_refused(*refusal)
            else:
                yield (*record[:4], partial(self._this_delivered, record), *record[5:])

    def _this_delivered(self, record: OutputRecord, error: KafkaError | None, message: InputRecord) -> None:
        self._delivered(error, raw_record(record, message.partition()))

    def _delivered(self, error: KafkaError | None, message: InputRecord) -> None:
        """Called inside ``poll`` and ``flush``, for failures only; exceptions must not leave a callback."""
        if error is not None and error.code() not in _PURGED:
            self._failures.append((error, message))

    def poll(self, timeout: float) -> None:
        if self._renewal.due():
            raise AbortableError(f"another client is needed: {self._renewal.reason}")
        self._producer.poll(timeout)

    def flush(self, timeout: float) -> int:
        return int(self._producer.flush(timeout))

    def no_more(self) -> None:
        """The client waits for more in any case."""

    def take_failures(self) -> list[Failure]:
        failures, self._failures = self._failures, []
        return failures

    def check_failure(self, error: KafkaError, record: InputRecord) -> None:
        """An error may be another record's of the batch. In a transaction a record that was not written takes all with
        it: the next transaction leaves it out, and asks the handler."""
        if self._refusals.is_of_batch(error.code(), record):
            raise AbortableError(
                f"topic {record.topic()} refused records that were sent together: {error.str()};"
                " fewer are sent together from now on"
            )
        if self._transactional:
            self._refusals.leave_out(error, record)
            raise AbortableError(f"the transaction is lost: {production_error(error, record)}")

    def end_of(self, partition: TopicPartition) -> int | None:
        """Librdkafka reports single records, which costs more than it is worth."""
        return None

    def purge(self) -> None:
        self._producer.purge()
        try:
            self._producer.poll(0)
        except KafkaException as error:
            log.warning("producer: %s", error.args[0].str())  # it failed for good, which is no reason not to close it

    # ---- transactions ------------------------------------------------------------------------------------------

    def init_transactions(self, timeout: float) -> None:
        if self._renewal.due():
            self._producer = self._made()
        try:
            self._producer.init_transactions(timeout)
        except KafkaException as error:
            self._renewal.failed(error)
            raise
        self._renewal.answered()

    def begin_transaction(self) -> None:
        self._producer.begin_transaction()

    def begin_commit(self, offsets: Offsets, member: Member) -> bool:
        return False

    def send_offsets(self, offsets: Offsets, member: Member, timeout: float) -> None:
        sent = [KafkaPartition(*name, offset, metadata or None) for name, (offset, metadata) in offsets.items()]
        self._bounded(lambda: self._producer.send_offsets_to_transaction(sent, group_metadata(member), timeout))

    def commit_transaction(self, timeout: float) -> None:
        self._bounded(lambda: self._producer.commit_transaction(timeout))
        self._refusals.left_out.clear()

    def abort_transaction(self, timeout: float) -> None:
        self._producer.abort_transaction(timeout)

    def _bounded(self, request: Callable[[], object]) -> None:
        """Make a transactional request that ends, one way or the other.

        After a broker's restart librdkafka has been seen not to return from them, whatever time-out they were given.
        Then the producer is given up: a new one fences it, and the changelog shows what became of the transaction.
        """
        try:
            self._requests.ask(request, _REQUEST_LOST)
        except NoAnswerError as error:
            raise AbortableError(f"the transaction did not end: {error}") from error


def _on_error(error: KafkaError) -> None:
    log.warning("producer: %s", error.str())

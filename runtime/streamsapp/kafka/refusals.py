"""The records that brokers refuse: whose fault it is, and what the user can do about it.

Brokers refuse batches, not records. The producer of batches finds the record that is at fault (``batches.sender``).
librdkafka reports the error for each record of the batch. ``Refusals`` makes the next clients send smaller batches,
until the record is known. Pure; used on the thread of a producer, the codes also on its connection's.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from confluent_kafka import KafkaError

from streamsapp.config.client_properties import ClientProperties
from streamsapp.errors import ProductionError
from streamsapp.outgoing import OutputRecord
from streamsapp.record import InputRecord, RawRecord

#: About the topic, or the right to write to it, whatever the record is. No handler is asked, as in Kafka Streams: it
#: would leave out every record.
FORBIDDEN = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
    }
)
#: About the topic and how records are sent: every record meets it.
OF_TOPIC = FORBIDDEN | {
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
}
_OF_SIZE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
#: About a record of the batch, or about the batch's size.
OF_A_RECORD = _OF_SIZE | {
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.POLICY_VIOLATION,
}
#: librdkafka's word for a record whose batch was refused for another one (KIP-467).
_OF_ANOTHER = KafkaError._INVALID_DIFFERENT_RECORD

#: librdkafka's own default of ``batch.size``. Also how much smaller the batches of the next client are, and from which
#: size on it sends records one by one. In bytes.
_BATCH_SIZE, _SMALLER, _SMALLEST = 1_000_000, 4, 1_000
#: Records of one transaction that are left out at most: each takes a transaction that is aborted.
_LEFT_OUT = 100

_Identity: TypeAlias = tuple[object, ...]


class Refusals:
    """The refusals that are known over the clients of librdkafka's that an instance has, one after the other.

    A batch that is refused takes all that was sent since the last commit with it. Later records may have been written
    already, and must not come before it. So the tasks go on from the last commit, with a client that sends smaller
    batches. Under exactly once a refused record takes the transaction with it, too: the next one leaves it out.
    """

    def __init__(self) -> None:
        #: In bytes; ``None`` while the client's own serves.
        self._batch_size: int | None = None
        self._smaller = self._singly = self._next_singly = self._next_searches = False
        #: True if the client is to report which record was refused; that costs it something.
        self.searching = False
        #: Records that the transaction before could not write, and why.
        self.left_out: dict[_Identity, tuple[KafkaError, InputRecord]] = {}

    def applied(self, properties: ClientProperties) -> ClientProperties:
        """The properties of the next client."""
        given = int(properties.get("batch.size", _BATCH_SIZE))
        size = given if self._batch_size is None else min(given, self._batch_size)
        if self._smaller:
            size //= _SMALLER
            self._next_singly = self._next_singly or size < _SMALLEST
        self._smaller, self._singly, self.searching = False, self._next_singly, self._next_searches
        self._batch_size = size
        return {**properties, "batch.num.messages": 1} if self._singly else {**properties, "batch.size": size}

    def is_of_batch(self, code: int, record: InputRecord) -> bool:
        """True if the error may be another record's; the next client sends fewer records together."""
        if self._singly or not (code in OF_A_RECORD or code == _OF_ANOTHER):
            return False
        if code not in _OF_SIZE:
            self._next_singly = True
        elif not self.searching or _size(record) < (
            self._batch_size or _BATCH_SIZE
        ):  # a larger one is alone in its batch
            self._smaller = True
        else:
            return False
        self._next_searches = True
        return True

    def leave_out(self, error: KafkaError, record: InputRecord) -> None:
        """The next transaction is to leave out this record, or to find out which it is. Raises ``ProductionError`` when
        there are too many."""
        if not self.searching:
            self._next_searches = True
            return
        if len(self.left_out) >= _LEFT_OUT:
            raise ProductionError(
                f"{production_error(error, record)}; {_LEFT_OUT} records of this transaction were left out already"
            )
        self.left_out[_identity(record)] = error, record

    def refusal(self, record: OutputRecord) -> tuple[KafkaError, InputRecord] | None:
        """The reason why the transaction before could not write this record, if it met it, and the record as it was
        reported."""
        return self.left_out.get(_identity(raw_record(record))) if self.left_out else None


def raw_record(record: OutputRecord, chosen: int | None = None) -> RawRecord:
    """The record that a task sent, as messages name it; with the partition that the client has chosen, if it has."""
    topic, value, key, given, _, _, timestamp, headers = record
    partition = given if chosen is None else chosen
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    return RawRecord(topic, partition, -1, _bytes(key), _bytes(value), timestamp, pairs)


def production_error(error: KafkaError, record: InputRecord) -> ProductionError:
    """The error for a record that the broker or the client refused, with what the user can do about it."""
    remedy = _REMEDIES.get(error.code(), "see the broker's log")
    return ProductionError(f"cannot write to topic {record.topic()}: {error.str()}; {remedy}; {_described(record)}")


def _described(record: InputRecord) -> str:
    """The record among others: never its value, which may be secret."""
    partition = "" if record.partition() is None or record.partition() < 0 else f"partition {record.partition()}, "
    time = _time(record.timestamp()[1])
    return f"the record: {partition}key {record.key()!r:.60}, {time}{_size(record)} bytes"


def _time(timestamp: int) -> str:
    """A time in milliseconds since 1970, as people read it; librdkafka does not report it unless it is asked to."""
    if timestamp < 0:
        return ""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp)
    except OverflowError:
        return f"time {timestamp}, "
    return f"time {timestamp} ({moment.isoformat(timespec='milliseconds')}), "


def _size(record: InputRecord) -> int:
    parts = [record.key(), record.value()]
    for name, value in record.headers() or ():
        parts += [_bytes(name), _bytes(value)]
    return sum(len(each) for each in parts if each is not None)


def _identity(record: InputRecord) -> _Identity:
    """The parts that make it the same record when it is sent again; its partition may be the client's choice."""
    headers = tuple((name, _bytes(value)) for name, value in record.headers() or ())
    return record.topic(), record.key(), record.value(), max(1, record.timestamp()[1]), headers


def _bytes(given: str | bytes | None) -> bytes | None:
    """As the client takes what a serializer gave."""
    return given.encode() if isinstance(given, str) else given


_REMEDIES = {
    KafkaError.MSG_SIZE_TOO_LARGE: "raise message.max.bytes (client) and max.message.bytes (topic), or send less",
    KafkaError.RECORD_LIST_TOO_LARGE: "raise segment.bytes of the topic, or send less",
    KafkaError.INVALID_TIMESTAMP: (
        "the record's time is further ahead of the broker's clock than message.timestamp.after.max.ms of the topic"
        " allows (an hour by default), or further behind than message.timestamp.before.max.ms does: correct the clock"
        " or the timestamp extractor that it comes from, or raise the property of the topic (of internal topics by"
        " topic_properties)"
    ),
    KafkaError.INVALID_RECORD: "the topic does not take such a record (a compacted topic none without a key)",
    KafkaError._UNKNOWN_TOPIC: "create the topic",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "create the topic",
    KafkaError.TOPIC_EXCEPTION: "correct the topic's name, or write to another: no client may write to this one",
    KafkaError._UNKNOWN_PARTITION: "the partitioner chose a partition that does not exist",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant WRITE on the topic",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant IDEMPOTENT_WRITE on the cluster",
    KafkaError._MSG_TIMED_OUT: "the broker was out of reach for too long",
    KafkaError.POLICY_VIOLATION: "the topic's policy refuses the record (a null key on a compacted topic, perhaps)",
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE: (
        "choose another compression.type: the broker or the topic does not support this one"
    ),
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT: "raise message.format.version of the topic: the record needs another",
}

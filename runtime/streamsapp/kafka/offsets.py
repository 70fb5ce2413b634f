"""Committed offsets with their metadata, byte for byte as Kafka Streams reads and writes them. Polling thread only.

confluent-kafka takes metadata for C strings: it commits a zero byte at the end, which makes Kafka Streams discard the
whole, and reads beyond the end of what Kafka Streams committed. The three requests that carry metadata therefore go to
the client's own librdkafka directly, with lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
    memmove,
    string_at,
)
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from streamsapp.kafka.group_member import Member, group_metadata
from streamsapp.kafka.librdkafka_handle import handle_of, librdkafka
from streamsapp.record import TopicPartition

#: Offset and metadata.
Committed: TypeAlias = tuple[int, str]


#: No broker and no client of librdkafka's gives a partition this error.
_NOT_ANSWERED = KafkaError._IN_PROGRESS


class _Partition(Structure):
    """``rd_kafka_topic_partition_t``"""

    _fields_ = [
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("private", c_void_p),
    ]


class _PartitionList(Structure):
    """``rd_kafka_topic_partition_list_t``"""

    _fields_ = [("count", c_int), ("size", c_int), ("elements", POINTER(_Partition))]


_List: TypeAlias = Any  # a pointer to a _PartitionList; ctypes makes the class of pointers at run time


def committed(
    consumer: Consumer, partitions: Iterable[TopicPartition], timeout: float
) -> dict[TopicPartition, Committed]:
    """Offset and metadata of the partitions for which the consumer's group has committed one. Raises
    ``KafkaException`` also where an answer leaves a partition out: that is not to have no offset."""
    with _partition_list(dict.fromkeys(partitions, (0, ""))) as listed:
        for index in range(listed.contents.count):
            listed.contents.elements[index].err = _NOT_ANSWERED  # an answer about the partition takes its place
        _check(_library.rd_kafka_committed(handle_of(consumer), listed, round(timeout * 1000)))
        found = listed.contents
        answers = [found.elements[index] for index in range(found.count)]
        for each in answers:
            if each.err == _NOT_ANSWERED:
                left_out = f"the answer leaves out {each.topic.decode()}-{each.partition}"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, left_out))
            _check(each.err)
        return {
            TopicPartition(each.topic.decode(), each.partition): (each.offset, _metadata(each))
            for each in answers
            if each.offset >= 0
        }


def commit(consumer: Consumer, offsets: Mapping[TopicPartition, Committed]) -> None:
    """Commit for the consumer's group and wait for the answer."""
    with _partition_list(offsets) as listed:
        _check(_library.rd_kafka_commit(handle_of(consumer), listed, 0))


def send_to_transaction(
    producer: Producer, offsets: Mapping[TopicPartition, Committed], member: Member, timeout: float
) -> None:
    """Make offsets part of the producer's open transaction."""
    proof = group_metadata(member)
    group = c_void_p()
    _raise(_library.rd_kafka_consumer_group_metadata_read(byref(group), proof, len(proof)))
    try:
        with _partition_list(offsets) as listed:
            handle = handle_of(producer)
            _raise(_library.rd_kafka_send_offsets_to_transaction(handle, listed, group, round(timeout * 1000)))
    finally:
        _library.rd_kafka_consumer_group_metadata_destroy(group)


_POINTER = POINTER(_PartitionList)
_library = librdkafka(
    {
        "rd_kafka_mem_malloc": (c_void_p, [c_void_p, c_size_t]),
        "rd_kafka_topic_partition_list_new": (_POINTER, [c_int]),
        "rd_kafka_topic_partition_list_add": (POINTER(_Partition), [_POINTER, c_char_p, c_int32]),
        "rd_kafka_topic_partition_list_destroy": (None, [_POINTER]),
        "rd_kafka_committed": (c_int, [c_void_p, _POINTER, c_int]),
        "rd_kafka_commit": (c_int, [c_void_p, _POINTER, c_int]),
        "rd_kafka_consumer_group_metadata_read": (c_void_p, [c_void_p, c_char_p, c_size_t]),
        "rd_kafka_consumer_group_metadata_destroy": (None, [c_void_p]),
        "rd_kafka_send_offsets_to_transaction": (c_void_p, [c_void_p, _POINTER, c_void_p, c_int]),
        "rd_kafka_error_code": (c_int, [c_void_p]),
        "rd_kafka_error_string": (c_char_p, [c_void_p]),
        "rd_kafka_error_is_fatal": (c_int, [c_void_p]),
        "rd_kafka_error_is_retriable": (c_int, [c_void_p]),
        "rd_kafka_error_txn_requires_abort": (c_int, [c_void_p]),
        "rd_kafka_error_destroy": (None, [c_void_p]),
    }
)


@contextmanager
def _partition_list(offsets: Mapping[TopicPartition, Committed]) -> Iterator[_List]:
    listed = _library.rd_kafka_topic_partition_list_new(len(offsets))
    try:
        for (topic, number), (offset, metadata) in offsets.items():
            partition = _library.rd_kafka_topic_partition_list_add(listed, topic.encode(), number).contents
            partition.offset = offset
            if metadata:
                data = metadata.encode()
                # The list owns what it points to and frees it.
                partition.metadata = _library.rd_kafka_mem_malloc(None, len(data))
                partition.metadata_size = len(data)
                memmove(partition.metadata, data, len(data))
        yield listed
    finally:
        _library.rd_kafka_topic_partition_list_destroy(listed)


def _metadata(partition: _Partition) -> str:
    """Decode metadata, which may be anything if another program committed it."""
    return string_at(partition.metadata, partition.metadata_size).decode(errors="replace") if partition.metadata else ""


def _check(code: int) -> None:
    if code != KafkaError.NO_ERROR:
        raise KafkaException(KafkaError(code))


def _raise(error: int | None) -> None:
    """Turn an ``rd_kafka_error_t`` into the exception that confluent-kafka would raise."""
    if error is None:
        return
    try:
        raise KafkaException(
            KafkaError(
                _library.rd_kafka_error_code(error),
                _library.rd_kafka_error_string(error).decode(),
                bool(_library.rd_kafka_error_is_fatal(error)),
                bool(_library.rd_kafka_error_is_retriable(error)),
                bool(_library.rd_kafka_error_txn_requires_abort(error)),
            )
        )
    finally:
        _library.rd_kafka_error_destroy(error)

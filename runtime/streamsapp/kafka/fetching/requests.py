"""The requests of a fetcher, in kafka-python's classes, and what is read of answers; those to Fetch are read in C
(``native/answer.h``), as they bring the records. Pure.

The version of each request is fixed: later ones of Fetch name topics by ids (KIP-516).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from streamsapp.kafka.fetching.settings import FetchSettings
from streamsapp.record import TopicPartition

Request: TypeAlias = Any
#: The bytes of a request, by its number.
Encoded: TypeAlias = Callable[[int], bytes]

FETCH_VERSION, OFFSETS_VERSION = 12, 5


def fetch(
    settings: FetchSettings, wanted: Iterable[tuple[TopicPartition, int, int]], wait: float, each: int
) -> Encoded:
    """Ask for records of partitions, from an offset on, which follows a record of the epoch; ``each`` so many bytes."""
    topic_of = FetchRequest.FetchTopic
    partition_of = topic_of.FetchPartition
    by_topic: dict[str, list[Any]] = {}
    for (topic, number), offset, epoch in wanted:
        one = partition_of(
            partition=number,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=epoch,
            log_start_offset=-1,
            partition_max_bytes=each,
        )
        by_topic.setdefault(topic, []).append(one)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=round(wait * 1000),
        min_bytes=settings.least,
        max_bytes=settings.answer,
        isolation_level=int(settings.committed_only),
        session_id=0,
        session_epoch=-1,
        topics=[topic_of(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()],
        forgotten_topics_data=[],
        rack_id="",
    )
    return _encoded(request, FETCH_VERSION, settings.client_id)


def list_offsets(settings: FetchSettings, wanted: Iterable[tuple[TopicPartition, int]]) -> Encoded:
    """Ask where partitions begin (-2) or end (-1)."""
    topic_of = ListOffsetsRequest.ListOffsetsTopic
    partition_of = topic_of.ListOffsetsPartition
    by_topic: dict[str, list[Any]] = {}
    for (topic, number), which in wanted:
        one = partition_of(partition_index=number, current_leader_epoch=-1, timestamp=which)
        by_topic.setdefault(topic, []).append(one)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(settings.committed_only),
        topics=[topic_of(name=topic, partitions=partitions) for topic, partitions in by_topic.items()],
    )
    return _encoded(request, OFFSETS_VERSION, settings.client_id)


def offsets(answer: bytearray) -> tuple[int, list[tuple[TopicPartition, int, int]]]:
    """The milliseconds that the broker is to be left alone, and each partition's error and offset. Raises
    ``ValueError`` for anything that is no such answer."""
    try:
        read = ListOffsetsResponse.decode(answer, version=OFFSETS_VERSION, header=True)
    except Exception as error:
        raise ValueError(f"the answer to a ListOffsets request cannot be read: {error!r}") from error
    return read.throttle_time_ms, [
        (TopicPartition(topic.name, each.partition_index), each.error_code, each.offset)
        for topic in read.topics
        for each in topic.partitions
    ]


def versions(client_id: str) -> Encoded:
    """Ask which requests a broker knows."""
    return _encoded(ApiVersionsRequest(), 0, client_id)


def lacks(answer: bytearray) -> bool:
    """True if the broker does not know the requests above."""
    known = {
        each.api_key: (each.min_version, each.max_version)
        for each in ApiVersionsResponse.decode(answer, version=0, header=True).api_keys
    }
    for key, version in ((FetchRequest.API_KEY, FETCH_VERSION), (ListOffsetsRequest.API_KEY, OFFSETS_VERSION)):
        least, greatest = known.get(key, (1, 0))
        if not least <= version <= greatest:
            return True
    return False


def _encoded(request: Request, version: int, client_id: str) -> Encoded:
    def encode(number: int) -> bytes:
        request.with_header(correlation_id=number, client_id=client_id)
        return bytes(request.encode(version=version, header=True, framed=True))

    return encode

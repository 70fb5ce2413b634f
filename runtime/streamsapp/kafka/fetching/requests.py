"""The requests of a fetcher, and the reading of their answers; answers to Fetch are read in C
(``native/fetch/answer.c``), as they bring the records. Pure.

The version of each request is fixed. Fetch names topics by their ids (KIP-516), so that a topic which was created anew
is never read at a position of the previous topic.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from streamsapp.brokers.bounds import WrongAnswerError, check_told
from streamsapp.brokers.codec import decoded
from streamsapp.brokers.encoding import INT32, NO_TAGS, compact_count, encoded_text
from streamsapp.brokers.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from streamsapp.brokers.request import Request
from streamsapp.kafka.fetching.partition import FetchedPartition
from streamsapp.kafka.fetching.session import FetchSession
from streamsapp.kafka.fetching.settings import FetchSettings
from streamsapp.record import TopicPartition

#: The bytes of a request, by its number.
Encoded: TypeAlias = Callable[[int], bytes]

FETCH_KEY, FETCH_VERSION, OFFSETS_VERSION = 1, 13, 5

_SIZE, _HEADER = struct.Struct(">i"), struct.Struct(">hhih")
#: From the replica's number to the session's; a partition, without tagged fields (KIP-482).
_FETCH, _PARTITION = struct.Struct(">iiiibii"), struct.Struct(">iiqiqix")


def fetch(
    settings: FetchSettings,
    session: FetchSession,
    named: Iterable[FetchedPartition],
    forgotten: Iterable[FetchedPartition],
    wait: float,
    each: int,
    rack: str,
) -> Encoded:
    """Ask for records of the partitions that a session knows. The ``named`` ones are new or have moved, and the
    ``forgotten`` ones leave it; ``each`` partition may give so many bytes. A leader may name a follower in the ``rack``
    instead (KIP-392). Written by hand: it is asked so often that types of messages were a third of what few records
    cost."""
    asked: dict[bytes, list[bytes]] = {}
    for one in named:
        of_it = _PARTITION.pack(one.name.partition, one.leader_epoch, one.position, one.epoch, -1, each)
        asked.setdefault(one.topic_id, []).append(of_it)
    left: dict[bytes, list[bytes]] = {}
    for one in forgotten:
        left.setdefault(one.topic_id, []).append(_SIZE.pack(one.name.partition))
    body = b"".join(
        (
            _FETCH.pack(
                -1, round(wait * 1000), settings.least, settings.answer, settings.committed_only, *session.number
            ),
            _by_topic(asked),
            _by_topic(left),
            encoded_text(rack, compact=True),
            NO_TAGS,
        )
    )
    client_id = settings.client_id.encode()

    def encode(number: int) -> bytes:
        header = _HEADER.pack(FETCH_KEY, FETCH_VERSION, number, len(client_id))
        return b"".join((_SIZE.pack(len(header) + len(client_id) + 1 + len(body)), header, client_id, b"\0", body))

    return encode


def list_offsets(settings: FetchSettings, wanted: Iterable[tuple[FetchedPartition, int]]) -> Encoded:
    """Ask leaders where partitions begin (-2) or end (-1)."""
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for one, which in wanted:
        of_it = ListOffsetsPartition(
            partition_index=one.name.partition, current_leader_epoch=one.leader_epoch, timestamp=which
        )
        by_topic.setdefault(one.name.topic, []).append(of_it)
    topics = [ListOffsetsTopic(topic, partitions) for topic, partitions in by_topic.items()]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=int(settings.committed_only), topics=topics)
    return _encoded(Request(request), OFFSETS_VERSION, settings.client_id)


def offsets(answer: bytearray, asked: Collection[TopicPartition]) -> tuple[int, list[tuple[TopicPartition, int, int]]]:
    """The milliseconds that the broker is to be left alone, and each partition's error and offset. Raises
    ``ValueError`` for anything that is no such answer to the request."""
    try:
        read = decoded(ListOffsetsResponse, answer[INT32.size :], OFFSETS_VERSION)
    except (ValueError, struct.error) as error:
        raise ValueError(f"the answer to a ListOffsets request cannot be read: {error!r}") from error
    told = [
        (TopicPartition(topic.name, each.partition_index), each.error_code, each.offset)
        for topic in read.topics
        for each in topic.partitions
    ]
    if read.throttle_time_ms <= 0 or told:  # a broker that wants to be left alone may say nothing else
        check_told("ListOffsets", asked, (name for name, *_ in told))
    for name, code, offset in told:
        if not code and offset < 0:
            raise WrongAnswerError(f"the answer to ListOffsets has offset {offset} of {name}, and no error")
    return read.throttle_time_ms, told


def lacks(versions: Mapping[int, tuple[int, int]]) -> bool:
    """True if a broker that knows these versions of requests does not know those above. Raises ``WrongAnswerError``
    if it knows none of their kind."""
    wanted = {FETCH_KEY: FETCH_VERSION, ListOffsetsRequest.API_KEY: OFFSETS_VERSION}
    if not wanted.keys() <= versions.keys():
        raise WrongAnswerError("it does not support Fetch or ListOffsets requests; is it a Kafka broker?")
    return any(not versions[key][0] <= version <= versions[key][1] for key, version in wanted.items())


def _by_topic(parts: Mapping[bytes, Sequence[bytes]]) -> bytes:
    encoded = [compact_count(len(parts))]
    for topic_id, of_it in parts.items():
        encoded += (topic_id, compact_count(len(of_it)), *of_it, b"\0")
    return b"".join(encoded)


def _encoded(request: Request[ListOffsetsResponse], version: int, client_id: str) -> Encoded:
    return lambda number: request.encoded(version, number, client_id)

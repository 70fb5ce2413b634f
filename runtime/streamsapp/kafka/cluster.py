"""Asks brokers about topics and their leaders, and which offsets a group has committed, over a connection of the
runtime's: the same for both clients.

confluent-kafka describes topics with its admin client only. It takes the metadata of offsets for C strings, and so
reads beyond the end of what Kafka Streams committed. Called on whichever thread asks; each call waits for its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from threading import Lock
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import KafkaError, KafkaException

from streamsapp.brokers.connection import Connection
from streamsapp.brokers.coordinators import GROUP, check_coordinator, coordinator_of, find_coordinator
from streamsapp.brokers.errors import RefusedError, UnreachableError
from streamsapp.brokers.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from streamsapp.brokers.request import Request
from streamsapp.brokers.request_by_hand import RequestByHand
from streamsapp.brokers.settings import connection_settings
from streamsapp.clock import SystemClock
from streamsapp.config.client_properties import ClientProperties
from streamsapp.deadline import Deadline
from streamsapp.kafka.described import NOTHING, Described, check_described, described, topics_request
from streamsapp.kafka.offset_fetch import OffsetFetchAnswer, OffsetFetchRequest
from streamsapp.kafka.partition_offsets import EARLIEST, LATEST, Offsets, ends, offsets_at
from streamsapp.record import TopicIdentity, TopicPartition

T = TypeVar("T")

#: Offset and metadata.
Committed: TypeAlias = tuple[int, str]

#: How long a commit may take, and the end of the connection's thread, in seconds.
_COMMIT, _END = 30.0, 1.0
#: The errors of a group that has no coordinator for a moment, or another one: it is new, or a broker restarts. And the
#: pause in seconds before the next look-up.
_ELSEWHERE = frozenset(
    {
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)
_PAUSE = 0.1
#: The part of the time in which one broker is to answer, and in which a coordinator is looked for again.
_ONE, _AGAIN = 0.4, 0.8


class Cluster:
    """The brokers, as one consumer or admin client asks them."""

    def __init__(self, properties: ClientProperties) -> None:
        """A connection is made when something is asked."""
        self._properties = properties
        self._group = str(properties.get("group.id", ""))
        self._committed_only = str(properties.get("isolation.level", "read_committed")).lower() == "read_committed"
        self._made: Connection | None = None
        self._making = Lock()
        self._closed = False
        self._clock = SystemClock()
        self._forever = Deadline(self._clock)

    def describe(self, names: Collection[str], timeout: float) -> Described:
        """The topics of these names, and the brokers. Raises ``KafkaException`` when no broker answers, with the code
        of a failed authentication where one refuses this client."""
        if not names:
            return NOTHING

        return self._asked(lambda connection: _described(connection, names, timeout), timeout)

    def topics(self, names: Collection[str], timeout: float) -> dict[str, TopicIdentity]:
        """The topics that these names stand for now, as far as they exist and may be described. The id is empty where
        the brokers know none. Raises as ``describe`` does."""
        found = self.describe(names, timeout).topics
        return {name: each.topic for name, each in found.items() if not each.error}

    def offsets_at(self, wanted: Mapping[TopicPartition, int], timeout: float) -> dict[TopicPartition, int]:
        """The first offset of each partition at or after a time in milliseconds, or ``EARLIEST``, or ``LATEST``: the
        end of the readable records. It is -1 where no record is as late. Raises ``KafkaException``."""

        async def ask(connection: Connection) -> dict[TopicPartition, int]:
            told = await _described(connection, {each.topic for each in wanted}, timeout)
            return await offsets_at(connection, told, wanted, _ONE * timeout, committed_only=self._committed_only)

        return self._asked(ask, timeout)

    def bounds(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        """Returns the offsets at which a partition begins and at which its readers end. Raises ``KafkaException``."""

        async def ask(connection: Connection) -> tuple[int, int]:
            told = await _described(connection, [partition.topic], timeout)
            first, last = await connection.together(
                offsets_at(connection, told, {partition: at}, _ONE * timeout, committed_only=self._committed_only)
                for at in (EARLIEST, LATEST)
            )
            return first[partition], max(first[partition], last[partition])

        return self._asked(ask, timeout)

    def ends(self, partitions: Collection[TopicPartition], timeout: float) -> tuple[Offsets, Offsets]:
        """The first offset of partitions, and where they end: records of open transactions count. Raises
        ``KafkaException``, also where a leader changed meanwhile."""
        names = {each.topic for each in partitions}

        def ask(connection: Connection) -> Coroutine[Any, Any, tuple[Offsets, Offsets]]:
            return ends(connection, lambda: _described(connection, names, timeout), partitions, _ONE * timeout)

        return self._asked(ask, timeout) if names else ({}, {})

    def committed(self, partitions: Iterable[TopicPartition], timeout: float) -> dict[TopicPartition, Committed]:
        """Offset and metadata of the partitions for which the group has committed one. Raises ``KafkaException``."""
        asked = list(partitions)
        request = OffsetFetchRequest(self._group, asked, stable=self._committed_only)

        def codes(answer: OffsetFetchAnswer) -> list[int]:
            return [answer.error_code, *(each.error_code for each in answer.offsets)]

        answer = self._asked(lambda connection: self._coordinated(connection, request, codes, timeout), timeout)
        _check(answer.error_code)
        for each in answer.offsets:
            _check(each.error_code)
        return {each.name: (each.offset, each.metadata) for each in answer.offsets if each.offset >= 0}

    def commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commit for the group and wait for the answer, as a consumer that is no member. Raises ``KafkaException``."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, number), (offset, metadata) in offsets.items():
            one = OffsetCommitRequestPartition(
                partition_index=number, committed_offset=offset, committed_metadata=metadata
            )
            topics.setdefault(topic, []).append(one)
        message = OffsetCommitRequest(
            group_id=self._group,
            topics=[OffsetCommitRequestTopic(name=name, partitions=it) for name, it in topics.items()],
        )

        def codes(answer: OffsetCommitResponse) -> list[int]:
            return [each.error_code for topic in answer.topics for each in topic.partitions]

        def ask(connection: Connection) -> Coroutine[Any, Any, OffsetCommitResponse]:
            return self._coordinated(connection, Request(message, greatest=8), codes, _COMMIT)

        told = {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for topic in self._asked(ask, _COMMIT).topics
            for each in topic.partitions
        }
        for each in offsets:
            _check(told.get(each, KafkaError._TIMED_OUT))

    def close(self) -> None:
        """Ask nothing any more."""
        with self._making:
            self._closed = True
            if self._made is not None:
                self._made.close(_END)

    def _asked(self, ask: Callable[[Connection], Coroutine[Any, Any, T]], timeout: float) -> T:
        try:
            connection = self._connection()
            return connection.run(lambda: ask(connection), timeout, self._forever)
        except UnreachableError as error:
            code = KafkaError._AUTHENTICATION if isinstance(error, RefusedError) else KafkaError._TRANSPORT
            raise KafkaException(KafkaError(code, str(error))) from error

    def _connection(self) -> Connection:
        with self._making:
            if self._closed:
                raise UnreachableError("the client is closed")
            if self._made is None:
                name = str(self._properties.get("client.id", "client"))
                self._made = Connection(connection_settings(self._properties, f"{name}-cluster"))
                self._made.start()
            return self._made

    async def _coordinated(
        self, connection: Connection, request: RequestByHand[T], codes: Callable[[T], list[int]], timeout: float
    ) -> T:
        """The answer of the broker that coordinates the group, which is looked up each time: it is seldom asked. It is
        looked for again, until the time is over, where the ``codes`` of an answer say that it is another one."""
        give_up = self._clock.monotonic() + _AGAIN * timeout
        while True:
            found = await connection.ask_any(
                lambda: find_coordinator(GROUP, self._group),
                _ONE * timeout,
                lambda answer: check_coordinator(answer, self._group),
            )
            coordinator = coordinator_of(found)
            elsewhere = coordinator.error_code
            if not elsewhere:
                _, node = connection.two_ways_to(coordinator, GROUP, self._group)
                answer = await connection.send(request, node, _ONE * timeout)
                elsewhere = next((code for code in codes(answer) if code in _ELSEWHERE), KafkaError.NO_ERROR)
                if not elsewhere:
                    return answer
            if elsewhere not in _ELSEWHERE or self._clock.monotonic() >= give_up:
                raise KafkaException(KafkaError(elsewhere))
            await connection.sleep(_PAUSE)


async def _described(connection: Connection, names: Collection[str], timeout: float) -> Described:
    answer = await connection.ask_any(
        lambda: topics_request(names), _ONE * timeout, lambda answer: check_described(answer, names)
    )
    connection.learn(answer)
    return described(answer)


def _check(code: int) -> None:
    if code != KafkaError.NO_ERROR:
        raise KafkaException(KafkaError(code))

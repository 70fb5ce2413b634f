"""The admin client all parts use. It knows the leader of a partition before a request is sent there.

librdkafka looks up unknown leaders on the caller's thread, while its own thread may end the same lookup and free it.
Then ``list_offsets`` and ``delete_records`` take the process down with a segmentation fault. (Seen with 2.16.1; two
requests for new topics in a row suffice, on a busy machine.) Leaders that are in its cache are not looked up.

Called on whichever thread asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Any, TypeVar

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ListOffsetsResultInfo,
    OffsetSpec,
    TopicMetadata,
)

T = TypeVar("T")

#: How long a broker may take to name the leaders of a topic, in seconds.
LOOKUP_TIMEOUT = 5.0
#: Leaders are asked for again after this many seconds: well before the client forgets them (metadata.max.age.ms).
REMEMBERED = 60.0


class Admin(AdminClient):
    """``AdminClient`` with ``list_offsets`` and ``delete_records`` that may be called at any time, on any thread.

    When a leader cannot be looked up, all futures of the request have the ``KafkaException``.
    """

    def __init__(self, conf: Mapping[str, Any], **options: Any) -> None:
        super().__init__(dict(conf), **options)
        self._leaders = _Leaders()
        #: Nothing of ours may change the client's metadata between a lookup and the request it is for.
        self._asking = Lock()

    def list_offsets(  # type: ignore[override]  # its declared parent is not the version that runs
        self, topic_partition_offsets: Mapping[TopicPartition, OffsetSpec], **options: Any
    ) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
        """See ``AdminClient``; nothing is asked about no partitions."""
        asked = dict(topic_partition_offsets)
        return self._ask(list(asked), lambda: super(Admin, self).list_offsets(asked, **options)) if asked else {}

    def delete_records(  # type: ignore[override]
        self, topic_partition_offsets: Sequence[TopicPartition], **options: Any
    ) -> dict[TopicPartition, Future[Any]]:
        """See ``AdminClient``."""
        asked = list(topic_partition_offsets)
        return self._ask(asked, lambda: super(Admin, self).delete_records(asked, **options))

    def close(self) -> None:
        """No thread may be using the client. Left to the garbage collector, it may be ended on its own thread, where
        that aborts the process."""
        self.__exit__(None, None, None)

    def _ask(
        self, partitions: Collection[TopicPartition], request: Callable[[], dict[TopicPartition, Future[T]]]
    ) -> dict[TopicPartition, Future[T]]:
        with self._asking:
            try:
                self._look_up({partition.topic for partition in partitions})
            except KafkaException as error:
                return {partition: _failed(error) for partition in partitions}
            answers = request()
        for answer in answers.values():
            answer.add_done_callback(self._leaders.judge)
        return answers

    def _look_up(self, topics: Iterable[str]) -> None:
        for topic in self._leaders.unknown(topics):
            found: TopicMetadata = self.list_topics(topic, timeout=LOOKUP_TIMEOUT).topics[topic]
            if found.error is not None:
                raise KafkaException(found.error)
            self._leaders.learned(topic)


class _Leaders:
    """The topics whose leaders the client has in its cache. It knows nothing of the client, which a callback on
    its own thread must not keep alive."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def unknown(self, topics: Iterable[str]) -> set[str]:
        now = time.monotonic()
        return {topic for topic in topics if self._until.get(topic, now) <= now}

    def learned(self, topic: str) -> None:
        self._until[topic] = time.monotonic() + REMEMBERED

    def judge(self, answer: Future[Any]) -> None:
        """After a broker's restart the client would ask brokers that lead no more. A broker that was cut off may answer
        without an offset and without an error."""
        if answer.exception() is not None or getattr(answer.result(), "offset", 0) < 0:
            self._until.clear()


def _failed(error: KafkaException) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future

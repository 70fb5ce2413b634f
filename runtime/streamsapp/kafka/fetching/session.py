"""The partitions that a broker remembers from one request to the next. Requests name only partitions that are new, or
have moved, and answers only partitions that have news (KIP-227).

Pure; used on the consumer's thread. Brokers that keep no sessions, or have no room for another one, are sent all
partitions each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from confluent_kafka import KafkaError

from streamsapp.kafka.fetching.partition import FetchedPartition
from streamsapp.record import TopicPartition

#: The partitions that an answer may have, each with the position, the epoch of the last record and the leader's epoch
#: that the request had. An answer to another assignment differs in them.
Asked: TypeAlias = dict[TopicPartition, tuple[FetchedPartition, int, int, int]]


class AskedFor(NamedTuple):
    """The content of a request: partitions, and whether it is for their ``offsets`` or for records."""

    partitions: Asked
    offsets: bool


#: A broker's, which the client has no name for.
_FETCH_SESSION_TOPIC_ID_ERROR = 106
#: Errors of a session, which begins anew then.
ENDED = frozenset(
    {KafkaError.FETCH_SESSION_ID_NOT_FOUND, KafkaError.INVALID_FETCH_SESSION_EPOCH, _FETCH_SESSION_TOPIC_ID_ERROR}
)

_LAST_EPOCH = 2**31 - 1


class FetchSession:
    """The session of one connection."""

    def __init__(self) -> None:
        self._id = self._epoch = self._each = 0
        self.asked: Asked = {}
        #: Says whether the last answer had no records.
        self.has_nothing = False

    @property
    def number(self) -> tuple[int, int]:
        """The id and the epoch of the next request."""
        return self._id, self._epoch

    @property
    def kept(self) -> bool:
        """True if the last request, or the next one, goes on from those before; otherwise it names all partitions."""
        return self._epoch > 0

    def ask(
        self, wanted: Sequence[FetchedPartition], each: int
    ) -> tuple[Sequence[FetchedPartition], Iterable[FetchedPartition]]:
        """The partitions to name when these are wanted, so many bytes of each, and the partitions to be forgotten."""
        before, self.asked, named = self.asked, {}, []
        for one in wanted:
            terms = self.asked[one.name] = (one, one.position, one.epoch, one.leader_epoch)
            told = before.get(one.name)
            if told != terms:
                named.append(one)
                if told is not None and told[0] is not one:
                    self._epoch = 0  # or it would learn nothing that the session before knew
        if each != self._each:
            self._each, self._epoch = each, 0
        if not self.kept:
            return wanted, ()
        return named, [before[name][0] for name in before.keys() - self.asked.keys()]

    def answered(self, session: int) -> None:
        """The broker has answered, and remembers the request under this id; 0: it remembers nothing."""
        self._id = session
        self._epoch = self._epoch % _LAST_EPOCH + 1 if session else 0

    def refused(self, code: int) -> None:
        """The broker does not know the session, or another request of it came last."""
        self._epoch = 0
        if code == KafkaError.FETCH_SESSION_ID_NOT_FOUND:
            self._id = 0

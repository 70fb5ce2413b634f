"""The sessions that scripted brokers keep of a fetcher's requests (KIP-227), as real ones do."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from confluent_kafka import KafkaError

from messages_by_hand.fetch import FetchTopic
from streamsapp import TopicPartition

_CLOSING = -1


@dataclass
class _Session:
    broker: int
    epoch: int = 0
    #: Each partition as it was asked for last; the high watermark and first offset that were last sent of it.
    asked: dict[TopicPartition, Any] = field(default_factory=dict)
    told: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)


class FetchSessions:
    """The sessions of some brokers. Requests that name more than they have to are noted in ``broken``."""

    def __init__(self, broken: list[str]) -> None:
        self._broken = broken
        self._ids = count(1)
        self._sessions: dict[int, _Session] = {}
        #: Says whether there is room for any.
        self.kept = True
        #: The partitions that each request of a session named, after its first one.
        self.named: list[set[TopicPartition]] = []

    def forget(self) -> None:
        """As a broker that was started again, or has no room for them any more."""
        self._sessions.clear()

    def skip(self) -> None:
        """Treat the next request as out of order: it does not follow the last one."""
        for session in list(self._sessions.values()):
            session.epoch += 1

    def taken(self, broker: int, request: Any) -> tuple[Any, int, int]:
        """A request with all partitions that its session knows, the session, and an error's code."""
        asked = {
            TopicPartition(topic.topic, each.partition): each for topic in request.topics for each in topic.partitions
        }
        if request.session_epoch <= 0:
            self._sessions.pop(request.session_id, None)
            if request.session_epoch == _CLOSING or not self.kept:
                return request, 0, 0
            number = next(self._ids)
            self._sessions[number] = _Session(broker, 1, asked)
            return request, number, 0
        session = self._sessions.get(request.session_id)
        if session is None or session.broker != broker:
            return request, 0, int(KafkaError.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return request, 0, int(KafkaError.INVALID_FETCH_SESSION_EPOCH)
        session.epoch += 1
        self._change(session, asked, request)
        return self._whole(session, request), request.session_id, 0

    def _change(self, session: _Session, asked: dict[TopicPartition, Any], request: Any) -> None:
        self.named.append(set(asked))
        for name, each in asked.items():
            if name in session.asked and _terms(session.asked[name]) == _terms(each):
                self._broken.append(f"{name} is named, and nothing is new: {each}")
            session.asked[name] = each
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                name = TopicPartition(topic.topic, number)
                if session.asked.pop(name, None) is None:
                    self._broken.append(f"{name} is to be forgotten, and is not known")
                session.told.pop(name, None)

    def _whole(self, session: _Session, request: Any) -> Any:
        topics: dict[str, list[Any]] = {}
        for name, each in session.asked.items():
            topics.setdefault(name.topic, []).append(each)
        request.topics = [FetchTopic(topic=topic, partitions=each) for topic, each in topics.items()]
        return request

    def news(self, number: int, parts: dict[TopicPartition, Any]) -> dict[TopicPartition, Any]:
        """The parts of an answer that have news; partitions that bring records are last the next time."""
        session = self._sessions.get(number)
        if session is None:
            return parts
        news = {}
        for name, part in parts.items():
            told = (part.high_watermark, part.log_start_offset)
            if told_something(part) or session.told.get(name) != told:
                news[name] = part
            session.told[name] = (-1, -1) if part.error_code else told
            if part.records and name in session.asked:
                session.asked[name] = session.asked.pop(name)
        return news


def told_something(part: Any) -> bool:
    """Says whether a broker answers at once with this part."""
    return bool(
        part.records or part.error_code or part.diverging_epoch.end_offset >= 0 or part.preferred_read_replica >= 0
    )


def _terms(each: Any) -> tuple[int, ...]:
    return each.current_leader_epoch, each.fetch_offset, each.last_fetched_epoch, each.partition_max_bytes

"""Brokers as a fetcher meets them, over real sockets, that fail as a test wants it: real brokers do not fail at will.

They keep the rules of the protocol that a fetcher relies on: which broker leads a partition, where its log begins and
ends, that the first batch of each answer is whole, which records a truncated log has lost (KIP-320). ``broken`` has the
requests that make no sense. Each connection has a thread, on which ``fate`` may also wait.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException

from broker_protocol import answered, received
from fetch_sessions import FetchSessions, told_something
from fetched_batches import CONTROL, TRANSACTIONAL, fetched_batch
from instances import TIMEOUT
from messages_by_hand.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from streamsapp import TopicPartition
from streamsapp.brokers.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from streamsapp.brokers.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from streamsapp.kafka.described import Described, Leader, Node, TopicLeaders
from streamsapp.record import TopicIdentity

#: The connection is lost instead of an answer, after it, in the middle of it; an answer that breaks off, an answer with
#: a senseless length, an answer to another request, an error, no answer at all; a batch that was changed on its way.
LOST_REQUEST, LOST_AFTER, CUT, MALFORMED, SENSELESS, OF_ANOTHER, FAILED, SILENT, CORRUPT = range(-1009, -1000)

#: Says what becomes of a partition that is asked for, of the broker with this number: 0, an error's code, or one of
#: those above.
Fate = Callable[[int, TopicPartition], int]

_SIZE = struct.Struct(">i")
#: The least code of an error that brokers answer with.
_LOCAL = -1000


def value_of(partition: TopicPartition, offset: int) -> bytes:
    """The value of each record."""
    return b"%s/%d/%d" % (partition.topic.encode(), partition.partition, offset)


@dataclass(frozen=True)
class Batch:
    base: int
    #: The offset after the last record's.
    after: int
    epoch: int
    data: bytes
    #: Of its records, but for markers.
    offsets: tuple[int, ...]


@dataclass
class Partition:
    leader: int
    start: int = 0
    end: int = 0
    epoch: int = 0
    batches: list[Batch] = field(default_factory=list)
    #: The first offset of each transaction that is open, by its producer.
    open: dict[int, int] = field(default_factory=dict)
    #: Producer, first offset and marker's offset of transactions that were aborted, as they ended.
    aborted: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def stable(self) -> int:
        return min(self.open.values(), default=self.end)

    def from_offset(self, offset: int) -> list[Batch]:
        """The batch with an offset, and those after it."""
        return self.batches[bisect_left(self.batches, offset + 1, key=lambda each: each.after) :]

    def diverges(self, epoch: int, offset: int) -> tuple[int, int] | None:
        """The end of the log of an epoch, if a record of it before the offset is not there."""
        found = [each for each in self.batches if each.epoch <= epoch]
        last = (found[-1].epoch, found[-1].after) if found else (-1, self.start)
        return last if epoch >= 0 and (last[0] < epoch or last[1] < offset) else None


class FetchedBrokers:
    """Some brokers, numbered from 1, with topics of so many partitions."""

    def __init__(self, topics: dict[str, int], brokers: int = 1, deaf: frozenset[int] = frozenset()) -> None:
        """``deaf`` brokers accept no connection before they ``listen``."""
        self.partitions = {
            TopicPartition(topic, number): Partition(1 + number % brokers)
            for topic, count in topics.items()
            for number in range(count)
        }
        self.ids = {topic: uuid4().bytes for topic in topics}
        self.fate: Fate = lambda broker, partition: 0
        self.fate_of_offsets: Fate = lambda broker, partition: 0
        #: Called before a broker answers which requests it knows.
        self.fate_of_versions: Callable[[], object] = lambda: None
        #: An error's code for each look-up of a topic's leaders, or ``LOST_REQUEST``.
        self.fate_of_look_ups: Callable[[str], int] = lambda topic: 0
        #: The broker that answers name as the leader of a partition, from the one that leads it.
        self.told_leader: Callable[[TopicPartition, int], int] = lambda partition, leader: leader
        #: Versions of requests that are known, by their keys.
        self.known = {FetchRequest.API_KEY: (0, 13), ListOffsetsRequest.API_KEY: (0, 5)}
        self.throttle_ms = 0
        #: Changes the batches that are sent of a partition, an answer as a whole, and the bytes on the connection, in
        #: parts; the broker does not check these bytes.
        self.tampered: Callable[[TopicPartition, bytes], bytes] = lambda partition, sent: sent
        self.rewritten: Callable[[Any], object] = lambda answer: None
        self.framed: Callable[[bytes], Iterable[bytes]] = lambda framed: [framed]
        #: Brokers that are said to be elsewhere than they are.
        self.told_addresses: dict[int, tuple[str, int]] = {}
        #: Says whether brokers answer also for what they do not lead (KIP-392).
        self.followers_answer = False
        #: The broker to which each leader sends clients of this rack, and how far each broker has got that is behind.
        self.rack, self.replicas = "", dict[TopicPartition, int]()
        self.behind: dict[int, int] = {}
        #: Each request but those for versions, with the broker's number; how many are answered; each look-up.
        self.asked: list[tuple[int, Any]] = []
        self.answered = 0
        self.looked_up: list[str] = []
        self.broken: list[str] = []
        self.sessions = FetchSessions(self.broken)
        self.accepted: Counter[int] = Counter()
        self._changed = Condition()
        self._closing = False
        self._listening = {number: socket.socket() for number in range(1, 1 + brokers)}
        self._connections: dict[socket.socket, int] = {}
        self._waker, waked = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(waked, selectors.EVENT_READ)
        for number, each in self._listening.items():
            each.bind(("127.0.0.1", 0))
            if number not in deaf:
                self.listen(number)
        self._threads = [Thread(target=self._accept, args=(waked,), name="brokers")]
        self._threads[0].start()

    @property
    def ports(self) -> set[int]:
        """The ports that they listen at."""
        return {each.getsockname()[1] for each in self._listening.values()}

    def listen(self, broker: int) -> None:
        self._listening[broker].listen()
        self._selector.register(self._listening[broker], selectors.EVENT_READ, broker)

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._waker.close()
        for thread in self._threads:
            thread.join(TIMEOUT)
        assert not any(thread.is_alive() for thread in self._threads), "a fate waits for something"

    # ---- what tests do -----------------------------------------------------------------------------------------

    def write(
        self, partition: TopicPartition, count: int, *, codec: str = "none", producer: int = -1, skipped: int = 0
    ) -> Batch:
        """Add a batch of records, perhaps of a transaction; some records before its last one may be gone."""
        with self._changed:
            log = self.partitions[partition]
            offsets = [*range(log.end, log.end + count - 1), log.end + count - 1 + skipped]
            records = [(it - log.end, 1_000 + it, b"k", value_of(partition, it), [("h", b"%d" % it)]) for it in offsets]
            if producer >= 0:
                log.open.setdefault(producer, log.end)
            return self._add(log, records, tuple(offsets), producer, TRANSACTIONAL if producer >= 0 else 0, codec)

    def end_transaction(self, partition: TopicPartition, producer: int, *, committed: bool) -> Batch:
        with self._changed:
            log = self.partitions[partition]
            marker = (0, 1_000, struct.pack(">hh", 0, committed), struct.pack(">hi", 0, 0), None)
            first = log.open.pop(producer)
            if not committed:
                log.aborted.append((producer, first, log.end))
            return self._add(log, [marker], (), producer, TRANSACTIONAL | CONTROL)

    def _add(
        self,
        log: Partition,
        records: list[Any],
        offsets: tuple[int, ...],
        producer: int,
        attributes: int,
        codec: str = "none",
    ) -> Batch:
        after = max(offsets, default=log.end) + 1
        data = fetched_batch(log.end, records, codec, producer, epoch=log.epoch, attributes=attributes)
        log.batches.append(Batch(log.end, after, log.epoch, data, offsets))
        log.end = after
        self._changed.notify_all()
        return log.batches[-1]

    def move(self, partition: TopicPartition, leader: int) -> None:
        with self._changed:
            self.partitions[partition].leader = leader
            self.partitions[partition].epoch += 1
            self._changed.notify_all()

    def begin_at(self, partition: TopicPartition, offset: int) -> None:
        """Delete what is before an offset, where a batch begins; an empty log begins there."""
        with self._changed:
            log = self.partitions[partition]
            log.batches = log.from_offset(offset)
            log.start, log.end = offset, max(log.end, offset)

    def make_anew(self, topic: str) -> None:
        """Delete a topic and create it again."""
        with self._changed:
            self.ids[topic] = uuid4().bytes
            for name, log in self.partitions.items():
                if name.topic == topic:
                    self.partitions[name] = Partition(log.leader)
            self._changed.notify_all()

    def truncate(self, partition: TopicPartition, offset: int) -> None:
        """Lose what is from an offset on, where a batch begins, as an unclean election does."""
        with self._changed:
            log = self.partitions[partition]
            log.batches = [each for each in log.batches if each.after <= offset]
            log.end, log.epoch = offset, log.epoch + 1

    def offsets(self, partition: TopicPartition, begin: int = 0) -> list[int]:
        """Of all records from an offset on."""
        batches = self.partitions[partition].from_offset(begin)
        return [offset for each in batches for offset in each.offsets if offset >= begin]

    def fetches(self) -> Iterator[tuple[int, TopicPartition, Any]]:
        """Each partition of each request for records, and the broker that was asked."""
        for broker, request in list(self.asked):
            if isinstance(request, FetchRequest):
                for topic in request.topics:
                    for each in topic.partitions:
                        yield broker, TopicPartition(topic.topic, each.partition), each

    def addresses(self) -> dict[int, tuple[str, int]]:
        return {number: each.getsockname() for number, each in self._listening.items()}

    def wait_until(self, done: Callable[[], object]) -> None:
        """Wait for what brokers are asked, or answer."""
        with self._changed:
            assert self._changed.wait_for(done, TIMEOUT)

    def connections(self, broker: int) -> int:
        """How many connections of a broker are open."""
        with self._changed:
            return list(self._connections.values()).count(broker)

    def describe(self, topics: Collection[str], timeout: float) -> Described:
        """As ``kafka.cluster`` does."""
        with self._changed:
            self.looked_up += topics
            self._changed.notify_all()
        codes = {topic: self.fate_of_look_ups(topic) for topic in topics}
        if LOST_REQUEST in codes.values():
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        brokers = self.addresses() | self.told_addresses
        return Described(
            {topic: self._described(topic, code) for topic, code in codes.items()},
            {number: Node(*at) for number, at in brokers.items()},
        )

    def _described(self, topic: str, code: int) -> TopicLeaders:
        leaders = {
            name.partition: Leader(self.told_leader(name, each.leader), each.epoch)
            for name, each in list(self.partitions.items())
            if name.topic == topic
        }
        code = code or (0 if leaders else KafkaError.UNKNOWN_TOPIC_OR_PART)
        return TopicLeaders(code, self.identity(topic), {} if code else leaders)

    def identity(self, topic: str) -> TopicIdentity:
        """The topic that a name stands for."""
        of_it = self.ids.get(topic)
        return TopicIdentity("", "cluster") if of_it is None else TopicIdentity.of(of_it, "cluster")

    # ---- connections -------------------------------------------------------------------------------------------

    def _accept(self, waked: socket.socket) -> None:
        while not self._closing:
            for key, _ in self._selector.select():
                if key.data is not None:
                    connection = self._listening[key.data].accept()[0]
                    with self._changed:
                        self.accepted[key.data] += 1
                        self._connections[connection] = key.data
                    self._threads.append(Thread(target=self._serve, args=(key.data, connection), name="broker"))
                    self._threads[-1].start()
        self._selector.close()
        with self._changed:
            for connection in self._connections:
                with suppress(OSError):  # the client may have closed it
                    connection.shutdown(socket.SHUT_RDWR)
        for each in (waked, *self._listening.values()):
            each.close()

    def _serve(self, broker: int, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            goes_on = True
            while goes_on and len(size := connection.recv(4, socket.MSG_WAITALL)) == 4:
                request = connection.recv(_SIZE.unpack(size)[0], socket.MSG_WAITALL)
                goes_on = self._send(connection, *self._answer(broker, request))
                with self._changed:
                    self.answered += 1
                    self._changed.notify_all()
        with self._changed:
            del self._connections[connection]
            self._changed.notify_all()

    def _answer(self, broker: int, data: bytes) -> tuple[bytes, set[int]]:
        """The answer to a request, and what is to become of it."""
        request, version, number, _ = received(data)
        fates = set[int]()
        if isinstance(request, ApiVersionsRequest):
            self.fate_of_versions()
            answer = self._versions()
        else:
            answer, fates = (self._fetch if isinstance(request, FetchRequest) else self._list_offsets)(broker, request)
        self.rewritten(answer)
        return answered(answer, version, number + (OF_ANOTHER in fates)), fates

    def _send(self, connection: socket.socket, answer: bytes, fates: set[int]) -> bool:
        """Returns whether the connection stays."""
        if LOST_REQUEST in fates:
            return False
        if SILENT in fates:
            return True
        if MALFORMED in fates:
            answer = answer[: max(5, len(answer) // 2)]
        framed = _SIZE.pack(-1 if SENSELESS in fates else len(answer)) + answer
        for part in self.framed(framed[: len(framed) // 2] if CUT in fates else framed):
            connection.sendall(part)
        return not fates & {CUT, LOST_AFTER}

    # ---- answers -----------------------------------------------------------------------------------------------

    def _versions(self) -> Any:
        return ApiVersionsResponse(0, [ApiVersion(key, *versions) for key, versions in self.known.items()])

    def _list_offsets(self, broker: int, request: Any) -> tuple[Any, set[int]]:
        with self._changed:
            self._note(broker, request)
        fates, topics = set[int](), []
        for topic in request.topics:
            parts = []
            for each in topic.partitions:
                name = TopicPartition(topic.name, each.partition_index)
                fate = self.fate_of_offsets(broker, name)
                fates.add(fate)
                with self._changed:
                    log = self.partitions.get(name)
                    code = self._refusal(broker, log, fate, each, only_leader=True)
                    end = 0 if log is None else log.stable if request.isolation_level else log.end
                    offset = -1 if code or log is None else log.start if each.timestamp == -2 else end
                if each.timestamp not in (-1, -2):
                    self.broken.append(f"{name}: offsets of {each.timestamp}")
                parts.append(ListOffsetsPartitionResponse(each.partition_index, code, offset=offset))
            topics.append(ListOffsetsTopicResponse(topic.name, parts))
        return ListOffsetsResponse(self.throttle_ms, topics), fates

    def _note(self, broker: int, request: Any) -> None:
        self.asked.append((broker, request))
        self._changed.notify_all()

    def _fetch(self, broker: int, request: Any) -> tuple[Any, set[int]]:
        with self._changed:
            self._name_topics(request)
            request, session, code = self.sessions.taken(broker, request)
            if code:
                return FetchResponse(error_code=code), set()
            self._note(broker, request)
        give_up = time.monotonic() + request.max_wait_ms / 1000
        asked = {
            TopicPartition(topic.topic, each.partition): each for topic in request.topics for each in topic.partitions
        }
        fates = {name: self.fate(broker, name) for name in asked}
        with self._changed:
            while True:
                parts, left = dict[TopicPartition, Any](), None
                for name, each in asked.items():
                    parts[name] = self._part(broker, name, each, fates[name], left, request)
                    if parts[name].records:
                        left = max(0, (request.max_bytes if left is None else left) - len(parts[name].records))
                told = any(told_something(it) for it in parts.values())
                wait = give_up - time.monotonic()
                if told or any(fates.values()) or wait <= 0 or self._closing:
                    break
                self._changed.wait(wait)
            parts = self.sessions.news(session, parts)
        topics = [
            FetchableTopicResponse(
                topic_id=self.ids.get(topic) or bytes.fromhex(topic),
                partitions=[part for name, part in parts.items() if name.topic == topic],
            )
            for topic in dict.fromkeys(name.topic for name in parts)
        ]
        failed = FAILED in fates.values()
        answer = FetchResponse(
            throttle_time_ms=self.throttle_ms,
            error_code=int(KafkaError.UNKNOWN) if failed else 0,
            session_id=session,
            responses=[] if failed else topics,
        )
        return answer, set(fates.values())

    def _name_topics(self, request: Any) -> None:
        """Requests have ids, and the tests names; that of a topic which is no more is its id."""
        names = {topic_id: name for name, topic_id in self.ids.items()}
        for of in (*request.topics, *request.forgotten_topics_data):
            of.topic = names.get(of.topic_id, of.topic_id.hex())

    def _refusal(self, broker: int, log: Partition | None, fate: int, asked: Any, *, only_leader: bool = False) -> int:
        if fate and fate > _LOCAL:
            return fate
        if log is None:
            return int(KafkaError.UNKNOWN_TOPIC_ID)
        if 0 <= asked.current_leader_epoch != log.epoch:
            is_old = asked.current_leader_epoch < log.epoch
            return int(KafkaError.FENCED_LEADER_EPOCH if is_old else KafkaError.UNKNOWN_LEADER_EPOCH)
        answers = log.leader == broker or (self.followers_answer and not only_leader)
        return 0 if answers else int(KafkaError.NOT_LEADER_FOR_PARTITION)

    def _part(self, broker: int, name: TopicPartition, asked: Any, fate: int, left: int | None, request: Any) -> Any:
        """The answer for a partition, when there is room for ``left`` bytes; ``None``: its first batch is sent in any
        case."""
        log, offset = self.partitions.get(name), asked.fetch_offset
        code, diverging, part = self._refusal(broker, log, fate, asked), EpochEndOffset(), PartitionData
        if code or log is None:
            return part(partition_index=name.partition, error_code=code, high_watermark=-1, records=b"")
        sent, aborted, has = b"", [], min(log.end, self.behind.get(broker, log.end))
        replica = self.replicas.get(name, broker) if log.leader == broker and request.rack_id == self.rack else broker
        if self.rack and replica != broker and log.start <= offset <= log.end:
            return part(
                partition_index=name.partition, error_code=0, high_watermark=log.end, last_stable_offset=log.stable,
                log_start_offset=log.start, preferred_read_replica=replica, records=b"",
            )  # fmt: skip
        if (at := log.diverges(asked.last_fetched_epoch, offset)) is not None:
            diverging = EpochEndOffset(*at)
        elif not log.start <= offset <= has:
            code = KafkaError.OFFSET_OUT_OF_RANGE
        else:
            self._look_at(name, log, asked)
            until = min(has, log.stable if request.isolation_level else log.end)
            batches = [each for each in log.from_offset(offset) if each.after <= until]
            sent = _cut(batches, asked.partition_max_bytes, request.max_bytes if left is None else left, left is None)
            sent = self.tampered(name, sent)
            if fate == CORRUPT and sent:
                at_end = len(batches[0].data) - 1
                sent = sent[:at_end] + bytes([sent[at_end] ^ 1]) + sent[at_end + 1 :]
            aborted = [
                AbortedTransaction(producer, first) for producer, first, marker in log.aborted if marker >= offset
            ]
        return part(
            partition_index=name.partition, error_code=code, high_watermark=has,
            last_stable_offset=min(has, log.stable), log_start_offset=log.start, diverging_epoch=diverging,
            aborted_transactions=aborted, records=sent,
        )  # fmt: skip

    def _look_at(self, name: TopicPartition, log: Partition, asked: Any) -> None:
        """A fetcher sends the epoch of the batch that it read last, if it has read one."""
        before = [each.epoch for each in log.batches if each.base < asked.fetch_offset]
        if asked.last_fetched_epoch >= 0 and asked.last_fetched_epoch not in before[-1:]:
            self.broken.append(f"{name}: epoch {asked.last_fetched_epoch} at {asked.fetch_offset}, not {before[-1:]}")


def _cut(batches: list[Batch], most: int, left: int, whole: bool) -> bytes:
    """So many bytes of batches; none if the first one does not fit in, unless it is to be whole in any case."""
    if not batches or not (whole or len(batches[0].data) <= min(most, left)):
        return b""
    return b"".join(each.data for each in batches)[: max(len(batches[0].data), min(most, left))]

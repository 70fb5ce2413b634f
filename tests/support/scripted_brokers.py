"""Brokers as a producer of batches meets them, that fail as a test wants it: real brokers do not fail at will.

They keep the rules of the protocol that a producer relies on: sequence numbers (KIP-98), epochs, partitions that belong
to a transaction. ``broken`` has the requests that break a rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from threading import Condition
from types import SimpleNamespace
from typing import Any, TypeVar

from confluent_kafka import KafkaError

from broker_protocol import Received, received
from compiled_parts import chunk
from fetched_batches import field_of
from streamsapp import native
from streamsapp.brokers.connection import Check, Connection, Node
from streamsapp.brokers.errors import NotSentError, UnreachableError
from streamsapp.brokers.request_by_hand import RequestByHand
from streamsapp.brokers.settings import connection_settings
from streamsapp.config.client_properties import ClientProperties
from streamsapp.deadline import Deadline
from streamsapp.kafka.fetching.decompression import all_decompressed
from streamsapp.kafka.producing.produce import NO_REASONS, ProduceAnswer, Reasons
from streamsapp.kafka.producing.transaction_requests import EndTxnAnswer, TxnOffsetCommitAnswer
from streamsapp.kafka.producing.wire import Producer
from virtual_time import VirtualLoop

T = TypeVar("T")

LOST_REQUEST, LOST_ANSWER, NOT_SENT = -1, -2, -3

#: Says what becomes of a batch for a partition: 0, an error's code, or one of those above.
Fate = Callable[[str, int, list[Any]], int]

_METHODS = {
    "MetadataRequest": "_metadata",
    "ProduceRequest": "_produce",
    "ApiVersionsRequest": "_api_versions",
    "InitProducerIdRequest": "_init_producer_id",
    "FindCoordinatorRequest": "_find_coordinator",
    "AddPartitionsToTxnRequest": "_add_partitions_to_txn",
    "AddOffsetsToTxnRequest": "_add_offsets_to_txn",
    "TxnOffsetCommitRequest": "_txn_offset_commit",
    "EndTxnRequest": "_end_txn",
}


@dataclass
class Partition:
    leader: int = 1
    log: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)
    #: By producer and epoch: the next sequence number, and the last batch's first one.
    sequences: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)


class ScriptedBrokers:
    """Some brokers, and the connection of one producer to them."""

    #: Says whether what is written admits its partition or group to the transaction (KIP-890).
    implicit = False

    def __init__(self, topics: dict[str, int], brokers: int = 1) -> None:
        self.partitions = {
            (topic, number): Partition(1 + number % brokers)
            for topic, count in topics.items()
            for number in range(count)
        }
        self.fate: Fate = lambda topic, partition, records: 0
        #: The reasons that are given for a batch that is refused.
        self.explain: Callable[[list[Any]], Reasons] = lambda records: NO_REASONS
        self._reasons: dict[tuple[str, int], Reasons] = {}
        #: Codes that requests are answered with, by their class's name, in turn.
        self.answers: dict[str, list[int]] = defaultdict(list)
        self.asked: list[str] = []
        self.producer, self.epoch = 7, -1
        #: Of the cluster where nothing is admitted implicitly; ``None``: it has none.
        self.transaction_version: int | None = 1
        self.added: set[tuple[str, int]] = set()
        self.ended: list[bool] = []
        self.groups: set[str] = set()
        self.offsets: dict[tuple[str, int], int] = {}
        self.pending_offsets: dict[tuple[str, int], int] = {}
        self.broken: list[str] = []
        #: Changes answers to AddPartitionsToTxn.
        self.tampered: Callable[[Any], object] = lambda answer: None
        #: How long brokers that were written to are to be left alone.
        self.throttle_ms = 0

    def answer(self, request: Any, node: Node) -> Any:
        name = request.name
        self.asked.append(name)
        code = self.answers[name].pop(0) if self.answers[name] else 0
        if code == LOST_REQUEST:
            raise UnreachableError("the request was lost")
        if code == NOT_SENT:
            raise NotSentError("nobody is connected")
        made = getattr(self, _METHODS[name])(getattr(request, "message", request), node, code)
        if code == LOST_ANSWER:
            raise UnreachableError("the answer was lost")
        return made

    def _metadata(self, request: Any, node: Node, code: int) -> Any:
        topics = []
        for topic in (each.name for each in request.topics):
            known = {number: it for (name, number), it in list(self.partitions.items()) if name == topic}
            missing = 0 if known else KafkaError.UNKNOWN_TOPIC_OR_PART
            listed = [SimpleNamespace(partition_index=number, leader_id=it.leader) for number, it in known.items()]
            topics.append(SimpleNamespace(name=topic, error_code=code or missing, partitions=listed))
        return SimpleNamespace(topics=topics)

    def _produce(self, request: Any, node: Node, code: int) -> Any:
        asked = _received(request)
        self._reasons = {}
        before = {name: len(it.log) for name, it in self.partitions.items()}
        codes = {
            (topic.name, each.index): code or self._write(topic.name, each, node, asked)
            for topic in asked.message.topic_data
            for each in topic.partition_data
        }
        if any(each < 0 for each in codes.values()):
            raise UnreachableError("the connection is lost")
        offsets = {name: -1 if code else before[name] for name, code in codes.items()}
        return ProduceAnswer(codes, self.throttle_ms, offsets, self._reasons)

    def _write(self, topic: str, data: Any, node: Node, asked: Received) -> int:
        at = self.partitions[topic, data.index]
        batch = data.records
        records = [
            (it.key(), it.value()) for it in chunk(native, data=batch, decompress=all_decompressed).take(1 << 20)
        ]
        producer = field_of(batch, "producer"), field_of(batch, "producer_epoch")
        sequence, in_transaction = field_of(batch, "sequence"), asked.message.transactional_id is not None
        if at.leader != node:
            return KafkaError.NOT_LEADER_FOR_PARTITION
        if producer[1] < self.epoch:
            return KafkaError.INVALID_PRODUCER_EPOCH
        if in_transaction and asked.version >= 12:
            self._admit(self.added, (topic, data.index))
        if in_transaction and (topic, data.index) not in self.added:
            self.broken.append(f"{topic}-{data.index} is no part of the transaction")
            return KafkaError.INVALID_TXN_STATE
        fate = self.fate(topic, data.index, records)
        if fate > 0:
            self._reasons[topic, data.index] = self.explain(records)
        if fate == LOST_REQUEST or fate > 0:
            return fate
        due, last = at.sequences.get(producer, (0, -1))
        if sequence == last:
            return fate or KafkaError.DUPLICATE_SEQUENCE_NUMBER
        if sequence != due:
            self.broken.append(f"{topic}-{data.index} has {sequence} instead of {due}")
            return KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
        at.sequences[producer] = due + len(records), due
        at.log += records
        return fate

    def _admit(self, admitted: set[Any], one: Any) -> None:
        if not self.implicit:
            self.broken.append(f"{one} admits itself to a transaction of a cluster that does not know of that")
        admitted.add(one)

    def _api_versions(self, request: Any, node: Node, code: int) -> Any:
        levels = {"metadata.version": 29, "transaction.version": 2 if self.implicit else self.transaction_version}
        features = [SimpleNamespace(name=it, max_version_level=level) for it, level in levels.items() if level]
        return SimpleNamespace(error_code=code, finalized_features_epoch=7, finalized_features=features)

    def _init_producer_id(self, request: Any, node: Node, code: int) -> Any:
        self.epoch += not code
        return SimpleNamespace(error_code=code, producer_id=self.producer, producer_epoch=self.epoch)

    def _find_coordinator(self, request: Any, node: Node, code: int) -> Any:
        return SimpleNamespace(error_code=code, coordinators=None)

    def _add_partitions_to_txn(self, request: Any, node: Node, code: int) -> Any:
        topics = []
        for topic in request.v3_and_below_topics:
            if not code:
                self.added |= {(topic.name, number) for number in topic.partitions}
            parts = [SimpleNamespace(partition_index=each, partition_error_code=code) for each in topic.partitions]
            topics.append(SimpleNamespace(name=topic.name, results_by_partition=parts))
        answer = SimpleNamespace(results_by_topic_v3_and_below=topics)
        self.tampered(answer)
        return answer

    def _add_offsets_to_txn(self, request: Any, node: Node, code: int) -> Any:
        if code <= 0:
            self.groups.add(request.group_id)
        return SimpleNamespace(error_code=code)

    def _txn_offset_commit(self, request: Any, node: Node, code: int) -> Any:
        request, version, *_ = _received(request)
        if version >= 5:
            self._admit(self.groups, request.group_id)
        if request.group_id not in self.groups:
            self.broken.append(f"offsets of {request.group_id}, which is not part of the transaction")
        if not code:
            self.pending_offsets |= {
                (topic.name, each.partition_index): each.committed_offset
                for topic in request.topics
                for each in topic.partitions
            }
        return TxnOffsetCommitAnswer([code], 0)

    def _end_txn(self, request: Any, node: Node, code: int) -> Any:
        request, version, *_ = _received(request)
        epochs = version >= 5
        if code <= 0:
            self.ended.append(request.committed)
            self.added.clear()
            self.groups.clear()
            if request.committed:
                self.offsets |= self.pending_offsets
            self.pending_offsets.clear()
            self.epoch += epochs
        return EndTxnAnswer(max(code, 0), Producer(self.producer, self.epoch) if epochs else None, 0)


def _received(request: RequestByHand[Any]) -> Received:
    """The request as a broker reads its bytes."""
    return received(request.encoded(request.versions[1], 1, "producer")[4:])


class ScriptedConnection(Connection):
    """A connection to them, in a time of its own: its loop is turned while a caller waits for it."""

    def __init__(self, brokers: ScriptedBrokers) -> None:
        self.loop = VirtualLoop()
        super().__init__(connection_settings(PROPERTIES, "producer"), self.loop)
        self._brokers_of_it = brokers

    def start(self) -> None:
        """There is no thread."""

    @property
    def alive(self) -> bool:
        return not self._closed

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], timeout: float, deadline: Deadline) -> T:
        ended = list[T | Exception]()

        async def carried() -> None:
            try:
                ended.append(await work())
            except Exception as error:
                ended.append(error)

        self.spawn(carried)
        if not self.loop.within(timeout, lambda: ended):
            raise UnreachableError(f"no answer within {timeout:g} s")
        if isinstance(ended[0], Exception):
            raise ended[0]
        return ended[0]

    def close(self, timeout: float) -> None:
        if not self._closed:
            self._closed = True
            self.loop.stop()
            self._serve()

    async def _answer(self, request: Any, node: Node, timeout: float, held: float) -> Any:
        await self.sleep(0.0005)
        return self._brokers_of_it.answer(request, node)

    async def ask_any(
        self,
        request: Callable[[], Any],
        timeout: float,
        check: Check[Any] = lambda answer: None,
        *,
        apart: bool = False,
    ) -> Any:
        return await self.send(request(), 0, timeout, check)

    def learn(self, metadata: Any) -> None:
        """The test connects to none of them."""

    def two_ways_to(self, coordinator: Any, kind: int, key: str) -> tuple[Node, Node]:
        return 100 + kind, 200 + kind


class VirtualCondition(Condition):
    """News of what happens on a loop: a caller that waits for it turns the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop
        self._told = 0

    def notify_all(self) -> None:
        self._told += 1

    def wait(self, timeout: float | None = None) -> bool:
        before = self._told
        return bool(self.wait_for(lambda: self._told > before, timeout))

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        assert timeout is not None
        return self._loop.within(timeout, predicate)


PROPERTIES: ClientProperties = {"bootstrap.servers": "nobody:1", "linger.ms": 1, "retry.backoff.ms": 1}

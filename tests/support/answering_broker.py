"""A broker that answers requests, and whose answers a test may change: a real broker can't do that. Each connection has
a thread."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

from broker_protocol import answered
from messages_by_hand.end_txn import EndTxnResponse
from messages_by_hand.offset_fetch import OffsetFetchResponse, OffsetFetchResponsePartition, OffsetFetchResponseTopic
from messages_by_hand.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from messages_by_hand.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from streamsapp.brokers.codec import Whole
from streamsapp.brokers.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from streamsapp.brokers.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from streamsapp.brokers.messages.api_versions import ApiVersion, ApiVersionsResponse
from streamsapp.brokers.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from streamsapp.brokers.messages.init_producer_id import InitProducerIdResponse
from streamsapp.brokers.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from streamsapp.brokers.messages.leave_group import LeaveGroupResponse
from streamsapp.brokers.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from streamsapp.brokers.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from streamsapp.brokers.messages.sync_group import SyncGroupResponse

_SIZE = struct.Struct(">i")
API_VERSIONS = 18
_BOTH = range(2)


def _metadata(port: int) -> MetadataResponse:
    parts = [MetadataResponsePartition(0, each, 1, 0, [1], [1]) for each in _BOTH]
    broker = MetadataResponseBroker(1, "127.0.0.1", port)
    topic = MetadataResponseTopic(name="t", partitions=parts)
    return MetadataResponse(brokers=[broker], cluster_id="c", controller_id=1, topics=[topic])


def _join() -> JoinGroupResponse:
    member = JoinGroupResponseMember("m", None, b"metadata")
    return JoinGroupResponse(0, 0, 1, "consumer", "streamsapp", "m", member_id="m", members=[member])


def _produced() -> ProduceResponse:
    return ProduceResponse([TopicProduceResponse("t", [PartitionProduceResponse(each, 0, 7) for each in _BOTH])])


def _added() -> AddPartitionsToTxnResponse:
    parts = [AddPartitionsToTxnPartitionResult(each) for each in _BOTH]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult("t", parts)])


def _fetched() -> OffsetFetchResponse:
    parts = [OffsetFetchResponsePartition(each, 7, metadata="seven") for each in _BOTH]
    return OffsetFetchResponse(topics=[OffsetFetchResponseTopic("t", parts)])


def _committed() -> OffsetCommitResponse:
    parts = [OffsetCommitResponsePartition(each) for each in _BOTH]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", parts)])


def _committed_later() -> TxnOffsetCommitResponse:
    parts = [TxnOffsetCommitResponsePartition(each) for each in _BOTH]
    return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic("t", parts)])


#: By the number of the request: the answer, made for a port.
ANSWERS: dict[int, Callable[[int], Whole]] = {
    0: lambda port: _produced(),
    3: _metadata,
    8: lambda port: _committed(),
    9: lambda port: _fetched(),
    10: lambda port: FindCoordinatorResponse(coordinators=[Coordinator("g", 1, "127.0.0.1", port)]),
    11: lambda port: _join(),
    13: lambda port: LeaveGroupResponse(),
    14: lambda port: SyncGroupResponse(0, 0, "consumer", "streamsapp", b"assignment"),
    22: lambda port: InitProducerIdResponse(0, 0, 7, 1),
    24: lambda port: _added(),
    25: lambda port: AddOffsetsToTxnResponse(),
    26: lambda port: EndTxnResponse(0, 0, 7, 2),
    28: lambda port: _committed_later(),
}


class AnsweringBroker:
    """One broker on a port of its own."""

    def __init__(self) -> None:
        #: Changes an answer before it is encoded, and its bytes afterwards; each gets the request's number.
        self.rewritten: Callable[[int, Any], object] = lambda key, answer: None
        self.harmed: Callable[[int, bytes], bytes] = lambda key, data: data
        self.accepted = 0
        self.asked: list[int] = []
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._connections: list[socket.socket] = []
        self._threads = [Thread(target=self._accept, name="broker", daemon=True)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._connections:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection = self._listening.accept()[0]
                self.accepted += 1
                self._connections.append(connection)
                self._threads.append(Thread(target=self._serve, args=(connection,), name="broker", daemon=True))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while len(size := connection.recv(4, socket.MSG_WAITALL)) == 4:
                request = connection.recv(_SIZE.unpack(size)[0], socket.MSG_WAITALL)
                key, version, number = struct.unpack_from(">hhi", request)
                self.asked.append(key)
                data = self.harmed(key, self._answer(key, version, number))
                connection.sendall(_SIZE.pack(len(data)) + data)

    def _answer(self, key: int, version: int, number: int) -> bytes:
        answer = self._versions() if key == API_VERSIONS else ANSWERS[key](self.port)
        self.rewritten(key, answer)
        return answered(answer, version, number)

    def _versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(0, [ApiVersion(key, 0, 30) for key in (*ANSWERS, API_VERSIONS, 12)])

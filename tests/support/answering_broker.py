"""A broker that answers what it is asked in kafka-python's encoding, and whose answers a test may change: what can't be
had from a real one. Each connection has a thread."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

from kafka.protocol.consumer import (
    JoinGroupResponse,
    LeaveGroupResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    SyncGroupResponse,
)
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    ProduceResponse,
    TxnOffsetCommitResponse,
)

_SIZE = struct.Struct(">i")
API_VERSIONS = 18


def _join() -> Any:
    member = JoinGroupResponse.JoinGroupResponseMember(member_id="m", group_instance_id=None, metadata=b"metadata")
    return JoinGroupResponse(
        throttle_time_ms=0, error_code=0, generation_id=1, protocol_type="consumer", protocol_name="streamsapp",
        leader="m", skip_assignment=False, member_id="m", members=[member],
    )  # fmt: skip


def _topics(of: Any, part: str, **fields: Any) -> Any:
    topic_of = getattr(of, f"{of.__name__}Topic")
    part_of = getattr(topic_of, part)
    return topic_of(name="t", partitions=[part_of(partition_index=each, **fields) for each in range(2)])


def _produce() -> Any:
    topic_of = ProduceResponse.TopicProduceResponse
    part_of = topic_of.PartitionProduceResponse
    parts = [
        part_of(index=each, error_code=0, base_offset=7, log_append_time_ms=-1, log_start_offset=0) for each in range(2)
    ]
    return ProduceResponse(responses=[topic_of(name="t", partition_responses=parts)], throttle_time_ms=0)


def _added() -> Any:
    topic_of = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    part_of = topic_of.AddPartitionsToTxnPartitionResult
    parts = [part_of(partition_index=each, partition_error_code=0) for each in range(2)]
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0, results_by_topic_v3_and_below=[topic_of(name="t", results_by_partition=parts)]
    )


def _metadata(port: int) -> Any:
    topic_of = MetadataResponse.MetadataResponseTopic
    part_of = topic_of.MetadataResponsePartition
    parts = [
        part_of(error_code=0, partition_index=each, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1])
        for each in range(2)
    ]
    broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port, rack=None)
    topic = topic_of(error_code=0, name="t", is_internal=False, partitions=parts)
    return MetadataResponse(throttle_time_ms=0, brokers=[broker], cluster_id="c", controller_id=1, topics=[topic])


def _coordinator(port: int) -> Any:
    one = FindCoordinatorResponse.Coordinator(key="g", node_id=1, host="127.0.0.1", port=port, error_code=0)
    return FindCoordinatorResponse(throttle_time_ms=0, error_code=0, coordinators=[one])


#: By the number of the request: the answer, made for a port.
ANSWERS: dict[int, Callable[[int], Any]] = {
    0: lambda port: _produce(),
    3: _metadata,
    8: lambda port: OffsetCommitResponse(
        throttle_time_ms=0,
        topics=[_topics(OffsetCommitResponse, "OffsetCommitResponsePartition", error_code=0)],
    ),
    9: lambda port: OffsetFetchResponse(
        throttle_time_ms=0,
        error_code=0,
        topics=[
            _topics(
                OffsetFetchResponse,
                "OffsetFetchResponsePartition",
                error_code=0,
                committed_offset=7,
                committed_leader_epoch=-1,
                metadata="seven",
            )
        ],
    ),
    10: _coordinator,
    11: lambda port: _join(),
    13: lambda port: LeaveGroupResponse(throttle_time_ms=0, error_code=0, members=[]),
    14: lambda port: SyncGroupResponse(
        throttle_time_ms=0, error_code=0, protocol_type="consumer", protocol_name="streamsapp", assignment=b"assignment"
    ),
    22: lambda port: InitProducerIdResponse(throttle_time_ms=0, error_code=0, producer_id=7, producer_epoch=1),
    24: lambda port: _added(),
    25: lambda port: AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=0),
    26: lambda port: EndTxnResponse(throttle_time_ms=0, error_code=0, producer_id=7, producer_epoch=2),
    28: lambda port: TxnOffsetCommitResponse(
        throttle_time_ms=0,
        topics=[_topics(TxnOffsetCommitResponse, "TxnOffsetCommitResponsePartition", error_code=0)],
    ),
}


class AnsweringBroker:
    """One broker on a port of its own."""

    def __init__(self) -> None:
        #: Changes an answer before it is encoded, and its bytes afterwards; each is told the request's number.
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
        answer.API_VERSION = version
        answer.with_header(correlation_id=number)
        return bytes(answer.encode(header=True))

    def _versions(self) -> Any:
        of = ApiVersionsResponse.ApiVersion
        known = [of(api_key=key, min_version=0, max_version=30) for key in (*ANSWERS, API_VERSIONS, 12)]
        return ApiVersionsResponse(error_code=0, api_keys=known, throttle_time_ms=0)

"""Writes to a broker as a producer that another one may have fenced, outside of transactions.

Called by the tests of such producers and by ``benchmarks/fences.py``.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from streamsapp.brokers.connection import Connection
from streamsapp.brokers.settings import connection_settings
from streamsapp.clock import SystemClock
from streamsapp.deadline import Deadline
from streamsapp.kafka.producing import wire
from streamsapp.kafka.producing.produce import ProduceRequest
from streamsapp.kafka.producing.transaction_requests import EndTxnRequest
from streamsapp.kafka.producing.wire import Producer
from streamsapp.membership import fencing

#: Longer than any answer takes.
_TIMEOUT = 60.0
_BATCH = struct.Struct(">hiqqqhii")
_TRANSACTION_MS = 60_000
#: Between two tries, in seconds; and the errors of a topic that the broker is about to lead.
_PAUSE = 0.005
_NEW_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.NOT_LEADER_FOR_PARTITION)


def batch(producer: Producer, sequence: int) -> bytes:
    """A batch of one record, of no transaction."""
    record = b"\x00\x00\x00\x01\x02x\x00"  # attributes, deltas of time and offset, no key, the value "x", no headers
    record = bytes([len(record) << 1]) + record
    now = int(time.time() * 1000)
    body = _BATCH.pack(0, 0, now, now, producer.id, producer.epoch, sequence, 1) + record
    return struct.pack(">qiibI", 0, 4 + 1 + 4 + len(body), -1, 2, crc32c(body)) + body


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@dataclass
class Writer:
    """Asks the only broker for one thing at a time."""

    connection: Connection

    @classmethod
    def of(cls, bootstrap_servers: str) -> Writer:
        """Connected to this broker."""
        made = cls(Connection(connection_settings({"bootstrap.servers": bootstrap_servers}, "writer")))
        made.connection.start()
        return made

    def init(self, transactional_id: str) -> Producer:
        """The producer that fences the one before of the same id."""

        async def ask() -> Any:
            while True:
                node = await fencing.transaction_coordinator(self.connection, transactional_id)
                if node is not None:
                    request = wire.init_producer(transactional_id, _TRANSACTION_MS)
                    answer = await self.connection.send(request, node, _TIMEOUT)
                    if answer.error_code == KafkaError.NO_ERROR:
                        return Producer(answer.producer_id, answer.producer_epoch)
                    assert answer.error_code in (
                        KafkaError.CONCURRENT_TRANSACTIONS,
                        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
                        KafkaError.NOT_COORDINATOR,
                    ), answer.error_code
                await self.connection.sleep(_PAUSE)

        return self._run(ask)  # type: ignore[no-any-return]

    def write(self, producer: Producer, sequence: int, topic: str, partition: int = 0) -> int:
        """The error code of a record that is part of no transaction."""
        request = ProduceRequest(None, [((topic, partition), batch(producer, sequence))], _TIMEOUT)

        async def ask() -> int:
            (node,) = await self.connection.learn_brokers(_TIMEOUT)
            while True:
                answer = await self.connection.send(request, node, _TIMEOUT)
                if answer.codes[topic, partition] not in _NEW_TOPIC:
                    return answer.codes[topic, partition]
                await self.connection.sleep(_PAUSE)

        return self._run(ask)  # type: ignore[no-any-return]

    def mark(self, transactional_id: str, producer: Producer, names: Sequence[tuple[str, int]]) -> None:
        """An aborted transaction without records: its markers carry the producer's epoch to the partitions."""

        async def ask() -> None:
            node = await fencing.transaction_coordinator(self.connection, transactional_id)
            assert node is not None
            while True:
                added = await self.connection.send(
                    wire.add_partitions(transactional_id, producer, names), node, _TIMEOUT
                )
                codes = set(wire.add_partitions_errors(added))
                if not codes:
                    break
                assert codes <= {KafkaError.CONCURRENT_TRANSACTIONS, *_NEW_TOPIC}, codes
                await self.connection.sleep(_PAUSE)
            end = EndTxnRequest(transactional_id, producer, committed=False, implicit=False)
            assert (await self.connection.send(end, node, _TIMEOUT)).error_code == KafkaError.NO_ERROR

        self._run(ask)
        self.init(transactional_id)  # answered when the markers are written

    def _run(self, work: Any) -> Any:
        return self.connection.run(work, _TIMEOUT, Deadline(SystemClock()))

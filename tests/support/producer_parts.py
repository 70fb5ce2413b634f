"""A producer over a client that fails as the test wants it to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, TopicPartition as KafkaPartition

from streamsapp import TopicPartition
from streamsapp.kafka.producer import AtLeastOnceProducer, ExactlyOnceProducer
from streamsapp.kafka.refusals import Refusals
from streamsapp.outgoing import OutputRecord
from streamsapp.record import InputRecord, RawRecord
from streamsapp.testing import MockClock

IN = TopicPartition("in", 0)
OFFSETS = {IN: (7, "time")}
TIMES_OUT_AFTER_MS = 10_000


@dataclass
class FakeClient:
    """``confluent_kafka.Producer`` as far as it is used. ``errors`` are raised by the call of that name, in turn."""

    properties: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, list[Exception]] = field(default_factory=dict)
    produced: list[tuple[Any, ...]] = field(default_factory=list)
    reports: list[KafkaError] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    room: int = 1000
    left: int = 0

    def produce(self, topic: str, value: bytes | None, key: bytes | None, *rest: Any) -> None:
        if len(self.produced) == self.room:
            raise BufferError("Local: Queue full")
        self._fail("produce")
        self.produced.append((topic, value, key, *rest))

    def poll(self, timeout: float) -> int:
        self._fail("poll")
        for error in self.reports:
            self.properties["on_delivery"](error, RawRecord("out", 0, 0, b"k", b"v", 0))
        self.reports.clear()
        return 0

    def flush(self, timeout: float) -> int:
        self._fail("flush")
        self.poll(timeout)
        return self.left

    def purge(self) -> None:
        self.calls.append("purge")
        self.reports.append(KafkaError(KafkaError._PURGE_QUEUE))

    def init_transactions(self, timeout: float) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def send_offsets_to_transaction(self, offsets: list[KafkaPartition], group: object, timeout: float) -> None:
        sent = ", ".join(f"{it.topic}-{it.partition}@{it.offset} {it.metadata}" for it in offsets)
        self._call("offsets", f"offsets {sent} of {group}")

    def commit_transaction(self, timeout: float) -> None:
        self._call("commit")

    def abort_transaction(self, timeout: float) -> None:
        self._call("abort")

    def _call(self, name: str, written: str = "") -> None:
        self.calls.append(written or name)
        self._fail(name)

    def _fail(self, name: str) -> None:
        if self.errors.get(name):
            raise self.errors[name].pop(0)


class Group:
    """The membership's side of a commit."""

    def __init__(self) -> None:
        self.committed: list[Any] = []

    def commit(self, offsets: Any) -> None:
        self.committed.append(offsets)

    def metadata(self) -> str:
        return "the group"


class Producing:
    """A producer over a fake client, with an ``on_failure`` that drops records or fails."""

    def __init__(self, client: FakeClient, *, exactly_once: bool = False, refusals: Refusals | None = None) -> None:
        self.client = client
        self.refusals = refusals or Refusals()
        self.clock = MockClock()
        self.group = Group()
        self.handled: list[tuple[int, str, bytes | None, bytes | None]] = []
        self.answer: Exception | None = None
        properties = {"client": "librdkafka", "transaction.timeout.ms": TIMES_OUT_AFTER_MS, "transactional.id": "t"}
        self.producer: AtLeastOnceProducer | ExactlyOnceProducer = (
            ExactlyOnceProducer(cast(Any, properties), self._failed, self.clock, reports=True, refusals=self.refusals)
            if exactly_once
            else AtLeastOnceProducer({"client": "librdkafka"}, self._failed)
        )

    def _failed(self, error: KafkaError, record: InputRecord) -> None:
        self.handled.append((error.code(), record.topic(), record.key(), record.value()))
        if self.answer is not None:
            raise self.answer

    def commit(self) -> None:
        self.producer.commit(OFFSETS, self.group)


def record(value: bytes, timestamp: int = 5) -> OutputRecord:
    return ("out", value, b"k", 3, None, None, timestamp, [("h", b"1")])


def failure(code: int, *, fatal: bool = False, retriable: bool = False, abort: bool = False) -> KafkaException:
    return KafkaException(KafkaError(code, "so it is", fatal, retriable, abort))


TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE

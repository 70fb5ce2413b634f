"""An exact load for an application that counts words: a known number of each goes in, and every count must come out.

Tests of the cluster and the rolling benchmark start one and ask it; one thread of it writes lines, another one reads
committed counts. Its words are its own, so other records in the topics do not matter.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

#: Lines are written this far apart, in seconds, as many at a time as the rate asks for.
_TICK = 0.02
#: There are so many different lines, of so many words each; a line always goes to the same partition.
_LINES = 16
_WORDS_PER_LINE = 4
_MOST_FINDINGS = 20
#: The errors that the client reports of a broker that it will find again by itself.
_PASSING = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT}


class Way(NamedTuple):
    """The way of a count: a partition of the input, and one of the output. Each is a task's."""

    source: int
    sink: int


class Gap(NamedTuple):
    """Returns for how many seconds nothing came through."""

    seconds: float
    #: ``time.monotonic()`` of the last count before it.
    began: float
    way: Way

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s (partition {self.way.source} of the input to {self.way.sink} of the output)"


class CountLedger:
    """Every count of each word has to come once and in order. Pure but for its lock; written to by one thread."""

    def __init__(self) -> None:
        #: The last count of each word.
        self.last: Counter[str] = Counter()
        self.findings: list[str] = []
        self._arrivals: dict[Way, list[float]] = defaultdict(list)
        self._lock = threading.Lock()

    def take(self, word: str, count: int, way: Way, at: float) -> None:
        """One update of the output."""
        with self._lock:
            due = self.last[word] + 1
            if count != due:
                what = "twice" if count < due else "after a hole"
                self._find(f"{word}: the count {count} came {what}, {due} was due (partition {way.sink})")
            self.last[word] = max(count, self.last[word])
            self._arrivals[way].append(at)

    def missing(self, sent: Counter[str]) -> list[str]:
        """Words whose last count is not the number that was sent."""
        return [f"{word}: counted {self.last[word]} of {n}" for word, n in sent.items() if self.last[word] != n]

    def gaps(self, since: float, until: float, pauses: Sequence[tuple[float, float]] = ()) -> Iterator[Gap]:
        """The times between two counts on the same way that touch the time from ``since`` to ``until``. Pauses of the
        input within them do not count."""
        with self._lock:
            arrivals = {way: list(times) for way, times in self._arrivals.items()}
        for way, times in arrivals.items():
            for before, after in pairwise([*times, until] if times[-1] < until else times):
                if after > since and before < until:
                    paused = sum(max(0.0, min(after, ended) - max(before, began)) for began, ended in pauses)
                    yield Gap(after - before - paused, before, way)

    def _find(self, finding: str) -> None:
        if len(self.findings) < _MOST_FINDINGS:
            self.findings.append(finding)


class ExactLoad:
    """Writes lines at a steady rate and follows the counts until it is closed."""

    def __init__(self, bootstrap_servers: str, *, rate: int = 100, source: str = "lines", sink: str = "counts") -> None:
        """``rate`` is in lines per second; each has four words."""
        self.ledger = CountLedger()
        #: How often each word was written.
        self.sent: Counter[str] = Counter()
        self.rate = rate
        self._run = uuid.uuid4().hex[:8]
        self._source = source
        self._errors: list[str] = []
        self._lines = 0
        self._pauses: list[tuple[float, float]] = []
        self._paused = threading.Event()
        self._idle = threading.Event()
        self._end = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "max.in.flight.requests.per.connection": 1,  # as in tests/soak/load.py
                "linger.ms": 5,
                "message.timeout.ms": 300_000,  # a line that is given up would be a hole in the input
                "log_level": 0,
            }
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "cluster-load",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "fetch.queue.backoff.ms": 20,
                "log_level": 0,
            }
        )
        self._partitions = len(self._producer.list_topics(source, timeout=60).topics[source].partitions)
        self._consumer.assign(self._ends(sink))
        self._threads = [
            threading.Thread(target=run, name=f"load-{run.__name__}", daemon=True) for run in (self._write, self._read)
        ]

    def __enter__(self) -> ExactLoad:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        self._producer.flush(10)
        self._consumer.close()

    def check(self, timeout: float = 240.0) -> None:
        """Stop writing, wait until everything is counted, and fail if anything came twice, late for ever, or out of
        order since the load began; then go on writing."""
        with self.paused():
            assert self._producer.flush(timeout) == 0, "lines could not be written"
            give_up = time.monotonic() + timeout
            while self.ledger.missing(self.sent) and time.monotonic() < give_up and not self.findings:
                time.sleep(0.05)
            missing = self.ledger.missing(self.sent)
        found = [*self.findings, *missing[:_MOST_FINDINGS]]
        assert not found, f"of {self.sent.total()} words, {len(self.sent)} different:\n" + "\n".join(found)

    def wait_for_counts(self, timeout: float = 240.0) -> None:
        """Return when at least one count came that was not there before."""
        before, give_up = self.ledger.last.total(), time.monotonic() + timeout
        while self.ledger.last.total() == before:
            assert time.monotonic() < give_up, f"no count came within {timeout:g} s"
            time.sleep(0.05)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is written meanwhile, and pauses of the output do not count."""
        began = time.monotonic()
        self._idle.clear()
        self._paused.set()
        self._idle.wait()
        try:
            yield
        finally:
            self._pauses.append((began, time.monotonic()))
            self._paused.clear()

    def longest_gap(self, since: float, until: float | None = None) -> Gap:
        """The longest time for which no word came through though it was written."""
        gaps = list(self.ledger.gaps(since, time.monotonic() if until is None else until, self._pauses))
        assert gaps, "nothing was counted in that time"
        return max(gaps)

    @property
    def findings(self) -> list[str]:
        """Returns the faults found so far."""
        return [*self._errors, *self.ledger.findings]

    def _write(self) -> None:
        began, written = time.monotonic(), 0
        while not self._end.wait(_TICK):
            if self._paused.is_set():
                self._idle.set()
                began, written = time.monotonic(), 0
                continue
            due = int((time.monotonic() - began) * self.rate)
            for _ in range(written, due):
                self._write_line()
            written = max(due, written)
            self._producer.poll(0)
        self._idle.set()

    def _write_line(self) -> None:
        line = self._lines % _LINES
        words = [f"w{self._run}_{line * _WORDS_PER_LINE + each}" for each in range(_WORDS_PER_LINE)]
        self._producer.produce(
            self._source, " ".join(words).encode(), partition=line % self._partitions, on_delivery=self._delivered
        )
        self.sent.update(words)
        self._lines += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(f"a line was not written: {error}")

    def _read(self) -> None:
        mine = f"w{self._run}_".encode()
        while not self._end.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if error.code() not in _PASSING:
                    self._errors.append(f"counts cannot be read: {error}")
                continue
            key, value = message.key() or b"", message.value() or b""
            if key.startswith(mine):
                line = int(key.removeprefix(mine)) // _WORDS_PER_LINE
                way = Way(line % self._partitions, message.partition() or 0)
                self.ledger.take(key.decode(), int.from_bytes(value, "big", signed=True), way, time.monotonic())

    def _ends(self, topic: str) -> list[TopicPartition]:
        """Returns the end of each partition of the output now: earlier runs are not read again."""
        partitions = self._consumer.list_topics(topic, timeout=60).topics[topic].partitions
        return [TopicPartition(topic, number, self._end_of(topic, number)) for number in partitions]

    def _end_of(self, topic: str, number: int, timeout: float = 100.0) -> int:
        """A topic that was made a moment ago has no leaders yet."""
        give_up = time.monotonic() + timeout
        while True:
            try:
                return self._consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=5)[1]
            except KafkaException:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.1)

"""A fetcher of scripted brokers, and what it has delivered."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import KafkaError

from fetched_brokers import (
    CORRUPT,
    CUT,
    FAILED,
    LOST_AFTER,
    LOST_REQUEST,
    MALFORMED,
    OF_ANOTHER,
    SENSELESS,
    SILENT,
    FetchedBrokers,
    value_of,
)
from instances import TIMEOUT
from streamsapp import TopicPartition
from streamsapp.config.client_properties import ClientProperties
from streamsapp.kafka.fetching import answers as module, leaders
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.fetching.fetcher import Fetcher
from streamsapp.kafka.fetching.settings import fetch_settings
from streamsapp.kafka.wakeup import Wakeup

A, A1, B = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ENDLESS = 3600.0
PROPERTIES: ClientProperties = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "fetch.error.backoff.ms": 1,
    "fetch.wait.max.ms": 10,
    "reconnect.backoff.max.ms": 2,
    "reconnect.backoff.ms": 2,
}
MOVED = [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_LEADER_EPOCH]
PASSING = [
    *MOVED, KafkaError.UNKNOWN, LOST_REQUEST, LOST_AFTER, CUT, MALFORMED, SENSELESS, OF_ANOTHER, FAILED, CORRUPT, SILENT
]  # fmt: skip


class Threads:
    """Makes calls on threads of their own."""

    def __init__(self) -> None:
        self._begun: list[Thread] = []

    def __call__(self, call: Callable[[], None]) -> None:
        self._begun.append(Thread(target=call, daemon=True))
        self._begun[-1].start()

    def end(self) -> None:
        """Wait for all of them."""
        for each in self._begun:
            each.join(TIMEOUT)
        assert not any(each.is_alive() for each in self._begun)


class Reader:
    """A fetcher, its threads, and what it has delivered."""

    def __init__(self, fetcher: Fetcher, threads: Threads) -> None:
        self.fetcher = fetcher
        self.threads = threads
        self.offsets: defaultdict[TopicPartition, list[int]] = defaultdict(list)
        self.ends: list[tuple[TopicPartition, int]] = []
        self.lost: list[TopicPartition] = []
        self.replaced: list[TopicPartition] = []

    def poll(self, limit: int = 10_000, timeout: float = 0.02) -> Fetched:
        fetched = self.fetcher.fetch(limit, timeout)
        assert sum(len(records) for _, records in fetched.records) <= limit
        for partition, records in fetched.records:
            for it in records:
                offset = it.offset()
                assert (it.topic(), it.partition(), it.value()) == (*partition, value_of(partition, offset))
                assert (it.timestamp(), it.headers()) == ((1, 1_000 + offset), [("h", b"%d" % offset)])
                self.offsets[partition].append(offset)
        self.ends += fetched.ends.items()
        self.lost += fetched.out_of_range
        self.replaced += fetched.replaced
        return fetched

    def until(self, done: Callable[[], object], limit: int = 10_000) -> None:
        give_up = time.monotonic() + TIMEOUT
        while not done():
            assert time.monotonic() < give_up, (self.offsets, self.ends, self.lost)
            self.poll(limit)

    def until_end(self, *ends: tuple[TopicPartition, int]) -> None:
        self.until(lambda: set(ends) <= set(self.ends))

    def nothing_comes(self) -> None:
        assert not any(self.poll() for _ in range(4))


Start = Callable[..., FetchedBrokers]
Read = Callable[..., Reader]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "_PAUSE", 0.002)
    monkeypatch.setattr(module, "_DOUBT", 0.002)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=[True, False], ids=["sessions", "no-sessions"])
def start(request: pytest.FixtureRequest, stack: ExitStack, hurried: None) -> Start:
    """Starts brokers; at the end of the test, checks that all requests to them made sense."""

    def started(topics: dict[str, int], brokers: int = 1, deaf: frozenset[int] = frozenset()) -> FetchedBrokers:
        def end() -> None:
            made.close()
            assert made.broken == []

        made = FetchedBrokers(topics, brokers, deaf)
        made.sessions.kept = request.param
        stack.callback(end)
        return made

    return started


@pytest.fixture
def read(stack: ExitStack) -> Read:
    """Makes fetchers; they are closed after the test."""

    def made(
        brokers: FetchedBrokers, positions: dict[TopicPartition, int], wakeup: Wakeup | None = None, **more: Any
    ) -> Reader:
        properties = PROPERTIES | {name.replace("_", "."): value for name, value in more.items()}
        threads = Threads()
        fetcher = Fetcher(fetch_settings(properties), brokers.describe, wakeup, background=threads)
        stack.callback(threads.end)
        stack.callback(fetcher.close)
        fetcher.assign(positions)
        return Reader(fetcher, threads)

    return made


def once(*fates: int) -> Callable[..., int]:
    """Each of them in turn, then nothing."""
    left = list(fates)
    return lambda *asked: left.pop(0) if left else 0

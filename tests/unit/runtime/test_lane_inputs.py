"""Inputs of a process that runs batches are fetched ahead within bounds. The consumer is simulated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamsapp.clock import SystemClock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.record import InputRecord, RawRecord, TopicIdentity, TopicPartition
from streamsapp.runtime.micro_batches import inputs
from streamsapp.runtime.micro_batches.inputs import LaneInputs
from streamsapp.runtime.micro_batches.model import InputTarget

SMALL, LARGE = TopicPartition("small", 0), TopicPartition("large", 0)
MEGABYTE = 1024 * 1024


class Consumer:
    """Sends ten records of every partition that is not paused, for ever."""

    sizes: Mapping[TopicPartition, int] = {SMALL: 10, LARGE: MEGABYTE}

    def __init__(self, *_: object, **__: object) -> None:
        self._positions: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()

    def topics(self, names: Iterable[str]) -> dict[str, TopicIdentity]:
        return {}

    def assign(self, positions: Mapping[TopicPartition, int], topics: Mapping[str, TopicIdentity]) -> None:
        self._positions |= positions

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            del self._positions[each]

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        assert self.paused.isdisjoint(partitions)
        self.paused |= set(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self.paused -= set(partitions)

    def poll(self, count: int, timeout: float) -> Fetched:
        records: list[tuple[TopicPartition, list[InputRecord]]] = []
        for each in self._positions.keys() - self.paused:
            offsets = range(self._positions[each], self._positions[each] + 10)
            value = bytes(self.sizes[each])
            records.append((each, [RawRecord(*each, offset, None, value, 0) for offset in offsets]))
            self._positions[each] += 10
        return Fetched(
            cast(Any, records), ends={each: self._positions[each] for each, _ in records} if self.ends else {}
        )

    ends = False


class Task:
    """Takes what it is given."""

    def __init__(self) -> None:
        self.plan = SimpleNamespace(inputs={SMALL: None, LARGE: None})
        self.topics: dict[str, TopicIdentity] = {}
        self.got: dict[TopicPartition, list[int]] = {SMALL: [], LARGE: []}
        self.ended: list[TopicPartition] = []
        #: Records that wait to be processed: here, all.
        self.queues = self.got

    def add_records(self, partition: TopicPartition, records: Iterable[InputRecord]) -> None:
        self.got[partition] += [each.offset() for each in records]

    def reached_end(self, partition: TopicPartition) -> None:
        self.ended.append(partition)


def test_what_is_fetched_ahead_of_the_target_is_bounded_by_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "PartitionConsumer", Consumer)
    it, task = LaneInputs(StreamsConfig(application_id="app", bootstrap_servers="none:1"), SystemClock()), Task()
    consumer = cast(Consumer, it._consumer)
    it.add(cast(Any, task), {SMALL: 0, LARGE: 0})

    for _ in range(5):
        it.fetch(wait=False)
    assert consumer.paused == {LARGE}, "after ten megabytes; of the other one there are few bytes, and few records"

    it.give({SMALL: InputTarget(0, 50, at_end=False), LARGE: InputTarget(0, 10, at_end=False)})
    assert task.got == {SMALL: list(range(50)), LARGE: list(range(10))}
    it.resume({LARGE})
    it.fetch(wait=False)
    assert it.give({LARGE: InputTarget(10, 20, at_end=False)}) == set()
    assert (task.got[LARGE], consumer.paused) == (list(range(20)), {LARGE})


def test_a_task_is_given_all_that_was_fetched_and_told_of_each_end_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "PartitionConsumer", Consumer)
    it, task = LaneInputs(StreamsConfig(application_id="app", bootstrap_servers="none:1"), SystemClock()), Task()
    consumer = cast(Consumer, it._consumer)
    consumer.sizes = {SMALL: 10, LARGE: 10}
    it.add(cast(Any, task), {SMALL: 0, LARGE: 0})
    it.give_all([cast(Any, task)], None)
    assert (task.got, task.ended) == ({SMALL: [], LARGE: []}, [])
    it.fetch(wait=False)
    it.give_all([cast(Any, task)], None)
    assert (task.got, task.ended) == ({SMALL: list(range(10)), LARGE: list(range(10))}, [])
    consumer.ends = True
    it.fetch(wait=False)
    consumer.ends = False
    it.give_all([cast(Any, task)], None)
    assert task.ended == [SMALL, LARGE]
    it.fetch(wait=False)
    it.give_all([cast(Any, task)], None)
    assert (it.given, task.ended) == ({SMALL: 30, LARGE: 30}, [SMALL, LARGE])


def test_an_input_of_which_much_waits_for_another_one_is_given_no_more_and_fetched_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inputs, "PartitionConsumer", Consumer)
    monkeypatch.setattr(inputs, "_AHEAD", 20)
    it, task = LaneInputs(StreamsConfig(application_id="app", bootstrap_servers="none:1"), SystemClock()), Task()
    consumer = cast(Consumer, it._consumer)
    consumer.sizes = {SMALL: 10, LARGE: 10}
    it.add(cast(Any, task), {SMALL: 0, LARGE: 0})
    for _ in range(9):
        it.fetch(wait=False)
        task.got[LARGE].clear()  # processed
        it.give_all([cast(Any, task)], None)
    assert (it.given[SMALL], it.given[LARGE], consumer.paused) == (20, 90, {SMALL})
    task.got[SMALL].clear()
    it.give_all([cast(Any, task)], None)
    it.fetch_on(0.0, wait=True)
    assert (it.given[SMALL], consumer.paused) == (50, set())


def test_a_limit_is_shared_by_what_was_fetched_of_each_input_and_the_end_is_told_when_all_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inputs, "PartitionConsumer", Consumer)
    it, task = LaneInputs(StreamsConfig(application_id="app", bootstrap_servers="none:1"), SystemClock()), Task()
    consumer = cast(Consumer, it._consumer)
    consumer.sizes = {SMALL: 10, LARGE: 10}
    it.add(cast(Any, task), {SMALL: 0, LARGE: 0})
    it.fetch(wait=False)
    consumer.pause({SMALL})
    for _ in range(3):
        it.fetch(wait=False)
    consumer.ends = True
    it.fetch(wait=False)
    given = [(0, 0)]
    while it.give_all([cast(Any, task)], 6):
        given.append((len(task.got[SMALL]), len(task.got[LARGE])))
        assert task.ended == []
    assert given[:3] == [(0, 0), (1, 5), (2, 10)], "of 10 and 50"
    assert max(sum(after) - sum(before) for before, after in pairwise(given)) == 6
    assert task.got == {SMALL: list(range(10)), LARGE: list(range(50))}
    assert task.ended == [LARGE]
    it.fetch(wait=False)
    assert it.give_all([cast(Any, task)], 1)
    assert len(task.got[LARGE]) == 51, "one of each at least"

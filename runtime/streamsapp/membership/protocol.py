"""What members tell the leader when they join, and what the leader answers: compact, versioned, and never trusted.

Pure; used on the membership's thread. Both are arrays: a later version appends fields, which an earlier one skips, and
finds the default where an earlier one said nothing. So members of two versions understand each other during a rolling
upgrade.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Self, TypeAlias

import msgspec

from streamsapp.membership.api import TaskInfo
from streamsapp.record import TaskId, TopicPartition

#: The coordinator keeps what all members say in one record of a megabyte; nothing sensible comes near these.
MAX_COMPRESSED, MAX_BYTES, MAX_TASKS = 1 << 20, 16 << 20, 200_000

#: Partitions of each sub-topology as runs: first, length, first, length, ...
Tasks: TypeAlias = dict[int, list[int]]


#: What tasks have in common that are told of together.
_Alike: TypeAlias = tuple[
    int, str, bool, tuple[str, ...], tuple[tuple[str, int], ...], tuple[tuple[str, str], ...] | None
]


class MalformedError(Exception):
    """What a member said cannot be read."""


class Message(msgspec.Struct, array_like=True, frozen=True):
    """Turned into bytes and back."""

    def encode(self) -> bytes:
        return zlib.compress(msgspec.msgpack.encode(self))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises ``MalformedError`` for what no version of this program would send."""
        if len(data) > MAX_COMPRESSED:
            raise MalformedError(f"{len(data)} bytes are more than any member sends")
        unpacked = zlib.decompressobj()
        try:
            raw = unpacked.decompress(data, MAX_BYTES)
            if not unpacked.eof:
                raise MalformedError("it does not end, or is larger than anything a member sends")
            return msgspec.msgpack.decode(raw, type=cls)
        except (zlib.error, msgspec.DecodeError) as error:
            raise MalformedError(str(error)) from error


class Definition(Message, frozen=True):
    """Tasks of one sub-topology that read the same topics."""

    subtopology: int
    fingerprint: str
    stateful: bool
    #: Task ``n`` reads partition ``n`` of each.
    topics: list[str]
    #: Runs of partitions.
    tasks: list[int]
    #: What a task reads instead, if the user groups partitions in a way of his own.
    reads: list[tuple[str, int]] = []
    #: Name and kind of each store.
    stores: list[tuple[str, str]] | None = None


class Subscription(Message, frozen=True):
    """What a member tells about itself when it joins."""

    version: int
    #: Different at each join: the coordinator starts no rebalance for a member that says what it said before.
    nonce: int
    #: Of its producer; empty under at least once.
    transactional_id: str
    endpoint: str
    host: str
    tags: dict[str, str]
    threads: int
    draining: bool
    #: All instances of the application are to stop.
    shutdown: bool
    active: Tasks
    #: By sub-topology: pairs of partition and lag.
    lags: dict[int, list[tuple[int, int | None]]]
    on_disk: Tasks
    definitions: list[Definition]


class PeerEntry(Message, frozen=True):
    """A member as all are told about it."""

    name: str
    endpoint: str
    transactional_id: str
    active: Tasks
    standby: Tasks
    draining: bool


class GroupView(Message, frozen=True):
    """What all members are told alike."""

    version: int
    peers: list[PeerEntry]
    #: Transactional ids of those that were members and are not any more.
    dead: list[str]
    shutdown: bool
    #: Tasks that nobody gets.
    held_back: Tasks = {}


class Share(Message, frozen=True):
    """What one member is told."""

    active: Tasks
    standby: Tasks
    warmup: Tasks
    #: A ``GroupView``, encoded once for all.
    group: bytes
    #: Of the subscription that this answers: a static member that comes back gets the answer to its predecessor's.
    #: 0 answers one that could not be read.
    nonce: int
    #: Why the member does not get what it might expect.
    notes: list[str] = []


VERSION = 1


def pack(tasks: Iterable[TaskId]) -> Tasks:
    return {
        subtopology: _runs(task.partition for task in members)
        for subtopology, members in groupby(sorted(tasks), key=lambda task: task.subtopology)
    }


def unpack(tasks: Tasks) -> frozenset[TaskId]:
    """Raises ``MalformedError`` for more tasks than there can be: a few bytes may claim billions."""
    if sum(sum(runs[1::2]) for runs in tasks.values()) > MAX_TASKS:
        raise MalformedError("more tasks than any application has")
    return frozenset(TaskId(subtopology, each) for subtopology, runs in tasks.items() for each in _partitions(runs))


def pack_lags(lags: Mapping[TaskId, int | None]) -> dict[int, list[tuple[int, int | None]]]:
    packed: dict[int, list[tuple[int, int | None]]] = {}
    for task, lag in sorted(lags.items()):
        packed.setdefault(task.subtopology, []).append((task.partition, lag))
    return packed


def unpack_lags(lags: Mapping[int, list[tuple[int, int | None]]]) -> dict[TaskId, int | None]:
    return {TaskId(subtopology, partition): lag for subtopology, pairs in lags.items() for partition, lag in pairs}


def pack_definitions(tasks: Mapping[TaskId, TaskInfo]) -> list[Definition]:
    alike: dict[_Alike, list[int]] = {}
    for task, info in tasks.items():
        regular = all(partition == task.partition for _, partition in info.partitions)
        topics = tuple(sorted(topic for topic, _ in info.partitions)) if regular else ()
        reads = () if regular else tuple(sorted((topic, partition) for topic, partition in info.partitions))
        stores = None if info.stores is None else tuple(sorted(info.stores))
        known = (task.subtopology, info.definition, info.stateful, topics, reads, stores)
        alike.setdefault(known, []).append(task.partition)
    return [
        Definition(number, fingerprint, stateful, list(topics), _runs(partitions), list(reads), _list(stores))
        for (number, fingerprint, stateful, topics, reads, stores), partitions in sorted(alike.items(), key=repr)
    ]


def _list(stores: tuple[tuple[str, str], ...] | None) -> list[tuple[str, str]] | None:
    return None if stores is None else list(stores)


def unpack_definitions(definitions: Iterable[Definition]) -> dict[TaskId, TaskInfo]:
    tasks: dict[TaskId, TaskInfo] = {}
    for each in definitions:
        for task in unpack({each.subtopology: each.tasks}):
            reads = [TopicPartition(topic, task.partition) for topic in each.topics]
            reads += [TopicPartition(topic, partition) for topic, partition in each.reads]
            stores = None if each.stores is None else frozenset(each.stores)
            tasks[task] = TaskInfo(frozenset(reads), each.stateful, each.fingerprint, stores)
        if len(tasks) > MAX_TASKS:
            raise MalformedError("more tasks than any application has")
    return tasks


def _runs(partitions: Iterable[int]) -> list[int]:
    runs: list[int] = []
    for partition in sorted(partitions):
        if runs and partition == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += (partition, 1)
    return runs


def _partitions(runs: list[int]) -> Iterator[int]:
    if len(runs) % 2 or any(number < 0 for number in runs):
        raise MalformedError("runs of partitions are pairs of numbers that are not negative")
    for first, length in zip(runs[::2], runs[1::2], strict=True):
        yield from range(first, first + length)

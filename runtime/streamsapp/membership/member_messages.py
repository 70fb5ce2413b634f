"""The messages between members and leader: compact, versioned, and never trusted.

Pure; used on the membership's thread. Both are arrays: a later version appends fields, which an earlier one skips, and
finds the default where an earlier one said nothing. So members of two versions understand each other during a rolling
upgrade.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from typing import Annotated, Self, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from streamsapp.membership.api import GroupTasks, MatchedTopics, TaskInfo
from streamsapp.record import TaskId, TopicPartition
from streamsapp.structs import decoder
from streamsapp.web.endpoint import ENDPOINT

M = TypeVar("M", bound="Message")

#: The coordinator keeps what all members say in one record of a megabyte; nothing sensible comes near these.
MAX_COMPRESSED, MAX_BYTES, MAX_TASKS = 1 << 20, 4 << 20, 50_000
#: Partitions that all tasks of a member read together.
MAX_READS = 200_000
MAX_THREADS = 1024

#: Kafka's own numbers have 32 bits.
_END = 2**31
_Number = Annotated[int, Meta(ge=0, lt=_END)]
_Lag = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Cut = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Nonce = Annotated[int, Meta(ge=0, lt=2**32)]
#: Is shown in logs.
_LONGEST_TEXT = 1000
_Text = Annotated[str, Meta(max_length=_LONGEST_TEXT, pattern=r"\A[^\x00-\x1f\x7f]*\Z")]
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_Topic = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._-]{1,249}\Z")]
_Endpoint = Annotated[str, Meta(pattern=rf"\A(?:{ENDPOINT})?\Z")]

_Runs: TypeAlias = Annotated[list[_Number], Meta(max_length=2 * MAX_TASKS)]
#: Partitions of each sub-topology as runs: first, length, first, length, ...
Tasks: TypeAlias = Annotated[dict[_Number, _Runs], Meta(max_length=MAX_TASKS)]
#: By sub-topology: pairs of partition and lag.
Lags: TypeAlias = Annotated[
    dict[_Number, Annotated[list[tuple[_Number, _Lag | None]], Meta(max_length=MAX_TASKS)]], Meta(max_length=MAX_TASKS)
]

#: The part that is the same for all tasks of one definition.
_Alike: TypeAlias = tuple[
    int, str, bool, tuple[str, ...], tuple[tuple[str, int], ...], tuple[tuple[str, str], ...] | None
]


class MalformedError(Exception):
    """A message that cannot be read."""


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
            message: Self = _reader(cls)(raw)
            return message
        except (zlib.error, msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise MalformedError(str(error)) from error


@cache
def _reader(kind: type[M]) -> Callable[[bytes], M]:
    """Returns the decoder of a kind of message, made where no other thread looks at a structure meanwhile: several
    instances may run in one process."""
    return decoder(kind, "msgpack")


class Definition(Message, frozen=True):
    """Tasks of one sub-topology that read the same topics."""

    subtopology: _Number
    fingerprint: _Text
    stateful: bool
    #: Task ``n`` reads partition ``n`` of each.
    topics: Annotated[list[_Topic], Meta(max_length=MAX_READS)]
    #: Runs of partitions.
    tasks: _Runs
    #: The partitions that a task reads instead, if the user groups partitions in a way of his own.
    reads: Annotated[list[tuple[_Topic, _Number]], Meta(max_length=MAX_READS)] = []
    #: Name and kind of each store.
    stores: Annotated[list[tuple[_Text, _Text]], Meta(max_length=MAX_TASKS)] | None = None


class PatternSources(Message, frozen=True):
    """A sub-topology that reads topics by pattern; its tasks have these whatever topics they are."""

    subtopology: _Number
    #: Of the topics and patterns as the program names them.
    sources: _Text
    fingerprint: _Text
    stateful: bool
    stores: Annotated[list[tuple[_Text, _Text]], Meta(max_length=MAX_TASKS)]


class Matched(Message, frozen=True):
    """The topics that the patterns of a sub-topology match, with their partitions; and the topics that came late."""

    subtopology: _Number
    sources: _Text
    topics: Annotated[dict[_Topic, Annotated[int, Meta(ge=1, le=MAX_READS)]], Meta(max_length=MAX_READS)]
    late: Annotated[list[_Topic], Meta(max_length=MAX_READS)]


class Subscription(Message, frozen=True):
    """A member's message about itself when it joins."""

    version: _Number
    #: Different at each join: the coordinator starts no rebalance for a member that says what it said before.
    nonce: _Nonce
    #: Of its producer; empty under at least once.
    transactional_id: _Text
    endpoint: _Endpoint
    host: _Text
    tags: Annotated[dict[_Text, _Text], Meta(max_length=100)]
    threads: Annotated[int, Meta(ge=1, le=MAX_THREADS)]
    draining: bool
    #: All instances of the application are to stop.
    shutdown: bool
    active: Tasks
    lags: Lags
    on_disk: Tasks
    definitions: Annotated[list[Definition], Meta(max_length=MAX_TASKS)]
    by_pattern: Annotated[list[PatternSources], Meta(max_length=MAX_TASKS)] = []
    #: It hands over tasks by a cut, and takes them over by one.
    cuts: bool = False


class PeerEntry(Message, frozen=True):
    """A member as all members see it."""

    name: _Text
    endpoint: _Endpoint
    transactional_id: _Text
    active: Tasks
    standby: Tasks
    draining: bool
    #: The tasks that come to it as soon as their owners have committed the cut.
    coming: Tasks = {}


class GroupView(Message, frozen=True):
    """The part of the leader's answer that is the same for all members."""

    version: _Number
    peers: list[PeerEntry]
    #: Transactional ids of former members.
    dead: list[_Text]
    shutdown: bool
    #: Tasks that no member gets.
    held_back: Tasks = {}
    matched: Annotated[list[Matched], Meta(max_length=MAX_TASKS)] = []
    #: The number of the cut by which tasks are coming to members; 0 if none is.
    cut: _Cut = 0


class AssignmentInfo(Message, frozen=True):
    """The leader's answer to one member."""

    active: Tasks
    standby: Tasks
    warmup: Tasks
    #: A ``GroupView``, encoded once for all.
    group: bytes
    #: The nonce of the subscription that this answers. A static member that comes back gets the answer to its
    #: predecessor's. 0 answers a subscription that could not be read.
    nonce: _Nonce
    #: Why the member does not get what it might expect.
    notes: list[_Text] = []


VERSION = 1


def readable(text: object) -> str:
    """Returns a text in a form that members accept. A text that is too long or has control characters makes them refuse
    the whole message, join again, and get the same text."""
    shown = _CONTROL.sub(" ", str(text)).encode("utf-8", "replace").decode()
    return shown if len(shown) <= _LONGEST_TEXT else f"{shown[: _LONGEST_TEXT - 1]}…"


def pack(tasks: Iterable[TaskId]) -> Tasks:
    return {
        subtopology: _runs(task.partition for task in members)
        for subtopology, members in groupby(sorted(tasks), key=lambda task: task.subtopology)
    }


def unpack(tasks: Tasks) -> frozenset[TaskId]:
    """Raises ``MalformedError`` for more tasks than there can be: a few bytes may claim billions."""
    _refuse_more_than(MAX_TASKS, sum(map(_length, tasks.values())), "tasks")
    return frozenset(TaskId(subtopology, each) for subtopology, runs in tasks.items() for each in _partitions(runs))


def pack_lags(lags: Mapping[TaskId, int | None]) -> Lags:
    packed: Lags = {}
    for task, lag in sorted(lags.items()):
        packed.setdefault(task.subtopology, []).append((task.partition, lag))
    return packed


def unpack_lags(lags: Lags) -> dict[TaskId, int | None]:
    """Raises ``MalformedError`` as ``unpack`` does."""
    _refuse_more_than(MAX_TASKS, sum(map(len, lags.values())), "replicas")
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
    """Raises ``MalformedError`` for a task that is defined twice, and for more of anything than there can be. A
    definition is multiplied by its tasks, so all are counted before the first is made."""
    definitions = list(definitions)
    counts = [_length(each.tasks) for each in definitions]
    _refuse_more_than(MAX_TASKS, sum(counts), "tasks")
    reads = (count * (len(each.topics) + len(each.reads)) for count, each in zip(counts, definitions, strict=True))
    _refuse_more_than(MAX_READS, sum(reads), "partitions")
    tasks = {task: info for each in definitions for task, info in _tasks_of(each)}
    if len(tasks) < sum(counts):
        raise MalformedError("a task is defined twice")
    return tasks


def _tasks_of(definition: Definition) -> Iterator[tuple[TaskId, TaskInfo]]:
    stores = None if definition.stores is None else frozenset(definition.stores)
    special = [TopicPartition(topic, partition) for topic, partition in definition.reads]
    for number in _partitions(definition.tasks):
        reads = frozenset([*(TopicPartition(topic, number) for topic in definition.topics), *special])
        info = TaskInfo(reads, definition.stateful, definition.fingerprint, stores)
        yield TaskId(definition.subtopology, number), info


def pack_patterns(known: GroupTasks) -> list[PatternSources]:
    return [
        PatternSources(number, known.matched[number].sources, info.definition, info.stateful, sorted(info.stores or ()))
        for number, info in sorted(known.by_pattern.items())
    ]


def unpack_patterns(patterns: Iterable[PatternSources]) -> dict[int, tuple[str, TaskInfo]]:
    return {
        each.subtopology: (
            each.sources,
            TaskInfo(frozenset(), each.stateful, each.fingerprint, frozenset(each.stores)),
        )
        for each in patterns
    }


def pack_matched(known: Mapping[int, MatchedTopics]) -> list[Matched]:
    return [
        Matched(number, each.sources, dict(each.topics), sorted(each.late)) for number, each in sorted(known.items())
    ]


def unpack_matched(matched: Iterable[Matched]) -> dict[int, MatchedTopics]:
    """Raises ``MalformedError`` for more partitions than there can be: each of them may become a task."""
    matched = list(matched)
    _refuse_more_than(MAX_READS, sum(sum(each.topics.values()) for each in matched), "partitions")
    return {each.subtopology: MatchedTopics(each.sources, each.topics, frozenset(each.late)) for each in matched}


def _runs(partitions: Iterable[int]) -> list[int]:
    runs: list[int] = []
    for partition in sorted(partitions):
        if runs and partition == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += (partition, 1)
    return runs


def _length(runs: list[int]) -> int:
    """The number of partitions in runs; raises ``MalformedError`` for what are no runs."""
    if len(runs) % 2 or any(number < 0 for number in runs):
        raise MalformedError("runs of partitions are pairs of numbers that are not negative")
    if any(first + length > _END for first, length in zip(runs[::2], runs[1::2], strict=True)):
        raise MalformedError("no partition has a number of more than 31 bits")
    return sum(runs[1::2])


def _partitions(runs: list[int]) -> Iterator[int]:
    for first, length in zip(runs[::2], runs[1::2], strict=True):
        yield from range(first, first + length)


def _refuse_more_than(most: int, count: int, what: str) -> None:
    if count > most:
        raise MalformedError(f"it has {count} {what}, more than any application ({most})")

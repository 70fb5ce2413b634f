"""Time markers: what a task records where an input was silent, and what it tells tasks behind a repartition topic.

A marker has a place among the records of its partition, and is applied there whenever they are processed again
(docs/decisions/0057-time-markers.md). The formats are of this version; what others wrote is parsed whole, or is none.
Pure, apart from the store that a log is kept in; used on the thread that has the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, NamedTuple, Protocol

from streamsapp.record import Headers, InputRecord, TaskId
from streamsapp.serdes.windowed import MAX_TIMESTAMP

#: The header of a record in a repartition topic that tells the time. Such a record has neither key nor value.
TIME_HEADER = "__streamsapp_time"
#: No time: the partition has had no record so far.
NO_TIME = -1
#: In place of the offset of a record that told the time: it was one before all that the topic has now.
BEFORE_ALL = -1

_TIME = Struct(">Q")
#: Version, offset, says whether the input is idle; the topic's id follows, if it is known.
_PLACE = Struct(">Bq?")
#: Version, sub-topology and partition of the task, how many tasks there are of it, time, says whether it is idle.
_TOLD = Struct(">Biiiq?")
#: Version, how many tasks there are, time, says whether it is idle, offset of the record that told it.
_HEARD = Struct(">Biq?q")
_VERSION = 1
_ID_BYTES = 16
_MOST_TASKS = 1_000_000


class TimeMarker(NamedTuple):
    """Time has reached ``time`` (ms since 1970, ``NO_TIME`` if the partition has had no record) before the record with
    this offset. An ``idle`` input has nothing left that waits for a later time."""

    offset: int
    time: int
    idle: bool


class ToldTime(NamedTuple):
    """The time of one of ``tasks`` tasks that write a repartition topic: no record of it will be earlier, as far as its
    inputs say."""

    task: TaskId
    tasks: int
    time: int
    idle: bool


class ByteStore(Protocol):
    """A key-value store of bytes."""

    def get(self, key: bytes) -> bytes | None: ...
    def put(self, key: bytes, value: bytes | None) -> None: ...
    def range(self, from_key: bytes, to_key: bytes) -> Any: ...


class MarkerLog:
    """The markers of the inputs of a task, and the times that it was told, in a store of its own."""

    def __init__(self, store: ByteStore) -> None:
        self._store = store

    def add(self, topic: str, marker: TimeMarker, topic_id: bytes) -> None:
        """Record a marker of the topic with this id, which may be empty. Its time is later than that of all before it
        in its partition."""
        self._store.put(_key(topic, marker.time), _PLACE.pack(_VERSION, marker.offset, marker.idle) + topic_id)

    def after(self, topic: str, time: int, topic_id: bytes) -> Iterator[TimeMarker]:
        """The markers of an input with a later time, in order; not those of another topic of this name."""
        with self._store.range(_key(topic, time + 1), _key(topic, MAX_TIMESTAMP)) as found:
            for key, data in found:
                if (marker := read_marker(topic, key, data, topic_id)) is not None:
                    yield marker

    def drop_before(self, topic: str, offset: int, most: int = 100) -> None:
        """Forget markers of places that the broker has no records of any more, some at a time."""
        old: list[bytes] = []
        with self._store.range(_key(topic, NO_TIME), _key(topic, MAX_TIMESTAMP)) as found:
            for key, data in found:
                marker = read_marker(topic, key, data, b"")
                if len(old) >= most or (marker is not None and marker.offset >= offset):
                    break
                old.append(key)
        for key in old:
            self._store.put(key, None)

    def hear(self, topic: str, told: ToldTime, offset: int) -> None:
        """Keep what a task upstream has told last, in the record with this offset, or ``BEFORE_ALL``."""
        self._store.put(_writer(topic, told.task), _HEARD.pack(_VERSION, told.tasks, told.time, told.idle, offset))

    def forget_heard(self, topic: str, sub_topologies: Iterable[int], offset: int) -> None:
        """Forget what was told at this offset or later: it is read once more."""
        for sub_topology in sub_topologies:
            again = [each.task for each, at in self._heard(topic, sub_topology) if at >= offset]
            for task in again:
                self._store.put(_writer(topic, task), None)

    def heard(self, topic: str, sub_topology: int) -> list[ToldTime]:
        """Returns the times that the tasks of a sub-topology upstream have told last."""
        return [told for told, _ in self._heard(topic, sub_topology)]

    def _heard(self, topic: str, sub_topology: int) -> Iterator[tuple[ToldTime, int]]:
        first, last = TaskId(sub_topology, 0), TaskId(sub_topology, _MOST_TASKS)
        with self._store.range(_writer(topic, first), _writer(topic, last)) as found:
            for key, data in found:
                if len(data) == _HEARD.size and data[0] == _VERSION:
                    _, tasks, time, idle, offset = _HEARD.unpack(data)
                    yield ToldTime(TaskId(sub_topology, int.from_bytes(key[-4:], "big")), tasks, time, idle), offset


def _key(topic: str, time: int) -> bytes:
    return b"m\0" + topic.encode() + b"\0" + _TIME.pack(time + 1)


def _writer(topic: str, task: TaskId) -> bytes:
    place = task.subtopology.to_bytes(4, "big") + task.partition.to_bytes(4, "big")
    return b"t\0" + topic.encode() + b"\0" + place


def read_marker(topic: str, key: bytes, data: bytes | None, topic_id: bytes) -> TimeMarker | None:
    """Returns the marker of a topic that is in an entry of the store, or of its changelog, if there is one. A marker of
    another topic that had this name is none, as far as both ids are known."""
    before = _key(topic, NO_TIME)[: -_TIME.size]
    if data is None or len(key) != len(before) + _TIME.size or not key.startswith(before):
        return None
    if len(data) not in (_PLACE.size, _PLACE.size + _ID_BYTES) or data[0] != _VERSION:
        return None
    _, offset, idle = _PLACE.unpack_from(data)
    if topic_id and data[_PLACE.size :] not in (b"", topic_id):
        return None
    (time,) = _TIME.unpack(key[-_TIME.size :])
    return TimeMarker(offset, time - 1, idle) if offset >= 0 and time - 1 <= MAX_TIMESTAMP else None


def time_header(told: ToldTime) -> Headers:
    """The headers of a record that tells the time."""
    task = told.task
    return [(TIME_HEADER, _TOLD.pack(_VERSION, *task, told.tasks, told.time, told.idle))]


def told_by(record: InputRecord) -> ToldTime | None:
    """Returns the time that a record of a repartition topic tells; ``None`` for a record like any other."""
    if record.key() is not None or record.value() is not None:
        return None
    try:
        headers = record.headers()
    except Exception:  # their names cannot be read: another record, which is handled where it is processed
        return None
    if headers is None or len(headers) != 1 or headers[0][0] != TIME_HEADER:
        return None
    data = headers[0][1]
    if not isinstance(data, bytes) or len(data) != _TOLD.size or data[0] != _VERSION:
        return None
    _, sub_topology, partition, tasks, time, idle = _TOLD.unpack(data)
    if sub_topology < 0 or not 0 <= partition < tasks <= _MOST_TASKS or not NO_TIME <= time <= MAX_TIMESTAMP:
        return None
    return ToldTime(TaskId(sub_topology, partition), tasks, time, idle)

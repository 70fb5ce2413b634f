"""The types of the native data path's parts, as Python sees them: each is a class or function of ``records.c``, and
used on the thread of whoever has made it, unless it says otherwise."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Protocol

from streamsapp.native.cell_interfaces import CellLog, Cells
from streamsapp.record import InputRecord


class RecentRecords(Protocol):
    """The newest records of one side of a join, by key, as ``state.recent_entries.Recent`` has them in Python."""

    def __init__(self, segments: Any, room: Callable[[], int], /) -> None: ...

    def __len__(self) -> int: ...

    def append(self, prefix: bytes, key: bytes, time: int, number: int, stored: Any, /) -> bytes:
        """Adds a record, or puts it in the place of the one with this time and number; not one whose value is ``None``.
        Returns ``prefix ‖ key ‖ time (8 bytes) ‖ number (4 bytes, without its sign)``."""

    def between(self, key: bytes, from_ms: int, to_ms: int, /) -> tuple[tuple[int, int, Any], ...] | None:
        """The records of a key in order, both bounds inclusive; ``None`` says that some may not be here."""


class WindowParts(Protocol):
    """The windows that start at one time: the parts of their keys, and whether their cells are at hand."""

    def __init__(self, before: bytes, after: bytes, whole: bool, /) -> None: ...

    #: The bytes before a record's key in the physical key, and those after it.
    before: bytes
    after: bytes
    #: Says whether keys whose cells are not at hand have no such window.
    whole: bool


class StepKind(IntEnum):
    """The ways in which a step without state uses its function, in the order of ``steps.h``. Those that end in
    ``KEYED`` give it key and value, as filters, ``MAP`` and ``SELECT_KEY`` do, others the value."""

    FILTER = 0
    FILTER_NOT = 1
    MAP = 2
    SELECT_KEY = 3
    MAP_VALUES = 4
    MAP_VALUES_KEYED = 5
    FLAT_MAP_VALUES = 6
    FLAT_MAP_VALUES_KEYED = 7
    DROP_NULL_KEYS = 8


class PushStep(Protocol):
    """A push function of a step without state. ``adapt`` makes a pair, or a list, of what its function gives if it is
    none; ``on_error`` is told of what either raises, with the record."""

    #: The push function that comes next.
    forward: Callable[..., None]

    def __init__(
        self,
        kind: StepKind,
        function: Callable[..., Any] | None,
        adapt: Callable[[Any], Any] | None,
        forward: Callable[..., None],
        on_error: Callable[..., None],
        /,
    ) -> None: ...

    def __call__(self, key: Any, value: Any, timestamp: int, headers: Any, /) -> None: ...


class PushCount(Protocol):
    """A push function that counts the records of keys. ``dropped`` is called for a record without key or value, and
    ``on_error`` told of what the serializer raises. A count is emitted for a topic in place of the push function with
    the ``id`` of the short cut; or else its change is pushed; or, where there is a list for it, the key is noted for
    the commit as ``(cell, key)``, and the headers of its last record by the cell's ``id``."""

    #: The push function that comes next; ``None``: nothing is pushed.
    forward: Callable[..., None] | None
    #: Says whether a change has the count before; it has not unless this is set.
    old_values: bool
    #: Says whether the serializer is known to keep bytes as they are, so that it is not called for them.
    keeps_bytes: bool

    def __init__(
        self,
        cells: Cells,
        serialize_key: Callable[[Any], Any],
        on_error: Callable[..., None],
        dropped: Callable[[], object],
        short_cut: tuple[int, str, Callable[[Any], None]],
        noted: tuple[list[Any], dict[int, Any]] | None,
        forward: Callable[..., None] | None,
        /,
    ) -> None: ...

    def __call__(self, key: Any, value: Any, timestamp: int, headers: Any, /) -> None: ...


class PushWindowCount(Protocol):
    """A push function that counts records in their windows. It is made with the store's cells and ``Segments``; with a
    function that tells the windows of a step of time, ``(start, end, Window)``, the milliseconds of a step, and the
    grace; and with whom to tell of what the serializer raises, of a record without key, and of each window that has
    closed. Each count is emitted for a topic in place of the push function with the ``id`` of the short cut; or else
    ``(key, start, end, count, timestamp, headers)`` is told, to be pushed; or, where there is a list for it, the window
    is noted for the commit as ``(cell, key, start, end)``, and the headers of its last record by the cell's ``id``."""

    #: The push function that comes next; ``None``: nothing is pushed.
    forward: Callable[..., None] | None
    #: The highest timestamp of a record, -1 to begin with.
    stream_time: int
    #: Says whether the serializer is known to keep bytes as they are, so that it is not called for them.
    keeps_bytes: bool

    def __init__(
        self,
        store: tuple[Cells, Any],
        windows: tuple[Callable[[int], tuple[tuple[int, int, WindowParts], ...]], int, int],
        serialize_key: Callable[[Any], Any],
        failed_dropped_late: tuple[Callable[..., None], Callable[[], object], Callable[[], object]],
        short_cut: tuple[int, str, Callable[[Any], None]],
        noted: tuple[list[Any], dict[int, Any]] | None,
        forward_and_tell: tuple[Callable[..., None] | None, Callable[..., None]],
        /,
    ) -> None: ...

    def __call__(self, key: Any, value: Any, timestamp: int, headers: Any, /) -> None: ...

    def forget(self) -> None:
        """Asks for windows anew."""


class PushSink(Protocol):
    """A push function that serialises records and emits them for a topic; ``on_error`` is told of what a serializer
    raises, or the check of headers, with the timestamp."""

    #: Say whether a serializer is known to keep bytes as they are, so that it is not called for them.
    keeps_key: bool
    keeps_value: bool

    def __init__(
        self,
        topic: str,
        serialize_key: Callable[[Any], Any],
        serialize_value: Callable[[Any], Any],
        check_headers: Callable[[Any], object],
        emit: Callable[[Any], None],
        on_error: Callable[[Exception, int], None],
        plain_sink: Any,
        /,
    ) -> None: ...

    def __call__(self, key: Any, value: Any, timestamp: int, headers: Any, /) -> None: ...


class RecordLoop(Protocol):
    """Runs records of a buffer through the topology, as long as they were fetched in C, can be deserialised and have a
    timestamp. Without a deserializer bytes stay what they are. It sets the ``message`` and the ``stream_time`` of the
    context."""

    def __init__(
        self,
        buffer: Any,
        deserialize_key: Callable[[bytes], Any] | None,
        deserialize_value: Callable[[bytes], Any] | None,
        context: Any,
        punctuate: Callable[[], object],
        /,
    ) -> None: ...

    def run(self, control: Any, push: Callable[..., None], due: Any, limit: int, partition_time: int, /) -> int:
        """Processes up to ``limit`` records unless ``control`` says to stop, and calls ``punctuate`` after a record
        when it is ``due``. Returns how many were taken. The attributes tell of the last call, also of one that
        raised."""

    #: The last record that was processed.
    done: Any
    partition_time: int
    #: The sum and the highest of the milliseconds by which records came late.
    late: int
    most: int


class Why(IntEnum):
    """The reasons for which a record was not taken, in the order of ``outbox.h``."""

    TAKEN = 0
    FULL = 1
    UNKNOWN_TOPIC = 2
    UNKNOWN_PARTITION = 3
    TOO_LARGE = 4
    NOT_KNOWN = 5


class Outbox(Protocol):
    """Records that wait to be sent, as batches for the partitions of topics: made with the size of a batch and of the
    largest record, in bytes. One thread adds, another one takes."""

    def __init__(self, batch_size: int, most: int, /) -> None: ...

    #: The size of what waits, in bytes.
    bytes: int
    #: Records that were ever taken up.
    added: int

    def add_topic(self, topic: str, partitions: int, /) -> None:
        """Makes a topic known, with so many partitions, or with more of them."""

    def add(self, records: list[Any], begin: int, room: int, /) -> tuple[int, int]:
        """Takes up ``records[begin:]``, as ``tasks.output.OutputRecord`` says, while less than ``room`` bytes wait.
        Returns the index of the first that was not taken, and ``Why``."""

    def add_changes(
        self,
        topic: str,
        partition: int,
        changes: Sequence[Any],
        begin: int,
        room: int,
        raw: Callable[[Any], builtins.bytes] | None,
        number_size: int,
        /,
    ) -> tuple[int, int]:
        """Takes up ``changes[begin:]``, a list of ``(key, (stored, timestamp))`` or a ``CellRun``, as records of a
        changelog; returns as ``add`` does. ``raw`` makes bytes of what is stored, unless that is ``None``, and its
        errors are raised; ``None`` says that bytes are stored. It is not asked for whole numbers if these are written
        big-endian in ``number_size`` bytes; 0 if they are not."""

    def waits(self) -> bool:
        """True if ``take_ready`` has something to tell."""

    def take_ready(self) -> list[tuple[str, int]]:
        """The partitions for which nothing waited before, and something does, since the last call."""

    def take(self, topic: str, partition: int, /) -> tuple[Any, int, float, bool] | None:
        """The oldest batch of a partition, with the number of its records, when its first one came in monotonic
        seconds, and whether there is another batch; ``None`` if nothing waits."""

    def clear(self) -> None:
        """Forgets all that waits."""


class PackedRecords(Protocol):
    """Records of a changelog on their way to RocksDB: bytes, of which no objects are made before. One thread at a time
    uses them."""

    def __len__(self) -> int: ...

    #: In bytes.
    size: int
    #: The offset of the last record; -1 if there is none.
    last_offset: int

    def extend(self, later: PackedRecords, /) -> None:
        """Adds the records of another one, which come after these."""

    def keep_before(self, offset: int, /) -> None:
        """Leaves out the records from an offset on."""

    def sort(self) -> None:
        """Puts the last record of each key in order by key; records without a key are left out. Neither ``extend`` nor
        ``keep_before`` may follow."""

    def stage(
        self,
        put: Callable[[bytes, bytes, Any], object],
        delete: Callable[[bytes, Any], object],
        family: Any,
        limit: int,
        timestamped: bool,
        /,
    ) -> bool:
        """Gives up to ``limit`` of the sorted entries to ``put``, and keys of deletions to ``delete``. A value is the
        record's, behind its timestamp in 8 bytes if it is ``timestamped``. Returns whether any are left."""


class RecordChunk(Protocol):
    """The records of a partition in an answer to Fetch, from an offset on, without those of ``aborted`` transactions,
    ``(producer, first offset)``. ``decompress`` takes a codec's number and bytes, and returns bytes, or an exception
    whose only argument is a text: then there is one record without key and value in place of the batch, and this
    exception is raised for its headers. ``bounds`` may follow: whether checksums are left unchecked; where the log
    ends: a batch that reaches there is left out, with what follows it; and the bytes of batches that are opened at a
    time. Raises ``ValueError`` unless the rest are record batches whose offsets grow, and the first
    one has the position or something behind it, ``NotImplementedError`` for formats before the second."""

    def __init__(
        self,
        topic: str,
        partition: int,
        data: bytes | bytearray | memoryview,
        position: int,
        aborted: list[tuple[int, int]],
        decompress: Callable[[int, bytes], bytes | Exception],
        /,
        *bounds: int,
    ) -> None: ...

    #: The next offset after the records that were taken, and after all.
    position: int
    end_position: int
    #: The epoch of the leader that wrote the last ones.
    epoch: int
    #: Bytes of all batches that were opened by now, and of the one that is open; the records of it that are left.
    opened: int
    open_bytes: int
    left: int

    def take(self, limit: int, /) -> list[InputRecord]:
        """The next records, all that are left if they are fewer; less of them once so many bytes were
        opened. Raises ``ValueError``, or ``NotImplementedError``, if
        there is one that cannot be read and comes next; where others come before it, those are returned."""

    def take_packed(self, limit: int, /) -> PackedRecords:
        """The same, for a store that is restored. Raises the exception that ``decompress`` has returned."""


#: Of a partition in an answer to Fetch: topic, partition, error, next offset, the one after the last committed record,
#: first one, whether the log has other records now where the last one was read, aborted transactions as
#: ``(producer, first offset)``, and where its record batches begin and end.
FetchedPart = tuple[bytes, int, int, int, int, int, bool, list[tuple[int, int]], int, int]


class DataPath(Protocol):
    """The compiled module. A ``handle`` is that of a consumer which is open, and belongs to the calling thread."""

    #: The module's file.
    __file__: str

    def fetch(
        self, handle: int, limit: int, timeout: float, /
    ) -> tuple[
        list[tuple[str, int, list[InputRecord]]],
        list[tuple[int, str, bool, str | None, int, int]],
        list[tuple[int, str, str, str]],
    ]:
        """Up to ``limit`` events of a consumer's: ``(topic, partition, records)``, errors as ``(code, text, fatal,
        topic, partition, offset)``, and messages for the log as ``(syslog's level, facility, client, text)``. Returns
        as soon as there is one, or empty after ``timeout`` seconds."""

    #: The newest records of one side of a join: made with the store's ``Segments``, and a function that tells how many
    #: may be held. It is not to be used by two threads at once.
    Recent: type[RecentRecords]

    #: A record as it is fetched, made of topic, partition, offset, key, value, timestamp and headers; for tests.
    Record: Callable[[str, int, int, bytes | None, bytes | None, int, Any], InputRecord]

    #: A count and its timestamp, made with the key that the store has for it: as ``state.entries.Cell``.
    Cell: Callable[[bytes, Any, int], Any]
    CellLog: Callable[[], CellLog]
    Cells: Callable[..., Cells]
    Step: type[PushStep]
    Sink: type[PushSink]
    CountPush: type[PushCount]
    Loop: type[RecordLoop]
    Window: type[WindowParts]
    WindowPush: type[PushWindowCount]

    Outbox: type[Outbox]
    Chunk: type[RecordChunk]
    PackedRecords: type[PackedRecords]

    def answer(self, answer: bytes | bytearray, /) -> tuple[int, int, int, list[FetchedPart]]:
        """An answer to Fetch, version 13, without its length: the milliseconds that the broker is to be left alone, an
        error, the session, and the partitions. Raises ``ValueError`` for anything else."""

    def stamped(self, batch: bytes, producer: int, epoch: int, sequence: int, attributes: int, /) -> bytes:
        """A batch that was taken out of an ``Outbox``, perhaps with what comes after its header compressed, as a
        producer sends it from this sequence number on."""

    def by_last_update(self, held: list[Any], /) -> list[Any]:
        """The same cells, ``(cell, key, ...)``, in the order of their last updates, which is that of their ``held``."""

    def results(
        self, held: list[Any], topic: str, deleted_at: Callable[..., int], before: int, behind: int, /
    ) -> list[Any]:
        """The records that tell a topic of cells, ``(cell, key, ...)``, which are no longer held: of one that was
        deleted a tombstone with the time that ``deleted_at(key, ...)`` gives. The topic's keys are the physical ones
        without so many bytes before them and behind."""

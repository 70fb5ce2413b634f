"""The classes and functions of ``records.c``. Each object is used on the thread of its maker, unless it says otherwise.
Arguments behind a ``*`` are given by name. A ``TypeError`` or ``ValueError`` names a field that is missing, of another
type or out of its bounds."""

import builtins
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, overload

from streamsapp.record import InputRecord

class _Writes(Sequence[tuple[bytes, tuple[Any, int]]]):
    """Writes as ``(key, (stored, timestamp))``. (This is a type; the classes are the two below.)"""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, at: int, /) -> tuple[bytes, tuple[Any, int]]: ...
    @overload
    def __getitem__(self, at: slice, /) -> CellRun: ...

class CellRun(_Writes):
    """Some writes in a row of a log, which stay in it."""

    def stage(
        self, *, put: Callable[[bytes, bytes, Any], object], delete: Callable[[bytes, Any], object], family: Any
    ) -> None:
        """Gives the physical keys and the physical form of their entries, as ``TimestampedFormat`` writes longs, to
        ``put``; keys of deletions to ``delete``."""

class CellLog(_Writes):
    """The writes of an epoch to a store whose entries are cells, in their order. A key comes again if its cell was
    forgotten in between."""

    def behind(self, size: int, /) -> CellRun:
        """All writes, by their keys without the first ``size`` bytes."""

    def keys_from(self, begin: int, /) -> list[bytes]:
        """The keys of ``log[begin:]``."""

    def entry(self, cell: Any, /) -> tuple[Any, int] | None:
        """The entry of a cell; ``None`` if it is not in the log, and for anything else than a cell. A cell knows where
        it is in the logs of the last two epochs in which it was written, and in the last epoch that absorbed it."""

    def cell(self, at: int, /) -> Any:
        """The cell of a write."""

    def absorb(self, newer: CellLog, /) -> None:
        """Takes the writes of another log; a write that it has of the same cell is replaced."""

    def in_order(self) -> CellLog:
        """A log of the last write of each key, by key."""

    def only(self, keys: list[bytes], /) -> CellLog:
        """A log of the writes of the keys that ``keys_from`` gave, in that order."""

class Cell:
    """A count and its timestamp, which its writer changes in place while the epoch it was written in lasts. It is made
    with the key that the store has for it."""

    def __init__(self, *, key: bytes, stored: Any, timestamp: int) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, at: int, /) -> Any: ...

    #: Not 0 if the key is noted to be sent downstream at the commit: which update of any cell was the last of this one.
    held: int

class Cells:
    """The cells of a store by key, and their cache, in two generations. ``load`` returns the entry of a key whose cell
    is not there, or a cell that was forgotten. ``start_at`` is the number of bytes before a key's end where the start
    of its window stands, in 8 bytes; 0 if keys have none."""

    def __init__(self, *, load: Callable[[bytes], Any], start_at: int = 0) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, key_bytes: bytes, /) -> bool: ...

    #: The number of cells of the older generation.
    older: int

    def read(self, key_bytes: bytes, /) -> Any:
        """The cell of a key, which is remembered from now on."""

    def at_hand(self, key_bytes: bytes, /) -> Any:
        """The cell of a key if it is there in any generation, or ``None``; on any thread."""

    def put(self, key_bytes: bytes, entry: tuple[Any, int], /) -> None:
        """Remembers an entry that was read, if there is no cell."""

    def write(self, key_bytes: bytes, stored: Any, timestamp: int, /) -> None:
        """Writes a count, or ``None`` for a deletion."""

    def begin(self) -> CellLog:
        """An epoch begins; returns the log to which its writes go."""

    def grow_old(self) -> int:
        """Makes the younger generation the older one, and forgets that, but for cells that were written in the last two
        epochs. Returns the latest start of the windows whose cells are forgotten, the highest number there is if keys
        have none; -1 if no cell is."""

    def clear(self) -> None:
        """Forgets all."""

class Record:
    """A record as it is fetched, which the test driver makes as well."""

    def __init__(
        self,
        *,
        topic: str,
        partition: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Any,
    ) -> None: ...
    def __len__(self) -> int: ...
    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def headers(self) -> Any: ...

class Recent:
    """The newest records of one side of a join, by key, as ``state.kinds.recent_entries.Recent`` has them in Python."""

    def __init__(self, *, segments: Any, room: Callable[[], int]) -> None: ...
    def __len__(self) -> int: ...
    def append(self, prefix: bytes, key: bytes, time: int, number: int, stored: Any, /) -> bytes:
        """Adds a record, or puts it in the place of the record with this time and number. A record whose value is
        ``None`` is not added. Returns ``prefix ‖ key ‖ time (8 bytes) ‖ number (4 bytes, without its sign)``."""

    def between(self, key: bytes, from_ms: int, to_ms: int, /) -> tuple[tuple[int, int, Any], ...] | None:
        """The records of a key in order, both bounds inclusive; ``None`` says that some may not be here."""

class Window:
    """The windows that start at one time: the parts of their keys, and whether their cells are at hand."""

    def __init__(self, *, before: bytes, after: bytes, whole: bool) -> None: ...

    #: The bytes before a record's key in the physical key, and those after it.
    before: bytes
    after: bytes
    #: Says whether keys whose cells are not at hand have no such window.
    whole: bool

class Step:
    """A push function of a step without state. ``adapt`` makes a pair, or a list, of what its function gives if it is
    none; ``on_error`` gets what either raises, with the record."""

    def __init__(
        self,
        *,
        kind: int,
        function: Callable[..., Any] | None,
        adapt: Callable[[Any], Any] | None,
        forward: Callable[..., None],
        on_error: Callable[..., None],
    ) -> None: ...
    def __call__(self, key: Any, value: Any, timestamp: int, headers: Any, /) -> None: ...

class StoredRows:
    """Looks up rows of a table in its store: ``key_bytes`` writes the key, ``read`` returns ``(stored, timestamp)``,
    and ``from_stored`` makes the row; ``None`` says that rows are stored as they are."""

    def __init__(
        self,
        *,
        key_bytes: Callable[[Any], bytes],
        read: Callable[[bytes], Any],
        from_stored: Callable[[Any], Any] | None,
    ) -> None: ...
    def __call__(self, key: Any, /) -> tuple[Any, int]:
        """The row and its time, ``(None, -1)`` if there is none."""

class ComputedRows:
    """Looks up rows that are made of those of another table: ``compute(key, row)`` gives one, or ``None``. A row has
    the time of the one that it is made of."""

    def __init__(self, *, rows: Callable[[Any], tuple[Any, int]], compute: Callable[[Any, Any], Any]) -> None: ...
    def __call__(self, key: Any, /) -> tuple[Any, int]:
        """The row and its time, ``(None, -1)`` if there is none."""

class JoinPush:
    """A push function that joins records with rows. ``rows`` returns ``(row, timestamp)`` for the row's key, and with
    ``as_of`` for that and the record's time. ``selector(key, value)`` gives the row's key; without one it is the
    record's. The joiner is given ``keys`` keys: none, the record's, or that and the row's; then value and row.

    A record without a row is left out, unless ``left``. ``dropped`` is called for a record without a value, and for one
    without a row's key unless ``left``. ``on_error`` gets what a function raises, with the record."""

    def __init__(
        self,
        *,
        rows: Callable[..., tuple[Any, int]],
        as_of: bool = False,
        selector: Callable[[Any, Any], Any] | None,
        joiner: Callable[..., Any],
        keys: int,
        left: bool,
        forward: Callable[..., None],
        on_error: Callable[..., None],
        dropped: Callable[[], object],
    ) -> None: ...
    def __call__(self, key: Any, value: Any, timestamp: int, headers: Any, /) -> None: ...

class ToStored:
    """Makes values those that a store keeps: ``stored(value)``, or with what is stored ``stored_again(value, stored)``,
    which is a value that was made of it. Every ``int`` from ``lowest`` to ``highest`` is stored as it is.
    ``refused(error, key, value)`` raises the error for the user in place of one that either raises."""

    def __init__(
        self,
        *,
        stored: Callable[[Any], Any],
        stored_again: Callable[[Any, Any], Any],
        refused: Callable[[Exception, Any, Any], object],
        lowest: int = 0,
        highest: int = -1,
    ) -> None: ...
    def __call__(self, key: Any, value: Any, unless_changed: Any = None, /) -> Any: ...

class ForwardUpdate:
    """Sends the updates of a table to ``forward`` at once; ``sends`` is a ``forward_updates.Sent``."""

    def __init__(self, *, forward: Callable[..., None], sends: int) -> None: ...
    def __call__(self, key: Any, identity: Any, new: Any, old: Any, timestamp: int, headers: Any, /) -> None: ...

class HoldUpdate:
    """Holds the updates of a table in ``entries``, by identity and in the order of the last ones: ``(key, new, old,
    timestamp, headers, record)``, ``old`` being that of the first. ``record`` returns the last one; ``None`` says that
    none is kept."""

    def __init__(self, *, entries: dict[Any, Any], record: Callable[[], Any] | None) -> None: ...
    def __call__(self, key: Any, identity: Any, new: Any, old: Any, timestamp: int, headers: Any, /) -> None: ...
    def holds(self, key: Any, identity: Any, /) -> bool:
        """Says whether an update of a key is held."""

class FoldPush:
    """A push function that folds the values of keys into aggregates, which a store keeps. ``fold(key, value,
    aggregate)`` gives the next one, and ``initializer`` the one before the first. Without an initializer the first
    value is the first aggregate, and ``fold(aggregate, value)`` gives the others. An aggregate of ``None`` deletes the
    key, and ``deleting`` is called.

    ``key_bytes``, ``read``, ``write``, ``to_stored``, ``from_stored`` and ``raw`` are the store's. The last two are
    ``None`` where they give back what they get. The old value of an update is read once more if ``rereads``, unless
    ``old_is_known(key, key_bytes)``; with ``true_old`` it is ``None`` for a key that was not there. ``at_commit`` says
    that a deletion is sent with its record's time.

    A result without headers is emitted for ``topic`` if there is one. Any other one is given to ``update``. ``dropped``
    is called for a record without key or value, and ``on_error`` for what a function raises."""

    def __init__(
        self,
        *,
        initializer: Callable[[], Any] | None,
        fold: Callable[..., Any],
        deleting: Callable[[], object] | None,
        key_bytes: Callable[[Any], bytes],
        read: Callable[[bytes], Any],
        write: Callable[[bytes, Any, int], object],
        to_stored: Callable[..., Any],
        from_stored: Callable[[Any], Any] | None,
        raw: Callable[[Any], bytes] | None,
        rereads: bool,
        old_is_known: Callable[[Any, bytes], bool] | None,
        true_old: bool,
        at_commit: bool,
        topic: str | None,
        emit: Callable[[Any], None] | None,
        update: Callable[..., None],
        on_error: Callable[..., None],
        dropped: Callable[[], object],
    ) -> None: ...
    def __call__(self, key: Any, value: Any, timestamp: int, headers: Any, /) -> None: ...

class CountPush:
    """A push function that counts the records of keys. ``dropped`` is called for a record without key or value, and
    ``on_error`` for what ``serialize_key`` raises. ``keeps_bytes`` says that this is known to keep bytes as they are,
    so that it is not called for them.

    A count without headers is emitted for ``topic`` if there is one. Else its change is pushed to ``forward``, with the
    count before if there are ``old_values``: for a key's first record 0, or None with ``none_at_first``. Or, where
    there is a list ``noted``, the key is noted for the commit as ``(cell, key)``, and the headers of its last record by
    the cell's ``id``."""

    def __init__(
        self,
        *,
        cells: Cells,
        serialize_key: Callable[[Any], Any],
        keeps_bytes: bool = False,
        on_error: Callable[..., None],
        dropped: Callable[[], object],
        topic: str | None,
        emit: Callable[[Any], None] | None,
        noted: list[Any] | None,
        noted_headers: dict[int, Any] | None,
        forward: Callable[..., None] | None,
        old_values: bool = False,
        none_at_first: bool = False,
    ) -> None: ...
    def __call__(self, key: Any, value: Any, timestamp: int, headers: Any, /) -> None: ...

class StreamTime:
    """The highest timestamp that an operator has had, which push functions in C move on; -1 before the first."""

    latest: int

class WindowPush:
    """A push function that counts records in their windows. ``cells`` and ``segments`` are the store's. ``windows_of``
    returns the windows of a step of time, ``(start, end, Window)``, which has ``step_ms``. ``dropped`` is called for a
    record without key, ``late`` for each of its windows that has closed by ``grace_ms``. ``serialize_key``,
    ``keeps_bytes`` and ``on_error`` are as in :class:`CountPush`.

    Each count without headers is emitted for ``topic`` if there is one. Else ``tell``, if it is there, is called with
    ``(key, start, end, count, timestamp, headers)``, to push it. Or, where there is a list ``noted``, the window is
    noted for the commit as ``(cell, key, start, end)``, and the headers of its last record by the cell's ``id``.
    ``stream_time`` belongs to all push functions of the operator."""

    def __init__(
        self,
        *,
        cells: Cells,
        segments: Any,
        stream_time: StreamTime,
        windows_of: Callable[[int], tuple[tuple[int, int, Window], ...]],
        step_ms: int,
        grace_ms: int,
        serialize_key: Callable[[Any], Any],
        keeps_bytes: bool = False,
        on_error: Callable[..., None],
        dropped: Callable[[], object],
        late: Callable[[], object],
        topic: str | None,
        emit: Callable[[Any], None] | None,
        noted: list[Any] | None,
        noted_headers: dict[int, Any] | None,
        tell: Callable[..., None] | None,
    ) -> None: ...
    def __call__(self, key: Any, value: Any, timestamp: int, headers: Any, /) -> None: ...
    def forget(self) -> None:
        """Asks for windows anew."""

class NumberWriter:
    """Writes an ``int`` big-endian in ``size`` bytes. ``otherwise`` gets all else, and numbers that do not fit."""

    def __init__(self, *, size: int, otherwise: Callable[[Any], bytes]) -> None: ...
    def __call__(self, value: Any, /) -> bytes: ...

    size: int
    otherwise: Callable[[Any], bytes]

class NumberReader:
    """Reads a number of ``size`` bytes, big-endian. ``otherwise`` gets all that is not so many ``bytes``."""

    def __init__(self, *, size: int, otherwise: Callable[[Any], Any]) -> None: ...
    def __call__(self, data: Any, /) -> Any: ...

    size: int
    otherwise: Callable[[Any], Any]

class ShapedWriter:
    """A serializer: ``write`` for values of the shape, of which ``read`` makes them again, and ``otherwise`` for all
    others."""

    @property
    def shape(self) -> Any: ...
    @property
    def read(self) -> Callable[[bytes], Any]: ...
    def __init__(
        self,
        *,
        write: Callable[[Any], bytes],
        shape: Any,
        otherwise: Callable[[Any], bytes],
        read: Callable[[bytes], Any],
    ) -> None: ...
    def __call__(self, value: Any, /) -> bytes: ...

class KeptValues:
    """Reads what a store has as bytes, and makes those of values. Of bytes that are read a second time the value is
    kept, and of those that are written while reads are ahead of writes, as far as there is ``room``, in bytes. Each
    call gets a copy of what is kept. What has been read is known by the bytes object itself. The writer's shape is
    one that ``shapes.can_be_copied`` allows."""

    #: The size of all bytes whose values may be kept.
    room: int
    @property
    def held(self) -> int:
        """The size of all bytes whose values are kept."""

    def __init__(self, *, writer: ShapedWriter, room: int = 0) -> None: ...
    def __call__(self, stored: bytes | None, /) -> Any: ...
    def stored(self, value: Any, /) -> bytes:
        """Returns the value's bytes; ``TypeError`` for a writer that gives something else."""

    def stored_again(self, value: Any, stored: bytes, /) -> bytes:
        """Returns the bytes of a value that was read of ``stored``: that object itself if they are equal to it."""

class Sink:
    """A push function that serialises records and emits them for a topic. ``on_error`` gets what a serializer or the
    check of headers raises, with the record. ``keeps_key`` and ``keeps_value`` say that a serializer is known to keep
    bytes as they are, so that it is not called for them."""

    plain_sink: Any

    def __init__(
        self,
        *,
        topic: str,
        serialize_key: Callable[[Any], Any],
        serialize_value: Callable[[Any], Any],
        keeps_key: bool = False,
        keeps_value: bool = False,
        check_headers: Callable[[Any], object],
        emit: Callable[[Any], None],
        on_error: Callable[..., None],
        plain_sink: Any,
    ) -> None: ...
    def __call__(self, key: Any, value: Any, timestamp: int, headers: Any, /) -> None: ...

class Input:
    """The buffer of a partition, and its head: the record that comes next, once it was read. Without a deserializer
    bytes stay what they are; ``by_headers`` says that it takes ``(bytes, headers)``. ``on_error`` gets an error and the
    record that cannot be deserialised, which is dropped if it returns. ``extract`` gives the time of a record, or a
    negative one for it to be dropped, from record, key, value and partition time. It is only asked where
    ``trusts_time`` is false, or the record has no time. ``apply`` is called with a ``TimeMarker`` when its turn comes,
    and moves the context's ``stream_time`` on; without it the buffer has none."""

    def __init__(
        self,
        *,
        buffer: Any,
        push: Callable[..., None],
        deserialize_key: Callable[..., Any] | None,
        deserialize_value: Callable[..., Any] | None,
        key_by_headers: bool = False,
        value_by_headers: bool = False,
        trusts_time: bool = True,
        extract: Callable[[InputRecord, Any, Any, int], int],
        on_error: Callable[[Exception, InputRecord], object],
        apply: Callable[[TimeMarker], object] | None,
    ) -> None: ...

    #: Takes the records; a function that is put here takes those that come next.
    push: Callable[..., None]
    #: The highest timestamp, and the offset after the last record, of what was processed; -1: nothing was.
    partition_time: int
    position: int

    @property
    def has_head(self) -> bool: ...
    def find_head(self) -> int | None:
        """Reads on until there is a head, if there is none. Returns its timestamp, ``None`` if no record is left."""

    def drop_head(self) -> None: ...

class TimeMarker:
    """Says that time has moved on in a partition, between two of its records: it waits in the buffer among them, and
    takes its turn by ``timestamp``."""

    def __init__(self, *, timestamp: int, data: Any) -> None: ...

    timestamp: int
    data: Any

class Loop:
    """Runs records of the inputs of a task through the topology. It sets the ``message`` and the ``stream_time`` of the
    context, and calls ``punctuate`` after a record when it is due."""

    def __init__(self, *, inputs: list[Input], context: Any, punctuate: Callable[[], object]) -> None: ...
    def offer(self, input: Input, /) -> None:
        """Has one of several inputs wait for its turn, if it does not and has a record. Among equal timestamps the
        order is that of these calls, as in ``PriorityQueue``."""

    def run(self, *, control: Any, due: Any, expiry: Any, limit: int, until: int = ...) -> int:
        """Processes up to ``limit`` records unless ``control`` says to stop, of several inputs the one with the lowest
        timestamp first, until the one whose turn it is has none, or none of a time up to ``until``. Returns how many
        were taken. A record that would move the stream time to ``expiry.next_due`` is put off: the time moves, and the
        record is the first of the next call."""

    def clear(self) -> None:
        """Forgets which inputs wait for their turn."""

    #: The sum and the highest of the milliseconds by which records of the last call came late, also if it raised.
    late: int
    most: int
    #: The input whose record was put off; ``None`` if none was.
    put_off: Input | None

class TakenBatch(NamedTuple):
    """A batch of an ``Outbox``."""

    #: ``None``: it has no records.
    data: bytes | None
    record_count: int
    #: When the first of them came: the outbox's ``now``.
    since: float
    #: Says whether there is another batch of the partition.
    more: bool

class Outbox:
    """Records that wait to be sent, as batches for the partitions of topics. ``batch_size`` and ``most``, which is that
    of the largest record, are in bytes. One thread adds, another one takes."""

    def __init__(self, *, batch_size: int, most: int) -> None: ...

    #: The size of what waits, in bytes.
    bytes: int
    #: Records that were ever taken up.
    added: int
    #: The time of all that is added from now on, in monotonic seconds; the caller that adds sets it.
    now: float

    def add_topic(self, topic: str, partitions: int, /) -> None:
        """Makes a topic known, with so many partitions, or with more of them."""

    def add(self, *, records: list[Any], begin: int, room: int) -> tuple[int, int]:
        """Takes up ``records[begin:]``, as ``outgoing.OutputRecord`` says, while less than ``room`` bytes wait.
        Returns the index of the first that was not taken, and ``Why``."""

    def add_changes(
        self,
        *,
        topic: str,
        partition: int,
        changes: Sequence[Any],
        begin: int,
        room: int,
        raw: Callable[[Any], builtins.bytes] | None,
        number_size: int,
    ) -> tuple[int, int]:
        """Takes up ``changes[begin:]``, a list of ``(key, (stored, timestamp))`` or a ``CellRun``, as records of a
        changelog; returns as ``add`` does. ``raw`` makes bytes of what is stored, unless that is ``None``, and its
        errors are raised; ``None`` says that bytes are stored. It is not asked for whole numbers if these are written
        big-endian in ``number_size`` bytes; 0 if they are not."""

    def waits(self) -> bool:
        """True if ``take_ready`` has something to return."""

    def take_ready(self) -> list[tuple[str, int]]:
        """The partitions for which nothing waited before, and something does, since the last call."""

    def take(self, topic: str, partition: int, /) -> TakenBatch | None:
        """The oldest batch of a partition; ``None`` if nothing waits."""

    def clear(self) -> None:
        """Forgets all that waits."""

class PackedRecords:
    """Records of a changelog on their way to RocksDB: bytes, from which no objects are made before. One thread at a
    time uses them."""

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
        *,
        put: Callable[[bytes, bytes, Any], object],
        delete: Callable[[bytes, Any], object],
        family: Any,
        limit: int,
        timestamped: bool,
    ) -> bool:
        """Gives up to ``limit`` of the sorted entries to ``put``, and keys of deletions to ``delete``. A value is the
        record's, behind its timestamp in 8 bytes if it is ``timestamped``. Returns whether any are left."""

class Chunk:
    """The records of a partition in an answer to Fetch, from an offset on, without those of ``aborted`` transactions,
    ``(producer, first offset)``. ``decompress`` takes a codec's number and bytes, and returns bytes, or an exception
    whose only argument is a text. Then one record without key and value takes the place of the batch, and asking for
    its headers raises this exception. Checksums may be left ``unchecked``. A batch that reaches to ``log_end``, where
    the log ends, is left out, with what follows it. ``most`` are the bytes of batches that one call opens.

    Raises ``ValueError`` unless the rest are record batches whose offsets grow, and the first one has the position or
    something behind it. Raises ``NotImplementedError`` for formats before the second."""

    def __init__(
        self,
        *,
        topic: str,
        partition: int,
        data: bytes | bytearray | memoryview,
        position: int,
        aborted: list[tuple[int, int]],
        decompress: Callable[[int, bytes], bytes | Exception],
        unchecked: bool = False,
        log_end: int = ...,
        most: int = ...,
    ) -> None: ...

    #: The next offset after the records that were taken, and after all.
    position: int
    end_position: int
    #: The epoch of the leader that wrote the last ones.
    epoch: int
    #: Bytes of all batches that were opened by now, and of the open batch; the records of that batch that are left.
    opened: int
    open_bytes: int
    left: int

    def take(self, limit: int, /) -> list[InputRecord]:
        """The next records, all that are left if they are fewer; less of them once so many bytes were opened. Raises
        ``ValueError``, or ``NotImplementedError``, if the next record cannot be read; records before such a one are
        returned first."""

    def take_packed(self, limit: int, /) -> PackedRecords:
        """The same, for a store that is restored. Raises the exception that ``decompress`` has returned."""

class TlsError(OSError):
    """TLS has failed. ``args`` are OpenSSL's reason, and the text of what is wrong with the other side's certificate,
    which is empty if that was believed."""

class Tls:
    """A TLS connection over a socket, used by one thread at a time; the socket stays its owner's.

    All raise ``TlsError``, or ``OSError`` of the socket's; ``BlockingIOError`` where the socket is to be watched, for
    room to write where ``wants_room``."""

    wants_room: bool
    #: True if the last ``recv_into`` has left something that need not be waited for.
    pending: bool
    #: As ``TLSv1.3``; empty once it is closed.
    version: str
    cipher: str

    def shake_hands(self) -> None:
        """Begin, or go on after ``BlockingIOError``."""

    def send(self, data: bytes | bytearray | memoryview, /) -> int:
        """The number of bytes that were taken."""

    def recv_into(self, view: bytearray | memoryview, /) -> int:
        """Fills a view with all that is there by now; 0 at the end. Waits for nothing, but as the socket does."""

    def close(self) -> None: ...

class TlsContext:
    """The authorities, the certificate and the ciphers of a client's connections by TLS. Paths of files and folders in
    PEM; raises ``TlsError`` for a file that cannot be used."""

    def __init__(self, *, verified: bool) -> None:
        """Raises ``ImportError`` where the OpenSSL of Python's ``ssl`` cannot be found."""

    def trust(self, file: str | None, folder: str | None, /) -> None:
        """Believes these authorities, or the system's if there is neither."""

    def check_revoked(self, file: str, /) -> None: ...
    def show(self, *, certificate: str, key: str, password: bytes) -> None: ...
    def use_ciphers(self, ciphers: str, /) -> None:
        """For TLS 1.2, in OpenSSL's form."""

    def connection(self, *, descriptor: int, name: str, checked: bool) -> Tls:
        """Over a connected socket. The other side has to prove that it has this name or address, if that is
        ``checked``."""

class FetchedPart(NamedTuple):
    """A partition in an answer to Fetch."""

    topic_id: bytes
    partition: int
    error: int
    #: The next offset of the log, the offset after the last committed record, and the first offset.
    high: int
    stable: int
    first: int
    #: Says that the log has other records now where the last one was read.
    diverging: bool
    #: Transactions that were aborted, ``(producer, first offset)``.
    aborted: list[tuple[int, int]]
    #: Where its record batches begin and end in the answer.
    begin: int
    end: int
    #: The follower to ask instead (KIP-392), or -1.
    replica: int

class FetchAnswer(NamedTuple):
    """An answer to Fetch."""

    #: Milliseconds in which the broker is to be left alone.
    throttle_ms: int
    error: int
    session: int
    parts: list[FetchedPart]

def answer(answer: bytes | bytearray, /) -> FetchAnswer:
    """An answer to Fetch, version 13, without its length. Raises ``ValueError`` for anything else."""

def stamped(*, batch: bytes, producer: int, epoch: int, sequence: int, attributes: int) -> bytes:
    """A batch that was taken out of an ``Outbox``, perhaps with what comes after its header compressed, as a
    producer sends it from this sequence number on."""

def by_last_update(held: list[Any], /) -> list[Any]:
    """The same cells, ``(cell, key, ...)``, in the order of their last updates, which is that of their ``held``."""

def fits(value: object, shape: Any, /) -> bool:
    """Returns whether the value has the shape, as in ``serdes/shapes.py``, to the type of each part. What is no shape
    fits nothing. Looks at the attributes of instances; an error that this raises means that the value does not fit."""

def require_bytes(value: bytes, /) -> bytes:
    """Returns bytes as they are; raises ``TypeError`` for anything else. The other parts in C know it."""

def results(*, held: list[Any], topic: str, deleted_at: Callable[..., int], before: int, behind: int) -> list[Any]:
    """The records that write cells, ``(cell, key, ...)``, to a topic; the cells are no longer held then. For a deleted
    cell it is a tombstone with the time that ``deleted_at(key, ...)`` gives. The topic's keys are the physical ones
    without so many bytes ``before`` them and ``behind``."""

def take_large_arenas() -> None:
    """Has objects that Python makes from now on lie in large pages, where the system has them. For a program that has
    the process to itself. An allocator of arenas that another library has set stays."""

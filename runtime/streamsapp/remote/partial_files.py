"""Tables of a snapshot that are read before all of them is here: files with holes, filled piece by piece.

Made on the threads that prepare a directory; read on any thread that reads a store, and filled on the restore threads.
A file has its full size from the beginning. So a piece is written to its place, once its checksum was found right, and
nothing moves afterwards. RocksDB takes a hole for a damaged block, as checksums of its own do not fit to zeros.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Condition
from typing import NamedTuple

from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import ObjectDamagedError, ObjectStoreError
from streamsapp.remote.pieces import FilePieces, digest
from streamsapp.remote.snapshot import SnapshotFile

#: The most bytes that one request brings. They are in memory until their checksums are found right, and a read that
#: needs one of their pieces waits for all.
_MOST = 4 << 20
#: A table with fewer bytes of entries is brought whole.
_WORTH_LEAVING = 1 << 20

_MISSING, _COMING, _HERE = range(3)


def may_be_partial(file: SnapshotFile) -> bool:
    """Says whether a file can be, and is worth being, read before all of it is here."""
    return file.pieces is not None and file.pieces.tail >= _WORTH_LEAVING


class _Run(NamedTuple):
    """Pieces that come with one request: ``begin`` to ``end``, the last not included."""

    begin: int
    end: int


class _Table:
    """One file with holes."""

    def __init__(self, file: SnapshotFile, pieces: FilePieces, key: str, path: Path) -> None:
        self.file = file
        self.key = key
        self.piece = pieces.size
        self.tail = pieces.tail
        self.states = bytearray(-(-file.size // pieces.size))
        self.missing_bytes = file.size
        #: Reads that waited for it.
        self.reads = 0
        self._sums = pieces.digests()
        #: The piece at which a read goes on that goes through the table in order, and how many it is given then.
        self._next, self._ahead = -1, 1
        path.unlink(missing_ok=True)  # of an earlier try
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.ftruncate(self._handle, file.size)

    def first_not_here(self, begin: int, end: int) -> int | None:
        """The first piece from ``begin`` to ``end``, the last not included, that is not here."""
        return next((at for at in range(begin, end) if self.states[at] != _HERE), None)

    def run_from(self, begin: int, most: int) -> _Run:
        """The missing pieces from there on, as far as they follow each other."""
        end = begin
        while end < min(len(self.states), begin + most) and self.states[end] == _MISSING:
            end += 1
        return _Run(begin, end)

    def ahead(self, piece: int) -> int:
        """The number of pieces that a read is given: more the longer it goes on in order."""
        most = _MOST // self.piece
        self._ahead = min(2 * self._ahead, most) if piece == self._next else 1
        return self._ahead

    def mark(self, run: _Run, state: int) -> None:
        self.states[run.begin : run.end] = bytes([state]) * (run.end - run.begin)

    def bounds(self, run: _Run) -> tuple[int, int]:
        """The bytes of some pieces."""
        return run.begin * self.piece, min(self.file.size, run.end * self.piece)

    def is_right(self, run: _Run, data: bytes) -> bool:
        """Says whether every piece has its checksum."""
        found = (digest(memoryview(data)[at : at + self.piece]) for at in range(0, len(data), self.piece))
        length = len(self._sums) // len(self.states)
        return b"".join(found) == self._sums[run.begin * length : run.end * length]

    def write(self, run: _Run, data: bytes) -> None:
        """Puts pieces in their place. Raises ``OSError``."""
        at, rest = run.begin * self.piece, memoryview(data)
        while rest:
            written = os.pwrite(self._handle, rest, at)
            at, rest = at + written, rest[written:]
        self.mark(run, _HERE)
        self.missing_bytes -= len(data)
        self._next = run.end
        if not self.missing_bytes:
            self.close()

    def close(self) -> None:
        """Nothing is written any more."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class PartialFiles:
    """The tables of one task's database that are not whole yet. Safe on several threads."""

    def __init__(self, chain: ManifestChain, moved: Callable[[int], None]) -> None:
        """``moved`` gets the bytes of each request; it may raise."""
        self._chain = chain
        self._moved = moved
        self._tables: dict[str, _Table] = {}
        self._changed = Condition()
        self._at_end: list[Callable[[], None]] = []
        self.closed = False
        #: Requests to the object store, and reads that waited for one.
        self.requests = self.reads = 0

    @property
    def missing_bytes(self) -> int:
        """The bytes that are not here."""
        return sum(table.missing_bytes for table in list(self._tables.values()))

    # ---- threads that prepare a directory ----------------------------------------------------------------------

    def begin(self, file: SnapshotFile, path: Path) -> None:
        """Makes a file with a hole for everything but what RocksDB reads when it opens a table. Raises ``OSError`` and
        errors of the object store."""
        assert file.pieces is not None
        table = _Table(file, file.pieces, self._chain.file_key(file), path)
        with self._changed:
            replaced = self._tables.pop(file.name, None)
            self._tables[file.name] = table
        if replaced is not None:
            replaced.close()
        self._bring(table, table.tail // table.piece, len(table.states), len(table.states))

    def forget(self) -> None:
        """The snapshot is not used: another one is tried."""
        with self._changed:
            tables, self._tables = list(self._tables.values()), {}
        for table in tables:
            table.close()

    # ---- any thread --------------------------------------------------------------------------------------------

    def bring(self, name: str, begin: int, end: int) -> bool:
        """Have these bytes of a file here; whether any were missing. Raises errors of the object store and of the
        disk."""
        self._refuse_if_closed()
        table = self._tables.get(name)
        if table is None or not 0 <= begin < end <= table.file.size:
            return False
        first, last = begin // table.piece, (end - 1) // table.piece + 1
        lacking = table.first_not_here(first, last)
        if lacking is None:
            return False
        with self._changed:
            self.reads += 1
            table.reads += 1
            ahead = max(last - lacking, table.ahead(lacking))
        self._bring(table, first, last, ahead)
        return True

    def fill(self) -> bool:
        """Bring some of what is missing, first of the table that most reads waited for; whether there may be more."""
        with self._changed:
            if self.closed or not self.missing_bytes:
                return False
            open_tables = [table for table in self._tables.values() if table.states.find(_MISSING) >= 0]
            if not open_tables:
                self._changed.wait(1.0)  # the rest is under way
                return True
            table = max(open_tables, key=lambda each: each.reads)
            run = table.run_from(table.states.find(_MISSING), _MOST // table.piece)
            table.mark(run, _COMING)
        self._fetch(table, run)
        return True

    def when_whole(self, act: Callable[[], None]) -> None:
        """``act`` is called once all files are whole, on whatever thread brought the last piece."""
        with self._changed:
            if self.missing_bytes:
                self._at_end.append(act)
                return
        act()

    def close(self) -> None:
        """The database is closed: nothing is written to its files any more, and reads that wait end."""
        with self._changed:
            if self.closed:
                return
            self.closed = True
            self._changed.notify_all()
        self.forget()

    def _refuse_if_closed(self) -> None:
        if self.closed:
            raise ObjectStoreError("nothing reads this snapshot any more")

    # ---- transfers ---------------------------------------------------------------------------------------------

    def _bring(self, table: _Table, first: int, last: int, ahead: int) -> None:
        while (run := self._claimed(table, first, last, ahead)) is not None:
            self._fetch(table, run)

    def _claimed(self, table: _Table, first: int, last: int, ahead: int) -> _Run | None:
        """Missing pieces that this thread fetches from now on; pieces that others fetch are waited for."""
        with self._changed:
            while (at := table.first_not_here(first, last)) is not None:
                self._refuse_if_closed()
                if table.states[at] == _MISSING:
                    run = table.run_from(at, ahead)
                    table.mark(run, _COMING)
                    return run
                self._changed.wait()
        return None

    def _fetch(self, table: _Table, run: _Run) -> None:
        try:
            data = self._verified(table, run)
            with self._changed:
                self._refuse_if_closed()
                if self._tables.get(table.file.name) is not table:
                    raise ObjectStoreError("another snapshot is tried")
                table.write(run, data)
                at_end, self._at_end = ([], self._at_end) if self.missing_bytes else (self._at_end, [])
                self._changed.notify_all()
        except BaseException:
            with self._changed:
                table.mark(run, _MISSING)
                self._changed.notify_all()
            raise
        for act in at_end:
            act()

    def _verified(self, table: _Table, run: _Run) -> bytes:
        """Pieces as they were published. A piece that is damaged comes once more: a cache on the way may be wrong."""
        begin, end = table.bounds(run)
        for _ in range(2):
            self.requests += 1
            data = self._chain.objects.read_range(table.key, begin, end, table.file.size)
            self._moved(len(data))
            if table.is_right(run, data):
                return data
        raise ObjectDamagedError(f"bytes {begin} to {end} of {table.key} are damaged: their checksum differs")

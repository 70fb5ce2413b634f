"""Local files at the other end of a transfer. Called on the threads that move bytes and check the moved bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

from streamsapp.remote.object_store import Moved, ObjectStoreError


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that did not exist before, and does not exist afterwards either unless it was written to the end."""
    try:
        with path.open("xb") as file:
            try:
                yield file
            except BaseException:
                path.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise ObjectStoreError(f"cannot write the local file {path}: {error}; is there room and permission?") from error


def sha256_of(path: Path) -> str:
    """Returns the hash of a file's bytes, in hexadecimal; other threads run meanwhile. Raises ``OSError``."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


#: Gets the blocks of a file in their order, each when it was written.
Took: TypeAlias = Callable[[bytes], None]


class BlockHash:
    """Hashes each block while it is in the processor's cache, and reports its bytes: a ``Took``."""

    def __init__(self, moved: Moved) -> None:
        self._digest = hashlib.sha256()
        self._moved = moved

    def __call__(self, block: bytes) -> None:
        self._digest.update(block)
        self._moved(len(block))

    @property
    def sha256(self) -> str:
        """The hash of all blocks so far, in hexadecimal."""
        return self._digest.hexdigest()


class ByteRange(NamedTuple):
    """Bytes ``begin`` to ``end``, the last not included."""

    begin: int
    end: int


def ranges_of(size: int, length: int) -> list[ByteRange]:
    """The ranges of a file, none longer than ``length``; a file without bytes has one."""
    return [ByteRange(begin, min(size, begin + length)) for begin in range(0, max(size, 1), length)]


class FilePart:
    """A range of an open file as the body of a request; many threads may read ranges of the same file.

    A body is read once to sign it and once to send it; ``moved`` counts the bytes read while ``sending``.
    """

    def __init__(self, handle: int, part: ByteRange, moved: Moved) -> None:
        self._handle = handle
        self._part = part
        self._at = part.begin
        self._moved = moved
        self.sending = False
        #: The error that reading or ``moved`` raised: the client takes it for a fault of the connection.
        self.failure: Exception | None = None

    def __len__(self) -> int:
        return self._part.end - self._part.begin

    def rewind(self) -> None:
        """Before the request is tried again."""
        self._at, self.sending = self._part.begin, False

    def read(self, count: int = -1) -> bytes:
        left = self._part.end - self._at
        try:
            data = os.pread(self._handle, left if count < 0 else min(count, left), self._at)
            if self.sending and data:
                self._moved(len(data))
        except Exception as error:
            self.failure = error
            raise
        self._at += len(data)
        return data

    def tell(self) -> int:
        return self._at - self._part.begin

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: self._part.begin, os.SEEK_CUR: self._at, os.SEEK_END: self._part.end}[whence]
        self._at = base + offset
        return self.tell()

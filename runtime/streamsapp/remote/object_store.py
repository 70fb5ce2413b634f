"""The interface of an object store for remote state, and its errors.

Called on the snapshot threads and by commands. Ranges are read on any thread that reads a store whose files are not all
here yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from streamsapp.errors import StreamsError
from streamsapp.remote.request_figures import RequestFigures


class ObjectStoreError(StreamsError):
    """The object store did not do what it was asked, for now or for good; the message names store, key and remedy."""


class UnfitObjectStoreError(ObjectStoreError):
    """The object store answers and cannot be used: no such bucket, no access, or no conditional writes."""


class ObjectMissingError(ObjectStoreError):
    """Raised if there is no object of this key."""


class ObjectExistsError(ObjectStoreError):
    """Raised if there is an object of this key already, which another process wrote, or an earlier try of ours."""


class ObjectDamagedError(ObjectStoreError):
    """An object is not as expected: it has another size, or is too large."""


class ObjectInfo(NamedTuple):
    """An object as a listing has it."""

    key: str
    size: int
    #: With time zone, by the store's own clock.
    modified: datetime


#: Gets the number of bytes that were moved just now, on any thread; may sleep in order to slow the transfer down.
Moved = Callable[[int], None]


def unobserved(count: int) -> None:
    """For a caller that does not count the bytes moved."""


_KEY = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


def check_key(key: str) -> None:
    """Raise ``ObjectStoreError`` for a key that a store might take for another: a key that leaves the prefix, say."""
    if not _KEY.fullmatch(key) or not {".", ".."}.isdisjoint(key.split("/")):
        raise ObjectStoreError(f"{key!r} is not a key: it has parts of letters, digits, '.', '_' and '-', never '..'")


class ObjectStore(Protocol):
    """Objects under one prefix; keys are relative to it, made of ``/``, letters, digits, ``.``, ``_`` and ``-``.

    Safe on several threads. Every call either did what it says, or raises: ``ObjectStoreError`` after its own retries
    (with jitter) of what can be retried. A write that raised may have gone through all the same.
    """

    @property
    def figures(self) -> RequestFigures | None:
        """Counts the requests to its server; ``None`` where there is none."""
        ...

    def put_new(self, key: str, data: bytes) -> None:
        """Write a small object unless there is one: of several writers exactly one succeeds. Raises
        ``ObjectExistsError``, also where an earlier try of this very call had gone through unnoticed."""
        ...

    def upload(self, key: str, source: Path, moved: Moved = unobserved) -> None:
        """Write a file; an earlier file is replaced at once, never seen by halves."""
        ...

    def read(self, key: str, limit: int) -> bytes:
        """A small object. Raises ``ObjectMissingError``; ``ObjectDamagedError`` if it is larger than ``limit`` bytes,
        without having read more than that."""
        ...

    def download(self, key: str, target: Path, size: int, moved: Moved = unobserved, share: float = 1.0) -> str:
        """Write an object of ``size`` bytes to a file that does not exist yet, and return the SHA-256 of the written
        bytes, in hexadecimal. ``share`` is the part that these bytes are of all that the caller downloads at the same
        time. A large part may come in several ranges at once. Raises ``ObjectMissingError``; ``ObjectDamagedError`` if
        it has another size, without having written more than that."""
        ...

    def read_range(self, key: str, begin: int, end: int, size: int) -> bytes:
        """Bytes ``begin`` to ``end``, the last not included, of an object of ``size`` bytes. Raises
        ``ObjectMissingError``; ``ObjectDamagedError`` if it has another size."""
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Objects whose key begins with ``prefix``, in the order of their keys. Objects that were written before are
        there."""
        ...

    def delete(self, keys: Collection[str]) -> None:
        """Delete objects; objects that are not there are no error."""
        ...

    def probe(self) -> None:
        """Write and delete a small object. Raises ``UnfitObjectStoreError`` with a remedy if the store may not be used
        or lacks conditional writes (``If-None-Match: *``): without these a zombie could not be kept from writing.
        Raises another ``ObjectStoreError`` if it is out of reach for now."""
        ...

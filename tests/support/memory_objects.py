"""An object store in memory, with a clock of its own and faults on demand: the fast fake of the tests of snapshots."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock

from streamsapp.remote.object_store import (
    Moved,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    unobserved,
)

#: Gets the name of an operation and a key; raises the error that the operation is to raise.
Fault = Callable[[str, str], None]


def _none(operation: str, key: str) -> None:
    """All goes well."""


class MemoryObjects:
    """Objects by key, open to tests: ``objects`` may be changed at will."""

    figures = None

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.modified: dict[str, datetime] = {}
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        #: The requests that were made, as ``(operation, key)``.
        self.calls: list[tuple[str, str]] = []
        #: Asked before an operation has an effect, and after a write that had one.
        self.before: Fault = _none
        self.after: Fault = _none
        self._lock = Lock()

    def sleep(self, seconds: float) -> None:
        """Let the store's clock go on."""
        self.now += timedelta(seconds=seconds)

    def asked(self, operation: str) -> list[str]:
        """The keys of all calls of one kind."""
        return [key for called, key in self.calls if called == operation]

    def put_new(self, key: str, data: bytes) -> None:
        self._begin("put_new", key)
        with self._lock:
            if key in self.objects:
                raise ObjectExistsError(f"{key} exists")
            self._write(key, data)
        self.after("put_new", key)

    def upload(self, key: str, source: Path, moved: Moved = unobserved) -> None:
        self._begin("upload", key)
        data = source.read_bytes()
        moved(len(data))
        with self._lock:
            self._write(key, data)
        self.after("upload", key)

    def read(self, key: str, limit: int) -> bytes:
        self._begin("read", key)
        data = self._found(key)
        if len(data) > limit:
            raise ObjectDamagedError(f"{key} is larger than {limit}")
        return data

    def download(self, key: str, target: Path, size: int, moved: Moved = unobserved, share: float = 1.0) -> str:
        self._begin("download", key)
        data = self._found(key)
        if len(data) != size:
            raise ObjectDamagedError(f"{key} has {len(data)} bytes instead of {size}")
        with target.open("xb") as file:
            file.write(data)
        moved(size)
        return hashlib.sha256(data).hexdigest()

    def read_range(self, key: str, begin: int, end: int, size: int) -> bytes:
        self._begin("read_range", key)
        data = self._found(key)
        if len(data) != size:
            raise ObjectDamagedError(f"{key} has {len(data)} bytes instead of {size}")
        return data[begin:end]

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._begin("list", prefix)
        with self._lock:
            found = [
                ObjectInfo(key, len(data), self.modified.get(key, self.now))
                for key, data in sorted(self.objects.items())
                if key.startswith(prefix)
            ]
        return iter(found)

    def delete(self, keys: Collection[str]) -> None:
        for key in keys:
            self._begin("delete", key)
            with self._lock:
                self.objects.pop(key, None)

    def probe(self) -> None:
        self._begin("probe", "")

    def _begin(self, operation: str, key: str) -> None:
        self.calls.append((operation, key))
        self.before(operation, key)

    def _write(self, key: str, data: bytes) -> None:
        self.objects[key] = data
        self.modified[key] = self.now

    def _found(self, key: str) -> bytes:
        with self._lock:
            if key not in self.objects:
                raise ObjectMissingError(f"{key} does not exist")
            return self.objects[key]

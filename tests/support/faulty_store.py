"""An object store that fails as real ones do, by a seeded random: its faults are in ``faults``, and can be repeated.

A wrapper around any store. It fails only where a real one may: no reader sees half an object, exactly one of several
writers of a new object wins, and a call that raises may have had its effect or not.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TypeVar

from streamsapp.remote.object_store import (
    Moved,
    ObjectExistsError,
    ObjectInfo,
    ObjectStore,
    ObjectStoreError,
    unobserved,
)

T = TypeVar("T")

_ANY_SIZE = 1 << 40

#: Before there was an effect.
_BEFORE = ("connection refused", "timed out", "503 SlowDown", "500 InternalError")
#: After it: the answer was lost.
_AFTER = ("connection reset while the answer was read", "timed out waiting for the answer")
_OF_NEW = ("409 ConditionalRequestConflict",)
_OF_UPLOADS = ("the upload died after some of its parts",)
_OF_DOWNLOADS = ("the connection ended in the middle of the body",)


class FaultyStore:
    """``share`` of the calls fail; with ``down`` all do; every block moved takes ``seconds_per_block``."""

    def __init__(self, inner: ObjectStore, seed: int, share: float = 0.0) -> None:
        self.inner = inner
        self.figures = inner.figures
        self.share = share
        self.down = False
        self.seconds_per_block = 0.0
        #: How far the store's clock is ahead.
        self.skew = timedelta()
        #: The faults that were injected, as ``(operation, key, fault)``.
        self.faults: list[tuple[str, str, str]] = []
        self._random = random.Random(seed)
        self._lock = Lock()

    def put_new(self, key: str, data: bytes) -> None:
        def lost_and_tried_again() -> None:
            """The first try went through, its answer was lost, and the second try met the first one's object."""
            self.inner.put_new(key, data)
            raise ObjectExistsError(f"{key} exists already")

        self._maybe("put_new", key, partial(self.inner.put_new, key, data), _OF_NEW, lost_and_tried_again)

    def upload(self, key: str, source: Path, moved: Moved = unobserved) -> None:
        self._maybe("upload", key, partial(self.inner.upload, key, source, self._slowed(moved)), _OF_UPLOADS)

    def read(self, key: str, limit: int) -> bytes:
        return self._maybe("read", key, partial(self.inner.read, key, limit), _OF_DOWNLOADS)

    def download(self, key: str, target: Path, size: int, moved: Moved = unobserved, share: float = 1.0) -> str:
        def whole() -> str:
            return self.inner.download(key, target, size, self._slowed(moved), share)

        try:
            return self._maybe("download", key, whole, _OF_DOWNLOADS)
        except ObjectStoreError:
            target.unlink(missing_ok=True)  # a download that raised leaves nothing, also where it was complete
            raise

    def read_range(self, key: str, begin: int, end: int, size: int) -> bytes:
        time.sleep(self.seconds_per_block)
        return self._maybe("read_range", key, partial(self.inner.read_range, key, begin, end, size), _OF_DOWNLOADS)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for info in self._maybe("list", prefix, lambda: [*self.inner.list(prefix)]):
            yield info._replace(modified=info.modified + self.skew)

    def delete(self, keys: Collection[str]) -> None:
        def some() -> None:
            self.inner.delete([key for key in keys if self._random.random() < 0.5])
            raise ObjectStoreError("the connection ended after some were deleted")

        self._maybe("delete", next(iter(keys), ""), partial(self.inner.delete, keys), (), some)

    def probe(self) -> None:
        self._maybe("probe", "", self.inner.probe)

    # The faults that happen to objects at rest.

    def flip(self, key: str) -> None:
        """One bit of an object, somewhere."""
        data = bytearray(self.inner.read(key, _ANY_SIZE))
        at = self._random.randrange(8 * len(data))
        data[at // 8] ^= 1 << at % 8
        self.replace(key, bytes(data))

    def truncate(self, key: str) -> None:
        """An object loses its end, somewhere."""
        data = self.inner.read(key, _ANY_SIZE)
        self.replace(key, data[: self._random.randrange(len(data))])

    def replace(self, key: str, data: bytes) -> None:
        """An object has these bytes now."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            self.inner.upload(key, Path(file.name))

    def swap(self, one: str, other: str) -> None:
        """Two objects have each other's bytes."""
        first, second = self.inner.read(one, _ANY_SIZE), self.inner.read(other, _ANY_SIZE)
        self.replace(one, second)
        self.replace(other, first)

    def _slowed(self, moved: Moved) -> Moved:
        def slowly(count: int) -> None:
            time.sleep(self.seconds_per_block)
            moved(count)

        return slowly if self.seconds_per_block else moved

    def _maybe(
        self,
        operation: str,
        key: str,
        action: Callable[[], T],
        more: tuple[str, ...] = (),
        own: Callable[[], None] | None = None,
    ) -> T:
        fault = self._choose(more, own is not None)
        if fault is None:
            return action()
        self.faults.append((operation, key, fault))
        if fault == "own" and own is not None:
            own()
        if fault in _AFTER:
            action()
        raise ObjectStoreError(f"cannot {operation} {key}: {fault}")

    def _choose(self, more: tuple[str, ...], own: bool) -> str | None:
        with self._lock:
            if self.down:
                return _BEFORE[0]
            if self._random.random() >= self.share:
                return None
            known: list[str] = [*_BEFORE, *_AFTER, *more, *(["own"] if own else [])]
            return self._random.choice(known)

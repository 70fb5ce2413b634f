"""The iterators over stores that users get: entries, and an end that can be asked for.

Made by the facades of stores, by the test driver's views of them and by queries; used on the thread that asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Generic, NoReturn, TypeVar

from streamsapp.errors import StateStoreError
from streamsapp.java_names.lookup import java_names

K = TypeVar("K")
V = TypeVar("V")


@java_names("KeyValueIterator")
class KeyValueIterator(Iterator[tuple[K, V]], Generic[K, V]):
    """Entries of a store, as pairs of key and value.

    It holds on to the files of a persistent store until it is exhausted or closed, as a context manager or by
    ``close()``. An exhausted iterator need not be closed. Iterating over it afterwards raises ``StateStoreError``.
    """

    __slots__ = ("_found",)

    def __init__(self, found: Iterator[tuple[K, V]]) -> None:
        self._found = found

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._found  # a loop runs as fast as if this were not here

    def __next__(self) -> tuple[K, V]:
        return next(self._found)

    def close(self) -> None:
        """Ends the iteration, and lets go of what it holds."""
        found, self._found = self._found, _CLOSED
        end = getattr(found, "close", None)  # entries in memory hold nothing
        if end is not None:
            end()

    def __enter__(self) -> KeyValueIterator[K, V]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Closed(Iterator[Any]):
    """Refuses to give anything."""

    def __next__(self) -> NoReturn:
        raise StateStoreError("this iterator of a state store is closed; read the entries before it is")


_CLOSED = _Closed()

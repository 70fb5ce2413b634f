"""A request whose message is one of ``messages``. Pure; used on the thread of the connection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from streamsapp.brokers.codec import Asking, Whole, encoded, read
from streamsapp.brokers.encoding import NO_TAGS, Reader
from streamsapp.brokers.request_by_hand import RequestByHand

A = TypeVar("A", bound=Whole)


class Request(RequestByHand[A]):
    """Asks for an ``A``."""

    def __init__(
        self,
        message: Asking[A],
        *,
        least: int | None = None,
        greatest: int | None = None,
        before: tuple[int, Asking[A]] | None = None,
    ) -> None:
        """``least`` and ``greatest``: the versions that it may be sent as, among the known versions. ``before`` a
        version it is another message."""
        known = message.VERSIONS
        super().__init__((known[0] if least is None else least, known[1] if greatest is None else greatest))
        self.name, self.API_KEY, self.first_compact = type(message).__name__, message.API_KEY, message.FIRST_COMPACT
        self.message, self._before = message, before or (0, message)

    def parts(self, version: int, *, compact: bool) -> Iterable[bytes]:
        first, other = self._before
        whole = encoded(other if version < first else self.message, version)
        return (whole.removesuffix(NO_TAGS) if compact else whole,)  # no request that is sent has any

    def read(self, reader: Reader, version: int) -> A:
        answer: A = read(self.message.ANSWER, reader, version)  # type: ignore[assignment]
        return answer

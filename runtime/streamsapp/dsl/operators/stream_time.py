"""The stream time of an operator: kept beside its push functions; there may be two.

Made when a task starts, on the polling thread; moved on by a processing thread.
"""

from __future__ import annotations

from typing import Protocol


class StreamTime(Protocol):
    """The highest timestamp that an operator has had, in milliseconds; -1 before the first."""

    latest: int


class ObservedTime:
    """The one that push functions in Python move on."""

    __slots__ = ("latest",)

    def __init__(self, latest: int = -1) -> None:
        self.latest = latest

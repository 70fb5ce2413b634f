"""Windows: the ranges of time that a record belongs to, for aggregations and for joins of two streams.

Plain immutable data. Made by user code while a program is built; ``starts_for`` is called per record on processing
threads. All durations are ``timedelta`` or whole milliseconds, all timestamps are milliseconds since 1970.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from math import gcd

from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import JavaNamedEnum, java_names
from streamsapp.processor.api import Duration, duration_ms
from streamsapp.serdes.windowed import MAX_TIMESTAMP


def _milliseconds(window: str, field: str, duration: object, *, least: int) -> int:
    """Returns a duration of at least ``least`` milliseconds; for less, ``TopologyError`` names the window and the
    field."""
    if not isinstance(duration, (timedelta, int)) or isinstance(duration, bool):
        raise TopologyError(f"{window}: {field}={duration!r} is not a duration; give a timedelta or whole milliseconds")
    value = duration_ms(duration)
    if value < least:
        raise TopologyError(f"{window}: {field} must be at least {least} ms, got {value}")
    return value


@java_names("Windows")
class Windows(ABC):
    """Windows of your own (Kafka Streams' ``Windows``), such as the days of a time zone. ``TimeWindows`` and
    ``UnlimitedWindows`` are such, too.

    A subclass has ``size_ms``: no window is longer. It may have ``grace_ms``: so long after its end a window still
    takes late records, in stream time. A window is identified by its start alone, in stores and in the bytes of keys:
    ``windows_for`` has to give the same end for a start each time, in every process. Windows that are sent when they
    close wait until ``size_ms`` and ``grace_ms`` after their start have passed, as in Kafka Streams.
    """

    size_ms: int
    grace_ms: int = 0

    @abstractmethod
    def windows_for(self, timestamp: int) -> Iterable[tuple[int, int]]:
        """Returns the windows that a timestamp belongs to, the earliest first: pairs of a start, which belongs to the
        window, and an end, which does not. All are milliseconds since 1970."""

    def starts_for(self, timestamp: int) -> Iterable[int]:
        """Returns the starts of the windows that a timestamp belongs to. Raises ``ValueError`` for windows that it does
        not belong to, and for ones longer than ``size_ms``."""
        found = tuple(self.windows_for(timestamp))
        for start, end in found:
            if not max(0, end - self.size_ms) <= start <= timestamp < end:
                raise ValueError(
                    f"{type(self).__name__}.windows_for({timestamp}) gave [{start}, {end}): a window begins at 0 or "
                    f"later, has the timestamp in it, and is at most size_ms={self.size_ms} long"
                )
        return [start for start, _ in found]

    def end_of(self, start: int) -> int:
        """Returns the end of the window that begins at ``start``; the end itself is outside."""
        return next((end for begin, end in self.windows_for(start) if begin == start), start + self.size_ms)


@java_names("TimeWindows")
@dataclass(frozen=True)
class TimeWindows(Windows):
    """Windows of a fixed size that begin at multiples of their advance: they tumble, or hop if they overlap.

    A record belongs to every window with ``start <= timestamp < start + size``. ``grace_ms`` is how long after its end
    a window still takes late records, in stream time (KIP-633).
    """

    size_ms: int
    advance_ms: int
    grace_ms: int

    @classmethod
    def of(cls, size: Duration, grace: Duration = 0) -> TimeWindows:
        """Returns tumbling windows: each begins where the one before it ends. Raises ``TopologyError`` for a size below
        1 ms."""
        size_ms = _milliseconds("TimeWindows", "size", size, least=1)
        return cls(size_ms, size_ms, _milliseconds("TimeWindows", "grace", grace, least=0))

    def advance_by(self, advance: Duration) -> TimeWindows:
        """Returns hopping windows: a window begins every ``advance``. Raises ``TopologyError`` for an advance below 1
        ms or above the size."""
        advance_ms = _milliseconds("TimeWindows", "advance", advance, least=1)
        if advance_ms > self.size_ms:
            raise TopologyError(
                f"TimeWindows: advance={advance_ms} ms is more than size={self.size_ms} ms; records fall between"
            )
        return replace(self, advance_ms=advance_ms)

    def starts_for(self, timestamp: int) -> Iterable[int]:
        """Returns the starts of all windows that a record belongs to, the earliest first. No window begins before 0."""
        first = max(0, timestamp - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return range(first, timestamp + 1, self.advance_ms)

    def windows_for(self, timestamp: int) -> Iterable[tuple[int, int]]:
        """Returns the windows that a timestamp belongs to, as pairs of their start and end."""
        return [(start, self.end_of(start)) for start in self.starts_for(timestamp)]

    @property
    def step_ms(self) -> int:
        """The milliseconds within which nothing changes: windows begin and end at multiples of it. 1 if that is less
        than a hundredth of the advance, as hardly two records would share a step."""
        step = gcd(self.size_ms, self.advance_ms)
        return step if 100 * step >= self.advance_ms else 1

    def first_alike(self, timestamp: int) -> int:
        """Returns the first timestamp of those around this one that belong to the same windows. Within an advance
        windows begin once, and end once."""
        begin = timestamp - timestamp % self.advance_ms
        end = begin + self.size_ms % self.advance_ms
        return end if timestamp >= end else begin

    def end_of(self, start: int) -> int:
        """Returns the end of the window that begins at ``start``; the end itself is outside."""
        return min(start + self.size_ms, MAX_TIMESTAMP)


@java_names("UnlimitedWindows")
@dataclass(frozen=True)
class UnlimitedWindows(Windows):
    """One window from a start on, without an end; records before the start belong to no window."""

    start_ms: int
    size_ms = advance_ms = MAX_TIMESTAMP
    grace_ms = 0

    @classmethod
    def of(cls) -> UnlimitedWindows:
        """Returns a window from 0 on."""
        return cls(0)

    def start_on(self, start: Duration) -> UnlimitedWindows:
        """Returns the same from another start, in milliseconds since 1970 (or a ``timedelta`` since then)."""
        return replace(self, start_ms=_milliseconds("UnlimitedWindows", "start", start, least=0))

    def starts_for(self, timestamp: int) -> Iterable[int]:
        """Returns the one start, for records that are not before it."""
        return (self.start_ms,) if timestamp >= self.start_ms else ()

    def windows_for(self, timestamp: int) -> Iterable[tuple[int, int]]:
        """Returns the window, with its start and end, for records that are not before it."""
        return [(start, MAX_TIMESTAMP) for start in self.starts_for(timestamp)]

    @property
    def step_ms(self) -> int:
        """The milliseconds within which nothing changes: the window begins at a multiple of it. 1 if there is none but
        that."""
        return 1 if self.start_ms else MAX_TIMESTAMP

    def first_alike(self, timestamp: int) -> int:
        """Returns the first timestamp of those around this one that belong to the same windows."""
        return self.start_ms if timestamp >= self.start_ms else 0

    def end_of(self, start: int) -> int:
        """Returns the highest timestamp there is, for the window has no end."""
        return MAX_TIMESTAMP


@java_names("SlidingWindows")
@dataclass(frozen=True)
class SlidingWindows:
    """Windows around records: two records are in one window if their timestamps differ by at most ``difference_ms``
    (KIP-450). Both ends of a window belong to it."""

    difference_ms: int
    grace_ms: int

    @classmethod
    def of(cls, time_difference: Duration, grace: Duration = 0) -> SlidingWindows:
        """Returns windows of ``time_difference``. Raises ``TopologyError`` for a negative duration."""
        return cls(
            _milliseconds("SlidingWindows", "time_difference", time_difference, least=0),
            _milliseconds("SlidingWindows", "grace", grace, least=0),
        )


@java_names("SessionWindows")
@dataclass(frozen=True)
class SessionWindows:
    """Sessions: records of a key whose timestamps are at most ``gap_ms`` apart are in one session (KIP-94)."""

    gap_ms: int
    grace_ms: int

    @classmethod
    def of(cls, inactivity_gap: Duration, grace: Duration = 0) -> SessionWindows:
        """Returns sessions that end after ``inactivity_gap``. Raises ``TopologyError`` for a gap below 1 ms."""
        return cls(
            _milliseconds("SessionWindows", "inactivity_gap", inactivity_gap, least=1),
            _milliseconds("SessionWindows", "grace", grace, least=0),
        )


@java_names("JoinWindows")
@dataclass(frozen=True)
class JoinWindows:
    """The distance that the timestamps of two records may have that join: the other record is at most ``before_ms``
    earlier and at most ``after_ms`` later."""

    before_ms: int
    after_ms: int
    grace_ms: int

    @classmethod
    def of(cls, time_difference: Duration, grace: Duration = 0) -> JoinWindows:
        """Returns windows in which the other record is at most ``time_difference`` away, in either direction."""
        difference = _milliseconds("JoinWindows", "time_difference", time_difference, least=0)
        return cls(difference, difference, _milliseconds("JoinWindows", "grace", grace, least=0))

    def before(self, time_difference: Duration) -> JoinWindows:
        """Returns the same with another bound for earlier records; it is negative if they must be later."""
        least = -self.after_ms
        return replace(self, before_ms=_milliseconds("JoinWindows", "before", time_difference, least=least))

    def after(self, time_difference: Duration) -> JoinWindows:
        """Returns the same with another bound for later records; it is negative if they must be earlier."""
        least = -self.before_ms
        return replace(self, after_ms=_milliseconds("JoinWindows", "after", time_difference, least=least))

    @property
    def size_ms(self) -> int:
        """The length of the whole interval."""
        return self.before_ms + self.after_ms


@dataclass(frozen=True)
class CountWindows:
    """Windows that hold ``size`` records of a key each, in the order in which they come. A window begins every
    ``advance`` records: they tumble, or hop if they overlap. Kafka Streams does not have these."""

    size: int
    advance: int

    @classmethod
    def of(cls, size: int) -> CountWindows:
        """Returns tumbling windows: each begins where the one before it is full. Raises ``TopologyError`` for a size
        below 1."""
        return cls(_records("size", size), size)

    def advance_by(self, advance: int) -> CountWindows:
        """Returns hopping windows: a window begins every ``advance`` records. Raises ``TopologyError`` for an advance
        below 1 or above the size."""
        if _records("advance", advance) > self.size:
            raise TopologyError(f"CountWindows: advance={advance} is more than size={self.size}; records fall between")
        return replace(self, advance=advance)


def _records(field: str, number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number < 1 << 31:
        raise TopologyError(f"CountWindows: {field}={number!r}; it is a number of records, at least 1")
    return number


class EmitStrategy(Enum, metaclass=JavaNamedEnum):
    """Says when a windowed aggregation sends its results downstream (KIP-825)."""

    WINDOW_UPDATE = "window_update"
    WINDOW_CLOSE = "window_close"

    @classmethod
    def on_window_update(cls) -> EmitStrategy:
        """Sends every update as it happens, which is the default."""
        return cls.WINDOW_UPDATE

    @classmethod
    def on_window_close(cls) -> EmitStrategy:
        """Sends only the final result, once stream time has passed the window's end and grace."""
        return cls.WINDOW_CLOSE


def require_windows(windows: object) -> None:
    """Raises ``TopologyError`` for anything else than a definition of windows."""
    if isinstance(windows, Windows):
        _milliseconds(type(windows).__name__, "size_ms", getattr(windows, "size_ms", None), least=1)
        _milliseconds(type(windows).__name__, "grace_ms", windows.grace_ms, least=0)
        return
    if isinstance(windows, (SlidingWindows, SessionWindows)):
        return
    raise TopologyError(
        f"windowed_by: {windows!r} is not a window definition; use TimeWindows.of(...), SlidingWindows.of(...), "
        "SessionWindows.of(...), UnlimitedWindows.of() or a subclass of Windows; CountWindows are for streams alone"
    )

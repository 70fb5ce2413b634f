"""``Suppressed``: when a table's updates may go on, and how much may wait meanwhile (KIP-328).

Plain immutable data, made by user code while a program is built.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

from streamsapp.dsl.names import validate_name
from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import java_names
from streamsapp.processor.api import Duration, duration_ms


@java_names("BufferConfig")
@dataclass(frozen=True)
class BufferConfig:
    """Says how much a suppression may hold, and what happens when it is full (KIP-328).

    ``None`` is no bound. A buffer that is full emits its oldest records early, or ends the application with an error,
    whichever is asked for. Bounds below 1 raise ``TopologyError``.
    """

    records: int | None = None
    bytes: int | None = None
    emits_early: bool = False
    logging: bool = True
    log_config: dict[str, str] = field(default_factory=dict)

    @classmethod
    def unbounded(cls) -> BufferConfig:
        """Returns a buffer that holds as much as memory takes."""
        return cls()

    @classmethod
    def max_records(cls, records: int) -> BufferConfig:
        """Returns a buffer that holds at most so many records; when it is full, the oldest are emitted early."""
        return cls(emits_early=True).with_max_records(records)

    @classmethod
    def max_bytes(cls, size: int) -> BufferConfig:
        """Returns a buffer that holds at most so many bytes of keys and values; when it is full, the oldest records are
        emitted early."""
        return cls(emits_early=True).with_max_bytes(size)

    def with_max_records(self, records: int) -> BufferConfig:
        """Returns the same with another bound of records."""
        return replace(self, records=_at_least_one("max_records", records))

    def with_max_bytes(self, size: int) -> BufferConfig:
        """Returns the same with another bound of bytes."""
        return replace(self, bytes=_at_least_one("max_bytes", size))

    def with_no_bound(self) -> BufferConfig:
        """Returns the same without bounds."""
        return replace(self, records=None, bytes=None, emits_early=False)

    def emit_early_when_full(self) -> BufferConfig:
        """Returns the same, emitting the oldest records early when the buffer is full."""
        return replace(self, emits_early=True)

    def shut_down_when_full(self) -> BufferConfig:
        """Returns the same, ending the application with an error when the buffer is full: no result is ever emitted
        early."""
        return replace(self, emits_early=False)

    def with_logging_disabled(self) -> BufferConfig:
        """Returns the same without a changelog: the updates that are held are lost when the task moves."""
        return replace(self, logging=False, log_config={})

    def with_logging_enabled(self, config: dict[str, str] | None = None) -> BufferConfig:
        """Returns the same with a changelog, which is the default; ``config`` holds topic settings on top of the usual
        ones."""
        return replace(self, logging=True, log_config=dict(config or {}))


def _at_least_one(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TopologyError(f"BufferConfig: {name}={value!r}; a buffer holds at least 1")
    return value


_Buffer: TypeAlias = BufferConfig


@java_names("Suppressed")
@dataclass(frozen=True)
class Suppressed:
    """Says when updates of a table may go on downstream, and how many may wait meanwhile (KIP-328)."""

    #: Milliseconds for which an update is held, by stream time; ``None`` until its window closes.
    time_limit_ms: int | None
    buffer: _Buffer
    name: str | None = None

    #: For users: ``Suppressed.BufferConfig.unbounded()``.
    BufferConfig: ClassVar[type[_Buffer]] = BufferConfig

    def __post_init__(self) -> None:
        if not isinstance(self.buffer, _Buffer):
            raise TopologyError(f"Suppressed: {self.buffer!r} is not a BufferConfig; see Suppressed.BufferConfig")
        if self.name is not None:
            validate_name(self.name)

    @classmethod
    def until_window_closes(cls, buffer: _Buffer | None = None) -> Suppressed:
        """Sends one final result per window, when stream time passes its end and grace.

        Raises ``TopologyError`` for a buffer that emits early, for then a result would not be final.
        """
        config = buffer or BufferConfig.unbounded()
        if isinstance(config, BufferConfig) and config.emits_early:
            raise TopologyError(
                "Suppressed.until_window_closes: its buffer must not emit early; use BufferConfig.unbounded() "
                "or .shut_down_when_full()"
            )
        return cls(None, config)

    @classmethod
    def until_time_limit(cls, time_to_wait: Duration, buffer: _Buffer | None = None) -> Suppressed:
        """Sends at most one update per key and ``time_to_wait`` of stream time (a ``timedelta`` or milliseconds): the
        latest one when the time is over. Raises ``TopologyError`` for a negative time."""
        limit = duration_ms(time_to_wait)
        if limit < 0:
            raise TopologyError(f"Suppressed.until_time_limit: time_to_wait must not be negative, got {limit} ms")
        return cls(limit, buffer or BufferConfig.unbounded())

    def with_name(self, name: str) -> Suppressed:
        """Names the node, and with it the buffer's changelog."""
        return replace(self, name=name)

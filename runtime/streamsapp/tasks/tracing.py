"""Traces of records, where the configuration wants them.

Asked when tasks are assembled and wired, on the polling thread. Without traces nothing is in the way of a record, and
OpenTelemetry is not imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import ConfigError
from streamsapp.outgoing import OutputRecord
from streamsapp.processor.operator import Push
from streamsapp.tasks.task_context import TaskContext


class Tracing(Protocol):
    """The spans of one task."""

    def source(self, push: Push) -> Push:
        """Returns the function in whose span a source pushes a record on."""
        ...

    def emit(self, emit: Callable[[OutputRecord], None]) -> Callable[[OutputRecord], None]:
        """Returns the function that sends a record with the trace in its headers."""
        ...


def tracing_of(context: TaskContext, config: StreamsConfig) -> Tracing | None:
    """Returns the spans of a task; ``None`` unless they are wanted. Raises ``ConfigError`` if OpenTelemetry, or an
    exporter that the environment names, is not installed."""
    if not config.tracing:
        return None
    try:
        from streamsapp.tasks.open_telemetry import OpenTelemetry
    except ModuleNotFoundError as error:
        raise ConfigError(f"tracing: {error.name} is not installed: pip install 'streamsapp[tracing]'") from error
    return OpenTelemetry(context)

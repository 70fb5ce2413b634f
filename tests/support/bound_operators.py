"""Operators that are bound to a context of this file, which keeps what they forward.

Used by tests of operators alone, without a task.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from streamsapp.processor.api import ProcessorContext
from streamsapp.processor.async_calls import TaskCalls
from streamsapp.processor.operator import LateAnswer, Operator, Push, Reason, Tally
from streamsapp.record import Headers, InputRecord
from streamsapp.serdes.api import AnySerde, DefaultSerdes
from streamsapp.serdes.serdes import Serdes


class MemoryStore:
    """A store's fast protocol over a dictionary, keeping objects as they are."""

    cells = None

    def __init__(self) -> None:
        self.entries: dict[bytes, tuple[Any, int]] = {}

    def key_bytes(self, key: str) -> bytes:
        return key.encode()

    def deleted_at(self, key: str) -> int:
        raise AssertionError(f"{key} is not deleted")

    def read(self, key: bytes) -> tuple[Any, int]:
        return self.entries.get(key, (None, -1))

    def write(self, key: bytes, stored: Any, timestamp: int) -> None:
        self.entries.pop(key, None)
        if stored is not None:
            self.entries[key] = (stored, timestamp)

    def to_stored(self, key: str, value: Any, unless_changed: Any = None) -> Any:
        return value

    def from_stored(self, stored: Any) -> Any:
        return stored

    raw = from_stored

    def writes_as(self, key_serde: AnySerde, value_serde: AnySerde) -> bool:
        return False


class Context:
    """The context that an operator is bound to; keeps what it forwards."""

    node_name = "node"

    def __init__(self) -> None:
        self.forwarded: list[tuple[Any, Any, int]] = []
        self.errors: list[str] = []
        self.drops: list[Reason] = []
        self.kept = MemoryStore()
        self.calls = TaskCalls(None)

    @property
    def forward(self) -> Push:
        return lambda key, value, timestamp, headers: self.forwarded.append((key, value, timestamp))

    def child(self, name: str) -> Push:
        return self.forward

    def store(self, name: str) -> MemoryStore:
        return self.kept

    def on_error(self, error: Exception, key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        self.errors.append(str(error))

    def warn(self, text: str) -> None:
        raise NotImplementedError

    def timed(self, push: Push) -> Push:
        raise NotImplementedError

    def of_row(self, compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any, int], Any]:
        raise NotImplementedError

    def dropped(self, reason: Reason) -> None:
        self.drops.append(reason)

    def outdated(self) -> None:
        raise NotImplementedError

    record: InputRecord | None = None
    record_is_read = False

    def counter(self, metric: str) -> Tally:
        return Tally()

    @property
    def processor_metadata(self) -> dict[str, int]:
        return {}

    def keep_stream_time(self, observed: Callable[[], int]) -> int | None:
        return None

    @property
    def late_answers(self) -> dict[str, LateAnswer] | None:
        return None

    @property
    def emit_interval_ms(self) -> int:
        return 0

    combines = True
    without_caches = False

    default_serdes = DefaultSerdes(Serdes.string(), Serdes.json())

    @property
    def processor_context(self) -> ProcessorContext:
        return cast(ProcessorContext, SimpleNamespace(application_id="app"))

    def take(self) -> list[tuple[Any, Any, int]]:
        taken, self.forwarded = self.forwarded, []
        return taken


def bound(operator: Operator) -> tuple[Context, Callable[[Any, Any, int], None]]:
    context = Context()
    operator.start(context)
    push = operator.bind(context)
    return context, lambda key, value, timestamp: push(key, value, timestamp, None)


def drain(operator: Operator, context: Context, limit: int = 1000) -> None:
    while operator.emit_held(context, limit):
        """Another slice."""

"""Parts of the compiled runtime that are made with what a test says of them, and with something for the rest.

``path`` is ``streamsapp.native``, or another one with its names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from streamsapp import native
from streamsapp.dsl.operators.stateless import StepKind


def raising(error: Exception, *record: object) -> None:
    """Handles an error by raising it."""
    raise error


def step(path: ModuleType, **given: Any) -> Any:
    made: dict[str, Any] = {
        "kind": StepKind.MAP_VALUES,
        "function": str,
        "adapt": None,
        "forward": print,
        "on_error": raising,
    }
    return path.Step(**made | given)


def sink(path: ModuleType, **given: Any) -> Any:
    made: dict[str, Any] = {
        "topic": "out",
        "serialize_key": bytes,
        "serialize_value": bytes,
        "check_headers": bool,
        "emit": print,
        "on_error": raising,
        "plain_sink": None,
    }
    return path.Sink(**made | given)


@dataclass(slots=True)
class Standing:
    """The part of a task's context that a loop writes."""

    message: Any = None
    stream_time: int = -1


@dataclass(slots=True)
class Due:
    """The time at which a callback is due."""

    next_due: float = math.inf


def input_of(path: ModuleType, buffer: Any, **given: Any) -> Any:
    made: dict[str, Any] = {
        "buffer": buffer,
        "push": print,
        "deserialize_key": None,
        "deserialize_value": None,
        "extract": lambda *record: -1,
        "on_error": raising,
        "apply": None,
    }
    return path.Input(**made | given)


def loop(path: ModuleType, *inputs: Any, **given: Any) -> Any:
    made: dict[str, Any] = {"inputs": list(inputs), "context": Standing(), "punctuate": list}
    return path.Loop(**made | given)


def _counting(given: dict[str, Any]) -> dict[str, Any]:
    """The fields that push functions that count have in common. ``noted`` is a list and a dictionary."""
    noted, noted_headers = given.pop("noted", None) or (None, None)
    made: dict[str, Any] = {
        "serialize_key": bytes,
        "on_error": raising,
        "dropped": bool,
        "topic": None,
        "emit": None,
        "noted": noted,
        "noted_headers": noted_headers,
    }
    return made | given


def count_push(path: ModuleType, **given: Any) -> Any:
    return path.CountPush(**{"forward": None} | _counting(given))


def window_push(path: ModuleType, **given: Any) -> Any:
    """A function gives its windows, or they are always the same."""
    windows = given.pop("windows", ())
    made: dict[str, Any] = {
        "segments": None,
        "windows_of": lambda step: windows,
        "step_ms": 1,
        "grace_ms": 0,
        "late": bool,
        "tell": None,
        "stream_time": path.StreamTime(),
    }
    return path.WindowPush(**made | _counting(given))


def record(path: ModuleType, **given: Any) -> Any:
    made = {"topic": "t", "partition": 0, "offset": 0, "key": None, "value": None, "timestamp": 0, "headers": None}
    return path.Record(**made | given)


def chunk(path: ModuleType, **given: Any) -> native.Chunk:
    common = {"topic": "t", "partition": 0, "position": 0, "aborted": [], "decompress": bytes}
    made: native.Chunk = path.Chunk(**common | given)
    return made

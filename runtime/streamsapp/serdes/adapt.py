"""Accepts a serde or a plain callable wherever a topology takes serializers and deserializers.

Called by the topology builder, on the thread that builds the topology.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from streamsapp.errors import TopologyError
from streamsapp.serdes.api import AnySerde, Serde

#: A user gives this to read a topic: a serde, or a function of bytes.
Deserializing: TypeAlias = AnySerde | Callable[[bytes], Any] | None

#: A user gives this to write a topic: a serde, or a function to bytes.
Serializing: TypeAlias = AnySerde | Callable[[Any], bytes] | None


def _cannot_serialize(value: Any) -> NoReturn:
    raise TypeError("only a deserializer was given here; give a serde to write as well, e.g. Serdes.of(...)")


def _cannot_deserialize(data: bytes) -> NoReturn:
    raise TypeError("only a serializer was given here; give a serde to read as well, e.g. Serdes.of(...)")


def as_deserializer(given: Deserializing, field: str) -> AnySerde | None:
    """The serde behind ``given``; ``None`` (the configured default) stays ``None``."""
    if given is None or isinstance(given, Serde):
        return given
    if callable(given):
        return Serde(serialize=_cannot_serialize, deserialize=given)
    raise _not_usable(given, field, "bytes")


def as_serializer(given: Serializing, field: str) -> AnySerde | None:
    """The serde behind ``given``; ``None`` (the configured default) stays ``None``."""
    if given is None or isinstance(given, Serde):
        return given
    if callable(given):
        return Serde(serialize=given, deserialize=_cannot_deserialize)
    raise _not_usable(given, field, "a value")


def _not_usable(given: object, field: str, argument: str) -> TopologyError:
    return TopologyError(f"{field} must be a serde or a function of {argument}, got {type(given).__name__}")

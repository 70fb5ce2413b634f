"""``Windowed`` keys and their bytes in topics.

Windowed aggregations put these keys on records; the serdes run on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from struct import Struct
from typing import Any, Generic, NamedTuple, TypeVar

from streamsapp.java_names.lookup import java_names
from streamsapp.serdes.api import AnySerde, PlainForm, Serde
from streamsapp.serdes.wrapping import WrappingSerde

K = TypeVar("K")

#: The end of a window without end, as Kafka Streams writes it.
MAX_TIMESTAMP = (1 << 63) - 1
_new_tuple = tuple.__new__
_TIME_WINDOWED = "time_windowed"
_LONG = Struct(">q")
_TWO_LONGS = Struct(">qq")
_pack_long, _pack_two_longs = _LONG.pack, _TWO_LONGS.pack


@java_names("Windowed")
class Windowed(NamedTuple, Generic[K]):
    """A key within a window, ``start_ms`` inclusive; ``end_ms`` is exclusive for time windows and inclusive for session
    windows."""

    key: K
    start_ms: int
    end_ms: int

    def __str__(self) -> str:
        return f"[{self.key}@{self.start_ms}/{self.end_ms}]"


def windowed(key: K, start_ms: int, end_ms: int) -> Windowed[K]:
    """Returns ``Windowed(key, start_ms, end_ms)`` in half the time, for operators that make one per record."""
    return _new_tuple(Windowed, (key, start_ms, end_ms))


def time_windowed(
    inner: Serde[K], size: int | timedelta, end_of: Callable[[int], int] | None = None
) -> Serde[Windowed[K]]:
    """Keys of time windows: ``key ‖ start``. The end is not written, so the reader has to know the windows' size, or
    ``end_of`` the start."""
    size_ms = size // timedelta(milliseconds=1) if isinstance(size, timedelta) else size
    if size_ms < 1:
        raise ValueError(f"the size of a time window must be at least 1 ms, got {size_ms}")

    serialize_key, deserialize_key = inner.serialize, inner.deserialize

    def serialize(windowed: Windowed[K]) -> bytes:
        key, start_ms, _ = windowed if windowed.__class__ is Windowed else _checked(windowed)
        return serialize_key(key) + _pack_long(start_ms)

    def deserialize(data: bytes) -> Windowed[K]:
        if len(data) < 8:
            raise ValueError(f"a time-windowed key ends with 8 bytes of window start, got {len(data)} bytes in all")
        (start_ms,) = _LONG.unpack_from(data, len(data) - 8)
        end_ms = start_ms + size_ms if end_of is None else end_of(start_ms)
        return Windowed(deserialize_key(data[:-8]), start_ms, min(end_ms, MAX_TIMESTAMP))

    def build(bound: Serde[K]) -> Serde[Windowed[K]]:
        return time_windowed(bound, size_ms, end_of)

    plain = _plain_form(inner)
    return WrappingSerde(
        serialize,
        deserialize,
        inner.immutable,
        _TIME_WINDOWED,
        plain=plain,
        id_header=inner.id_header,
        inner=inner,
        build=build,
    )


def time_windowed_inner(serde: AnySerde) -> AnySerde | None:
    """Returns the serde of the keys within, of a serde that :func:`time_windowed` made; ``None`` of any other."""
    return serde.inner if isinstance(serde, WrappingSerde) and serde.name == _TIME_WINDOWED else None


def session_windowed(inner: Serde[K]) -> Serde[Windowed[K]]:
    """Keys of session windows: ``key ‖ end ‖ start``."""
    serialize_key, deserialize_key = inner.serialize, inner.deserialize

    def serialize(windowed: Windowed[K]) -> bytes:
        key, start_ms, end_ms = windowed if windowed.__class__ is Windowed else _checked(windowed)
        return serialize_key(key) + _pack_two_longs(end_ms, start_ms)

    def deserialize(data: bytes) -> Windowed[K]:
        if len(data) < 16:
            raise ValueError(f"a session-windowed key ends with 16 bytes of bounds, got {len(data)} bytes in all")
        end_ms, start_ms = _TWO_LONGS.unpack_from(data, len(data) - 16)
        return Windowed(deserialize_key(data[:-16]), start_ms, end_ms)

    name, plain = "session_windowed", _plain_form(inner)
    return WrappingSerde(
        serialize,
        deserialize,
        inner.immutable,
        name,
        plain=plain,
        id_header=inner.id_header,
        inner=inner,
        build=session_windowed,
    )


def _plain_form(inner: Serde[K]) -> PlainForm:
    """``{"key": ..., "start": ..., "end": ...}``, times in milliseconds."""

    def read(plain: Any) -> Windowed[K]:
        if not isinstance(plain, dict) or plain.keys() != {"key", "start", "end"}:
            raise ValueError('a windowed key is written {"key": ..., "start": ..., "end": ...}, in milliseconds')
        return Windowed(inner.from_plain(plain["key"]), plain["start"], plain["end"])

    def show(windowed: Windowed[K]) -> dict[str, Any]:
        return {"key": inner.to_plain(windowed.key), "start": windowed.start_ms, "end": windowed.end_ms}

    return PlainForm(read, show)


def _checked(windowed: Windowed[K]) -> Windowed[K]:
    if not isinstance(windowed, Windowed):
        raise TypeError(f"got {type(windowed).__name__}, expected Windowed(key, start_ms, end_ms)")
    return windowed

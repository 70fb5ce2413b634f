"""Changes of a table's rows as they travel through repartition topics (KIP-904): ``(new, old)`` in one value.

Used where a grouped table repartitions; runs on processing threads. The last byte gives the layout::

    old ‖ 00        new ‖ 01        varint(len(new)) ‖ new ‖ old ‖ 02

03, 04 and 05 are the same with one more byte (0 or 1) before the last, which other versions write.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from streamsapp.serdes.api import Serde, T
from streamsapp.serdes.wrapping import WrappingSerde

#: ``(new value, old value)``; at least one of them is not ``None``.
Change: TypeAlias = tuple[T | None, T | None]

_OLD, _NEW, _BOTH = 0, 1, 2
_WITH_LATEST = 3


def change_serde(inner: Serde[T]) -> Serde[Change[T]]:
    """Changes of ``inner``'s values."""
    serialize_value, deserialize_value = inner.serialize, inner.deserialize

    def serialize(change: Change[T]) -> bytes:
        new, old = change
        if old is None:
            if new is None:
                raise ValueError("a change needs a new or an old value, both are None")
            return serialize_value(new) + b"\x01"
        if new is None:
            return serialize_value(old) + b"\x00"
        new_bytes = serialize_value(new)
        return _varint(len(new_bytes)) + new_bytes + serialize_value(old) + b"\x02"

    def deserialize(data: bytes) -> Change[Any]:
        layout, body = _split_layout(data)
        if layout == _NEW:
            return deserialize_value(body), None
        if layout == _OLD:
            return None, deserialize_value(body)
        start, size = _read_varint(body)
        end = start + size
        if size < 0 or end > len(body):
            raise ValueError(f"a change announces a new value of {size} bytes, only {len(body) - start} follow")
        return deserialize_value(body[start:end]), deserialize_value(body[end:])

    return WrappingSerde(serialize, deserialize, inner.immutable, "change", inner=inner, build=change_serde)


def _split_layout(data: bytes) -> tuple[int, bytes]:
    """The layout (old, new or both) and the bytes it describes."""
    layout = data[-1] if data else None
    if layout in (_OLD, _NEW, _BOTH):
        return layout, data[:-1]
    if layout is None or layout > _BOTH + _WITH_LATEST or len(data) < 2:
        raise ValueError(f"a change ends with a byte from 00 to 05, got {data[-2:].hex(' ') or 'nothing'}")
    if data[-2] > 1:
        raise ValueError(f"a change of layout {layout:02x} has 00 or 01 before it, got {data[-2]:02x}")
    return layout - _WITH_LATEST, data[:-2]


def _varint(value: int) -> bytes:
    """Zig-zag variable-length encoding of a length."""
    rest = value << 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _read_varint(data: bytes) -> tuple[int, int]:
    """Returns the position after the varint, and its value."""
    raw = 0
    for index, byte in enumerate(data[:5]):
        raw |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return index + 1, (raw >> 1) ^ -(raw & 1)
    raise ValueError("a change with both values starts with a length of at most 5 bytes, none was found")

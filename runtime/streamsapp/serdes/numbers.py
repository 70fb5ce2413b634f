"""Numbers as Java's ``ByteBuffer`` writes them: big-endian, of fixed size.

The serdes run on processing threads, for every record.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamsapp.native import NumberReader, NumberWriter
from streamsapp.serdes.api import Serde, T
from streamsapp.serdes.suggestion import wrong_type

#: Layouts of ``struct`` that take whole numbers.
_INTEGERS = "hiq"


@dataclass(frozen=True)
class FixedSizeSerde(Serde[T]):
    """A serde whose values all take ``size`` bytes; lists leave out the length of such values."""

    size: int = field(kw_only=True)


def number_serde(name: str, layout: str) -> FixedSizeSerde[Any]:
    """The serde of the number that ``struct`` knows as ``layout``."""
    codec = struct.Struct(layout)
    pack, unpack = codec.pack, codec.unpack

    def serialize(value: Any) -> bytes:
        try:
            return pack(value)
        except (struct.error, OverflowError) as error:
            raise _unfit(name, value, error) from None

    def deserialize(data: bytes) -> Any:
        try:
            (value,) = unpack(data)
        except struct.error:
            raise ValueError(f"{name} takes {codec.size} bytes, got {len(data)}") from None
        return value

    exact = float if layout[-1] == "d" else None

    def checked(value: Any) -> Any:
        # State keeps what it would read back: a number of another type or precision would change on its way.
        return value if value.__class__ is exact else unpack(serialize(value))[0]

    highest = (1 << 8 * codec.size - 1) - 1
    bounds = (-highest - 1, highest) if layout[-1] in _INTEGERS else None
    write: Callable[[Any], bytes] = serialize
    read: Callable[[bytes], Any] = deserialize
    if bounds is not None:
        write = NumberWriter(size=codec.size, otherwise=serialize)
        read = NumberReader(size=codec.size, otherwise=deserialize)
    return FixedSizeSerde(write, read, True, name, checked, bounds, size=codec.size)


def whole_number_size(serialize: Callable[[Any], bytes]) -> int:
    """Returns in how many bytes a function of :func:`number_serde` writes whole numbers, the highest first; 0 for any
    other function, as that of a serde made from one of ours may write them otherwise."""
    return serialize.size if isinstance(serialize, NumberWriter) else 0


def _unfit(name: str, value: Any, error: Exception) -> Exception:
    if isinstance(value, int | float):
        return ValueError(f"{value!r} does not fit {name}: {error}")
    return wrong_type(value, name)

"""Numbers as Java's ``ByteBuffer`` writes them: big-endian, of fixed size.

The serdes run on processing threads, for every record.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from streamsapp.serdes.api import Serde, T

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

    highest = (1 << 8 * codec.size - 1) - 1
    bounds = (-highest - 1, highest) if layout[-1] in _INTEGERS else None
    return FixedSizeSerde(serialize, deserialize, immutable=True, name=name, bounds=bounds, size=codec.size)


def _unfit(name: str, value: Any, error: Exception) -> Exception:
    if isinstance(value, int | float):
        return ValueError(f"{value!r} does not fit {name}: {error}")
    return TypeError(f"got {type(value).__name__}, the serde is {name}; declare the serde of your values")

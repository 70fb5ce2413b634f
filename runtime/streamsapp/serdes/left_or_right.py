"""Values of either side of a join: one byte, 1 for the left side, and the value.

In the store of outer joins of two streams. Built with the topology; runs on processing threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from streamsapp.serdes.api import AnySerde, DefaultSerdes, Serde

_LEFT, _RIGHT = b"\x01", b"\x00"


@dataclass(frozen=True)
class LeftOrRightSerde(Serde[tuple[bool, Any]]):
    """Serialises ``(is_left, value)``; a side whose serde is not known has the configured default's."""

    left: AnySerde | None = None
    right: AnySerde | None = None

    def bind(self, topic: str, is_key: bool) -> Serde[tuple[bool, Any]]:
        left, right = (None if side is None else side.bind(topic, is_key) for side in (self.left, self.right))
        return left_or_right_serde(left, right)

    def or_default(self, defaults: DefaultSerdes) -> Serde[tuple[bool, Any]]:
        return left_or_right_serde(self.left or defaults.value, self.right or defaults.value)


def left_or_right_serde(left: AnySerde | None, right: AnySerde | None) -> LeftOrRightSerde:
    """The serde for values of two streams."""
    if left is None or right is None:
        return replace(_UNKNOWN, left=left, right=right)
    serialize_left, serialize_right = left.serialize, right.serialize
    deserialize_left, deserialize_right = left.deserialize, right.deserialize

    def serialize(sided: tuple[bool, Any]) -> bytes:
        is_left, value = sided
        return _LEFT + serialize_left(value) if is_left else _RIGHT + serialize_right(value)

    def deserialize(data: bytes) -> tuple[bool, Any]:
        side = data[:1]
        if side == _LEFT:
            return True, deserialize_left(data[1:])
        if side == _RIGHT:
            return False, deserialize_right(data[1:])
        raise ValueError(
            f"a value of a join begins with 00 (right side) or 01 (left side), got {side.hex() or 'nothing'}"
        )

    return LeftOrRightSerde(serialize, deserialize, name="sides", left=left, right=right)


def _unknown(value: Any) -> Any:
    raise TypeError("the serdes of the join's values are not known yet")


_UNKNOWN = LeftOrRightSerde(_unknown, _unknown, name="sides")

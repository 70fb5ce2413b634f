"""Lists as Kafka's ``ListSerde`` writes them.

Variable-size values: ``01 ‖ count ‖ (length ‖ bytes | -1)…``. Fixed-size values (numbers, UUIDs) go without lengths:
``00 ‖ count of nulls ‖ their indices… ‖ count ‖ bytes…``. The serde runs on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from streamsapp.serdes.api import PlainForm, Serde, T
from streamsapp.serdes.numbers import FixedSizeSerde
from streamsapp.serdes.wrapping import WrappingSerde

_CONSTANT_SIZE = 0
_VARIABLE_SIZE = 1
_NULL = b"\xff\xff\xff\xff"
_INT = Struct(">i")


def list_serde(inner: Serde[T]) -> Serde[list[T | None]]:
    """Lists of ``inner``'s values; ``None`` is an allowed element."""
    size = inner.size if isinstance(inner, FixedSizeSerde) else None
    encode = _encode_variable if size is None else _encode_constant
    serialize_item, deserialize_item = inner.serialize, inner.deserialize

    def serialize(values: list[T | None]) -> bytes:
        if not isinstance(values, list | tuple):
            raise TypeError(f"got {type(values).__name__}, the serde is list_")
        return encode(values, serialize_item)

    def deserialize(data: bytes) -> list[T | None]:
        return _Reader(data).items(size, deserialize_item)

    def read(plain: Any) -> list[T | None]:
        if not isinstance(plain, list):
            raise TypeError(f"got {type(plain).__name__}, the serde is list_")
        return [None if each is None else inner.from_plain(each) for each in plain]

    def show(values: list[T | None]) -> list[Any]:
        return [None if each is None else inner.to_plain(each) for each in values]

    plain = PlainForm(read, show)
    return WrappingSerde(serialize, deserialize, name="list_", plain=plain, inner=inner, build=list_serde)


def _encode_variable(values: Any, serialize_item: Callable[[Any], bytes]) -> bytes:
    parts = [bytes((_VARIABLE_SIZE,)), _INT.pack(len(values))]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            item = serialize_item(value)
            parts += (_INT.pack(len(item)), item)
    return b"".join(parts)


def _encode_constant(values: Any, serialize_item: Callable[[Any], bytes]) -> bytes:
    nulls = [index for index, value in enumerate(values) if value is None]
    header = (bytes((_CONSTANT_SIZE,)), *map(_INT.pack, (len(nulls), *nulls, len(values))))
    return b"".join((*header, *(serialize_item(value) for value in values if value is not None)))


class _Reader:
    """Reads one list, front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def items(self, fixed_size: int | None, deserialize_item: Callable[[bytes], Any]) -> list[Any]:
        layout = self._take(1)[0]
        if layout == _VARIABLE_SIZE:
            return [self._item(self._int(), deserialize_item) for _ in range(self._count())]
        if layout != _CONSTANT_SIZE:
            raise ValueError(f"a list starts with 00 or 01, got {layout:02x}")
        if fixed_size is None:
            raise ValueError("the list was written with values of fixed size (numbers or UUIDs), the serde's are not")
        nulls = {self._int() for _ in range(self._count())}
        return [self._item(-1 if i in nulls else fixed_size, deserialize_item) for i in range(self._count())]

    def _item(self, size: int, deserialize_item: Callable[[bytes], Any]) -> Any:
        return None if size == -1 else deserialize_item(self._take(size))

    def _count(self) -> int:
        count = self._int()
        if count < 0:
            raise ValueError(f"a list cannot hold {count} values")
        return count

    def _int(self) -> int:
        value: int = _INT.unpack(self._take(4))[0]
        return value

    def _take(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if size < 0 or self._at > len(self._data):
            raise ValueError(f"the list is cut off: {size} bytes expected at byte {start} of {len(self._data)}")
        return self._data[start : self._at]

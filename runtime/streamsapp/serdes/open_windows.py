"""The windows of a key that wait for more records, as the stores of count windows keep them.

Per window ``records (4 bytes) ‖ start (8) ‖ end (8) ‖ length of the aggregate, or -1 (4) ‖ aggregate``. The serde runs
on processing threads.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from streamsapp.serdes.api import AnySerde, PlainForm, Serde
from streamsapp.serdes.wrapping import WrappingSerde

_HEAD = Struct(">IqqI")
_NONE = 0xFFFFFFFF


class OpenWindow(NamedTuple):
    """A window with so many records, the lowest and the highest of their timestamps, and their aggregate."""

    records: int
    start_ms: int
    end_ms: int
    aggregate: Any


def open_windows(inner: AnySerde) -> Serde[list[OpenWindow]]:
    """Lists of windows whose aggregates ``inner`` writes."""
    serialize_aggregate, deserialize_aggregate = inner.serialize, inner.deserialize

    def serialize(windows: list[OpenWindow]) -> bytes:
        parts: list[bytes] = []
        for records, start_ms, end_ms, aggregate in windows:
            data = None if aggregate is None else serialize_aggregate(aggregate)
            parts.append(_HEAD.pack(records, start_ms, end_ms, _NONE if data is None else len(data)))
            parts.append(data or b"")
        return b"".join(parts)

    def deserialize(data: bytes) -> list[OpenWindow]:
        windows, at = [], 0
        while at < len(data):
            if at + _HEAD.size > len(data):
                raise ValueError("the windows of a key end in the middle of one")
            records, start_ms, end_ms, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            end = at if length == _NONE else at + length
            if end > len(data):
                raise ValueError("the windows of a key end in the middle of an aggregate")
            aggregate = None if length == _NONE else deserialize_aggregate(data[at:end])
            windows.append(OpenWindow(records, start_ms, end_ms, aggregate))
            at = end
        return windows

    def show(windows: list[OpenWindow]) -> list[dict[str, Any]]:
        return [
            {**each._asdict(), "aggregate": None if each.aggregate is None else inner.to_plain(each.aggregate)}
            for each in windows
        ]

    def read(plain: Any) -> list[OpenWindow]:
        raise ValueError("windows that wait for more records are not written as JSON")

    return WrappingSerde(
        serialize, deserialize, name="open_windows", plain=PlainForm(read, show), inner=inner, build=open_windows
    )

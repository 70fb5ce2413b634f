"""The bytes of entries."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from streamsapp import Serdes
from streamsapp.serdes.api import Serde
from streamsapp.state.entries import Cell, TimestampedFormat, kept_key


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (Serdes.long(), 7),
        (Serdes.long(), -(1 << 63)),
        (Serdes.long(), (1 << 63) - 1),
        (Serdes.integer(), -7),
        (Serdes.double(), 7.5),
        (Serdes.string(), "seven"),
    ],
)
@pytest.mark.parametrize("timestamp", [0, -1, 1_700_000_000_000])
def test_rocksdb_has_the_time_before_the_value_that_the_changelog_has(
    serde: Serde[Any], value: Any, timestamp: int
) -> None:
    form = TimestampedFormat(serde)
    stored = form.to_stored(value)
    expected = struct.pack(">q", timestamp) + serde.serialize(value)

    cell: Any = Cell.of(stored, timestamp, 0)
    assert form.physical((stored, timestamp)) == form.physical(cell) == expected
    assert form.entry(expected) == (stored, timestamp)


@pytest.mark.parametrize(
    "kept",
    [
        kept_key(Serdes.json()),
        TimestampedFormat(Serdes.json()).to_stored,
        TimestampedFormat(Serde(orjson.dumps, orjson.loads, name="of a user")).to_stored,
        TimestampedFormat(Serdes.msgpack()).to_stored,
    ],
)
@pytest.mark.parametrize("size", [10, 5_000])
def test_what_is_kept_takes_no_more_memory_than_it_has_bytes(kept: Callable[[Any], bytes], size: int) -> None:
    """Of a store's entries as many are kept as fit its share of the memory, by their sizes."""
    values = ["x" * size + str(number) for number in range(200)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        entries = [kept(value) for value in values]
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken <= len(entries) * (size + 100)

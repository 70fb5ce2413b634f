"""The bytes of entries."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from streamsapp import Serdes
from streamsapp.serdes.api import Serde
from streamsapp.state.entries import Cell, TimestampedFormat


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

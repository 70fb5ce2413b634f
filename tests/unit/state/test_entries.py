"""The bytes of entries."""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import Any

import pytest

from streamsapp import Serdes
from streamsapp.serdes.api import Serde
from streamsapp.state.engine.entries import TimestampedFormat


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

    assert form.physical((stored, timestamp)) == expected
    assert form.entry(expected) == (stored, timestamp)


#: Says how many bytes so many values take that are kept in a form.
MEASURED = """
import sys, tracemalloc
import orjson
from streamsapp import Serdes
from streamsapp.serdes.api import Serde
from streamsapp.state.engine.entries import TimestampedFormat, kept_key

form, size, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
kept = {
    "key": kept_key(Serdes.json()),
    "json": TimestampedFormat(Serdes.json()).to_stored,
    "json of a user": TimestampedFormat(Serde(orjson.dumps, orjson.loads, name="of a user")).to_stored,
    "msgpack": TimestampedFormat(Serdes.msgpack()).to_stored,
}[form]
values = ["x" * size + str(number) for number in range(count)]
tracemalloc.start()
before = tracemalloc.get_traced_memory()[0]
entries = [kept(value) for value in values]
print(tracemalloc.get_traced_memory()[0] - before)
"""


@pytest.mark.parametrize("form", ["key", "json", "json of a user", "msgpack"])
@pytest.mark.parametrize("size", [10, 5_000])
def test_what_is_kept_takes_no_more_memory_than_it_has_bytes(form: str, size: int) -> None:
    """Of a store's entries as many are kept as fit its share of the memory, by their sizes.

    Measured in a process of its own: while threads of clients call back, tracemalloc may crash the interpreter."""
    told = subprocess.run(
        [sys.executable, "-c", MEASURED, form, str(size), "200"], capture_output=True, text=True, check=True
    )

    assert 200 * size < int(told.stdout) <= 200 * (size + 100)

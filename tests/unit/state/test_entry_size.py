"""An estimate of what entries take follows what is written, and costs little where it is asked for often."""

from __future__ import annotations

from typing import Any

from streamsapp.state.engine.entries import LoggedEntry
from streamsapp.state.engine.epoch import Epoch
from streamsapp.state.kinds.buffered_record import Buffered
from streamsapp.state.layers.entry_size import _AGAIN, EntrySize


class CountedEpoch(Epoch):
    """Counts how often its writes are looked at."""

    looks = 0

    def writes(self) -> Any:
        self.looks += 1
        return super().writes()


def write(epoch: Epoch, count: int, size: int) -> None:
    for _ in range(count):
        epoch[b"key%d" % len(epoch)] = (b"v" * size, 0)


def test_the_estimate_comes_close_to_the_size_of_entries_while_they_are_written() -> None:
    size, epoch = EntrySize(), Epoch()
    for _ in range(60):
        write(epoch, 10, 100_000)
        size.of(epoch)

    assert 95_000 < size.bytes < 105_000


def test_writes_are_looked_at_when_they_are_a_quarter_more_or_begin_anew() -> None:
    size, epoch = EntrySize(), CountedEpoch()
    write(epoch, 100, 10)
    for _ in range(10):
        size.of(epoch)
    assert epoch.looks == 1
    write(epoch, 50, 10)
    size.of(epoch)
    assert epoch.looks == 2

    later = CountedEpoch()
    write(later, 20, 10)
    size.of(later)
    assert later.looks == 1


def test_entries_that_grow_are_noticed_though_no_more_of_them_come() -> None:
    size, epoch = EntrySize(), CountedEpoch()
    write(epoch, 5, 10)
    size.of(epoch)
    before = size.bytes
    for key in [key for key, _ in epoch.writes()]:
        epoch[key] = (b"v" * 1_000_000, 0)
    for _ in range(_AGAIN):
        size.of(epoch)

    assert size.bytes > before + 400_000


def test_no_writes_change_nothing() -> None:
    size = EntrySize()
    before = size.bytes

    assert [size.of(Epoch()) for _ in range(2 * _AGAIN)] == [before] * 2 * _AGAIN


def test_a_cell_takes_the_same_whatever_its_count_is() -> None:
    size, epoch = EntrySize(in_cells=True), Epoch({b"k" * 40: (1 << 62, 0), b"l" * 40: (None, 0)}.items())
    for _ in range(60):
        size.sample(epoch)

    assert abs(size.bytes - 260) <= 2


def test_the_parts_of_a_buffered_record_and_headers_that_are_logged_are_counted() -> None:
    large = b"v" * 100_000
    entries: list[Any] = [
        (Buffered(0, None, None, large, 0, "t", 0, 0, None), -1),
        (Buffered(0, None, None, None, 0, "t", 0, 0, [("h", large)]), -1),
        (Buffered(0, large, large, None, 0, "t", 0, 0, None), -1),
        LoggedEntry.of(None, 0, [("h", large)]),
    ]
    for entry in entries:
        size = EntrySize()
        for _ in range(200):
            size.learn(b"k", entry)
        assert 99_000 < size.bytes < 101_000

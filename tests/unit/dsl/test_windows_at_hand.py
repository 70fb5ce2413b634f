"""Windows that a count remembers: their number is bounded, and no record looks up again what another one did."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamsapp import TimeWindows, UnlimitedWindows
from streamsapp.dsl.operators.window_count import windows_by_step
from streamsapp.state.engine.segments import Segments
from streamsapp.state.kinds.counted_windows import CountedWindows


def counted(asked: list[int]) -> CountedWindows:
    """Windows without a store below them, which note where they begin when they are made."""

    def around(start_ms: int) -> tuple[bytes, bytes]:
        asked.append(start_ms)
        return b"", b""

    layers: Any = SimpleNamespace(cells=None, on_forgotten=lambda told: None, peek=lambda key, committed: None)
    return CountedWindows(layers, Segments(1_000_000, 60_000, int.from_bytes), around)


def test_the_windows_that_are_remembered_are_bounded_however_many_a_step_has() -> None:
    asked: list[int] = []
    windows = counted(asked)
    windows_of = windows_by_step(TimeWindows.of(200_000).advance_by(1_000), windows)
    for step in range(3_000):
        assert len(windows_of(step)) == min(step + 1, 200)
        assert windows.at(step * 1_000) is windows_of(step)[-1][2]
        assert len(windows._windows) <= 2_048 + 200


@pytest.mark.parametrize(
    ("windows", "starts"),
    [
        (UnlimitedWindows.of(), [0]),
        (UnlimitedWindows.of().start_on(40_000), [40_000]),
        (TimeWindows.of(60_000).advance_by(10_000), [0, 10_000, 20_000, 30_000, 40_000]),
        (TimeWindows.of(60_001).advance_by(10_000), [0, 10_000, 20_000, 30_000, 40_000]),  # nothing but 1 divides both
    ],
)
def test_the_bytes_of_a_window_are_asked_for_once(windows: TimeWindows | UnlimitedWindows, starts: list[int]) -> None:
    asked: list[int] = []
    windows_of = windows_by_step(windows, counted(asked))
    for timestamp in range(40_000, 50_000, 100):
        found = windows_of(timestamp // windows.step_ms)
        assert [start for start, *_ in found] == list(windows.starts_for(timestamp)) == starts
    assert asked == starts


@pytest.mark.parametrize(
    ("windows", "most"),
    [
        (UnlimitedWindows.of().start_on(7), 2),
        (TimeWindows.of(61).advance_by(10), 7),
        (TimeWindows.of(25).advance_by(10), 7),
        (TimeWindows.of(10).advance_by(7), 9),
        (TimeWindows.of(5).advance_by(1), 31),
    ],
)
def test_the_windows_of_a_timestamp_are_found_once_for_all_that_have_the_same(
    windows: TimeWindows | UnlimitedWindows, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [list(windows.starts_for(timestamp)) for timestamp in range(31)]
    found: list[int] = []
    starts_for = type(windows).starts_for

    def noted(self: Any, timestamp: int) -> Any:
        found.append(timestamp)
        return starts_for(self, timestamp)

    monkeypatch.setattr(type(windows), "starts_for", noted)
    windows_of = windows_by_step(windows, counted([]))
    for timestamp in range(31):
        assert [start for start, *_ in windows_of(timestamp // windows.step_ms)] == expected[timestamp]
    assert len(found) <= most


def test_an_unlimited_window_from_zero_on_is_one_step() -> None:
    assert {timestamp // UnlimitedWindows.of().step_ms for timestamp in (0, 1, 10**15)} == {0}

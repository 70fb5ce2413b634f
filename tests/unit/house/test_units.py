"""Sizes and durations as people read them."""

from __future__ import annotations

import pytest

from streamsapp.units import duration_text, size_text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB"), (5 << 40, "5.0 TiB")]
)
def test_sizes_are_in_the_unit_that_fits(count: int, text: str) -> None:
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-0.005, "0s"), (59.999, "59s"), (60, "1m00s"), (7_260, "2h01m"), (90_000, "1d01h")],
)
def test_ages_are_in_the_two_largest_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text

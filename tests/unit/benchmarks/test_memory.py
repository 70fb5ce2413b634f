"""The growth of a program's memory is the slope of a line through samples."""

from __future__ import annotations

import math
import random

import pytest
from benchmarks.memory import fitted


@pytest.mark.parametrize("growth", [0.0, 12.5, -3.0])
def test_growth_lies_within_a_few_standard_errors_of_the_slope(growth: float) -> None:
    rng = random.Random(7)
    samples = [(hour / 100, 300 + growth * hour / 100 + rng.gauss(0, 2)) for hour in range(200)]
    found = fitted(samples)

    assert found.mb == samples[-1][1]
    assert abs(found.slope - growth) < 4 * found.error
    assert 0 < found.error < 1


def test_a_line_without_noise_has_no_error() -> None:
    found = fitted([(float(hour), 100.0 + 5 * hour) for hour in range(20)])
    assert found.slope == pytest.approx(5.0)
    assert found.error == pytest.approx(0.0, abs=1e-9)


def test_few_samples_have_no_slope() -> None:
    assert math.isnan(fitted([(0.0, 100.0), (1.0, 200.0)]).slope)

"""A short soak run under each guarantee: the driver itself works, and so does what it drives."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults import AT_LEAST_ONCE, EXACTLY_ONCE, Plan, make_plan
from soak import describe
from soak_run import run_plan

#: Faults that begin later are left out: a run is to take less than a minute.
_UNTIL = 12.0


def short_plan(seed: int, guarantee: str, *, remote: bool) -> Plan:
    return make_plan(seed, guarantee, 3, remote=remote).before(_UNTIL)


@pytest.mark.parametrize(
    ("seed", "guarantee", "remote"),
    [
        pytest.param(1, EXACTLY_ONCE, False, marks=pytest.mark.long),
        pytest.param(4, AT_LEAST_ONCE, False, marks=pytest.mark.long),
        (11, EXACTLY_ONCE, True),
    ],
)
def test_output_and_state_are_right_after_a_run_with_faults(
    tmp_path: Path, seed: int, guarantee: str, remote: bool
) -> None:
    report = run_plan(short_plan(seed, guarantee, remote=remote), tmp_path / "run")

    assert not report.findings, "\n".join([describe(report, 0), *report.findings])
    assert report.records > 1000

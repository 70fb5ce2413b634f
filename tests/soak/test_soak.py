"""Short soak runs: the driver itself works, and so does what it drives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faults import AT_LEAST_ONCE, EXACTLY_ONCE, Plan, make_plan
from instances import TIMEOUT
from soak import describe
from soak_run import run_plan

#: Longer than everything takes together that is waited for here.
pytestmark = pytest.mark.timeout(900)

#: Faults that begin later are left out: a run is to take less than a minute.
_UNTIL = 12.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits longer than the driver does: here other tests run beside it, on a machine that may be slow."""
    for limit in ("_TO_START", "_TO_FINISH", "_TO_END_TRANSACTIONS", "_TO_READ"):
        monkeypatch.setattr(f"soak_run.{limit}", TIMEOUT)
    monkeypatch.setattr("fleet.SHUTDOWN_TIMEOUT", TIMEOUT)
    monkeypatch.setattr("lag_watch._TIMEOUT", 10.0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("seed", "guarantee", "client"),
    [(6, EXACTLY_ONCE, "streamsapp"), (4, AT_LEAST_ONCE, "streamsapp"), (6, EXACTLY_ONCE, "librdkafka")],
)
def test_output_and_state_are_right_after_leaders_moved(tmp_path: Path, seed: int, guarantee: str, client: str) -> None:
    plan = make_plan(seed, guarantee, 3, secured=True).before(_UNTIL)

    _check(replace(plan, client=client), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("seed", "guarantee", "remote"), [(1, EXACTLY_ONCE, False), (4, AT_LEAST_ONCE, False), (11, EXACTLY_ONCE, True)]
)
def test_output_and_state_are_right_after_a_run_with_faults(
    tmp_path: Path, seed: int, guarantee: str, remote: bool
) -> None:
    _check(make_plan(seed, guarantee, 3, remote=remote).before(_UNTIL), tmp_path)


def test_all_is_right_after_a_run_with_snapshots_over_three_brokers_one_of_which_was_killed(tmp_path: Path) -> None:
    plan = make_plan(3, EXACTLY_ONCE, 3, remote=True, secured=True).before(_UNTIL).for_busy_machine()
    assert plan.restarts_broker

    _check(plan, tmp_path)


def _check(plan: Plan, folder: Path) -> None:
    report = run_plan(plan, folder / "run")

    assert not report.findings, "\n".join([describe(report, 0), *report.findings])
    assert report.records > 1000

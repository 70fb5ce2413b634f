"""Hand-overs of every kind on a real broker, windows and joins open: each result comes once and in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults import AT_LEAST_ONCE, EXACTLY_ONCE
from instances import TIMEOUT
from moves import MoveKind, make_moves
from soak import describe
from soak_run import run_plan

pytestmark = pytest.mark.timeout(1800)

PARTITIONS = 8


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits longer than the driver does: here other tests run beside it, on a machine that may be slow."""
    for limit in ("_TO_START", "_TO_FINISH", "_TO_END_TRANSACTIONS", "_TO_READ"):
        monkeypatch.setattr(f"soak_run.{limit}", TIMEOUT)
    monkeypatch.setattr("fleet.SHUTDOWN_TIMEOUT", TIMEOUT)
    monkeypatch.setattr("lag_watch._TIMEOUT", 10.0)


def test_hand_overs_of_every_kind_lose_double_and_reorder_nothing(tmp_path: Path) -> None:
    found = check(tmp_path, 1, EXACTLY_ONCE, 5)

    assert found == set(MoveKind)


@pytest.mark.long
@pytest.mark.seeds(2)
@pytest.mark.parametrize("guarantee", [EXACTLY_ONCE, AT_LEAST_ONCE])
def test_many_hand_overs_lose_double_and_reorder_nothing(tmp_path: Path, guarantee: str, seed: int) -> None:
    """At least once, only seeds with kills repeat results."""
    check(tmp_path, seed, guarantee, 15)


def check(folder: Path, seed: int, guarantee: str, count: int) -> set[MoveKind]:
    """The kinds of hand-overs that were seen."""
    report = run_plan(make_moves(seed, guarantee, count, PARTITIONS), folder / "run")

    assert not report.findings, "\n".join([describe(report, 0), *report.findings])
    assert report.hand_overs
    return set(report.hand_overs)

"""Reports of lag are held against what was known before and after them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lag_ledger import LagLedger

CHANGELOG = "app-first-changelog-3"


def status(
    position: int | None, end: int | None, lag: int | None, at_ms: float, role: str = "standby"
) -> dict[str, Any]:
    store = {
        "changelog": CHANGELOG,
        "position": position,
        "endOffset": end,
        "lag": lag,
        "observedAt": datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
    }
    return {"tasks": [{"id": "0_3", "role": role, "stores": [store]}]}


def ledger_that_saw(end: int, at_ms: float = 1000) -> LagLedger:
    ledger = LagLedger()
    ledger.observe_ends(at_ms, {CHANGELOG: end}, {CHANGELOG: end})
    return ledger


def test_a_true_report_is_compared_and_accepted() -> None:
    ledger = ledger_that_saw(50)

    ledger.check("a", status(40, 50, 10, at_ms=1001))
    ledger.observe_ends(2000, {CHANGELOG: 50}, {CHANGELOG: 50})

    assert (ledger.findings, ledger.compared, ledger.largest_lag) == ([], 1, 10)


def test_finds_an_end_that_was_passed_before_it_was_observed() -> None:
    ledger = ledger_that_saw(50)

    ledger.check("a", status(40, 45, 5, at_ms=1001))

    report = "a, standby 0_3, app-first-changelog-3: position 40, endOffset 45, lag 5 at 1970-01-01T00:00:01.001+00:00"
    assert ledger.findings == [f"{report}: the changelog had ended at 50 before that"]


def test_an_old_observation_is_no_lie() -> None:
    ledger = ledger_that_saw(50, at_ms=5000)

    ledger.check("a", status(40, 45, 5, at_ms=4999))

    assert (ledger.findings, ledger.compared) == ([], 0)


def test_finds_a_lag_that_is_not_the_difference() -> None:
    ledger = ledger_that_saw(50)

    ledger.check("a", status(40, 50, 0, at_ms=1001))

    assert len(ledger.findings) == 1


def test_finds_an_unknown_offset_that_became_a_lag_of_zero() -> None:
    ledger = ledger_that_saw(50)

    ledger.check("a", status(None, 50, 0, at_ms=1001))

    assert len(ledger.findings) == 1


def test_unknown_offsets_are_null_and_accepted() -> None:
    ledger = ledger_that_saw(50)

    ledger.check("a", status(None, None, None, at_ms=1001))

    assert ledger.findings == []


def test_finds_a_position_that_the_changelog_has_not_reached() -> None:
    ledger = ledger_that_saw(50)

    ledger.check("a", status(60, 60, 0, at_ms=1001))
    ledger.observe_ends(2000, {CHANGELOG: 55}, {CHANGELOG: 55})

    assert len(ledger.findings) == 1
    assert ledger.findings[0].endswith("the changelog ended at 55 even after that")


def test_a_position_waits_for_an_answer_of_the_broker() -> None:
    ledger = ledger_that_saw(50)

    ledger.check("a", status(60, 60, 0, at_ms=1001))
    ledger.observe_ends(2000, {}, {})
    ledger.observe_ends(3000, {CHANGELOG: 70}, {CHANGELOG: 70})

    assert ledger.findings == []


def test_warm_up_replicas_are_checked_and_active_tasks_are_not() -> None:
    ledger = ledger_that_saw(50)

    ledger.check("a", status(40, 45, 5, at_ms=1001, role="active"))
    assert ledger.findings == []

    ledger.check("a", status(40, 45, 5, at_ms=1001, role="warmup"))
    assert len(ledger.findings) == 1

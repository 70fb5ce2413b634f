"""A pod's answer is untrusted: the plugin reports an unreadable answer as that, never as a traceback."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from streamsapp_operator.plugin.documents import read_report
from streamsapp_operator.plugin.port_forward import _date

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def task(**changes: Any) -> bytes:
    return json.dumps({"state": "RUNNING", "tasks": [{"id": "0_0", "role": "active", **changes}]}).encode()


@pytest.mark.parametrize(
    "body",
    [
        task(stores=[{"name": "counts", "observedAt": "2026-01-01T00:00:00"}]),
        task(stores=[{"name": "counts", "snapshot": {"createdAt": "2026-01-01T00:00:00"}}]),
        task(id="\N{SUPERSCRIPT TWO}_0"),
        b'{"tasks":' + b"[" * 100_000,
        b'{"more":' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"state": "\xff"}',
        b"",
    ],
)
def test_an_answer_that_cannot_be_read_is_told(body: bytes) -> None:
    answer = read_report(body, NOW)
    assert answer.report is None
    assert answer.document is None
    assert (answer.fault or "").startswith("its /status cannot be read: ")


def test_tasks_are_ordered_by_their_numbers() -> None:
    answer = read_report(task(id="0_10"), NOW)
    assert answer.report is not None
    assert answer.report.tasks[0].order == (0, 10)


@pytest.mark.parametrize("date", [None, "yesterday", "Thu, 01 Jan 2026 00:00:10 -0000"])
def test_a_date_without_a_zone_is_none(date: str | None) -> None:
    assert _date(date) is None

"""The page about the operator names every metric and every event there is, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from streamsapp_operator.metrics import OperatorMetrics
from streamsapp_operator.model.status import AppStatus, Condition, Restart, RolloutStatus

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs/operator.md").read_text("utf-8")
SOURCES = "\n".join(file.read_text("utf-8") for file in (ROOT / "operator/streamsapp_operator").rglob("*.py"))


def test_names_every_metric() -> None:
    figures = OperatorMetrics()
    rollout = RolloutStatus(revision="r", predicted_seconds=1.0, observed_seconds=2.0)
    ready = Condition(
        type="Ready", status="True", reason="r", message="m", last_transition_time="t", observed_generation=1
    )
    status = AppStatus(
        restart=Restart(safe=True), input_lag=1, standby_lag=2, rollout=rollout, conditions=(ready,), replicas=1
    )
    figures.saw(("ns", "app"), status, 3)
    figures.heard("get", "pods", "200")
    figures.errors.labels("conflict").inc()
    samples = re.findall(r"^(streamsapp_[a-z_]+)", figures.render().decode(), re.MULTILINE)
    made = {re.sub(r"_(bucket|count|sum)$", "", name) for name in samples}
    told = set(re.findall(r"`(streamsapp_(?:app|operator)_[a-z_]+)", PAGE))
    assert told == made


def test_names_every_event() -> None:
    told = {
        reason
        for line in PAGE.partition("## Events")[2].partition("## ")[0].splitlines()
        if line.startswith("| `")
        for reason in re.findall(r"`([A-Z][A-Za-z]+)`", line.split("|")[1])
    }
    assert set(re.findall(r'PostEvent\(\s*"(?:Normal|Warning)",\s*"([A-Za-z]+)"', SOURCES)) <= told
    assert [reason for reason in sorted(told) if f'"{reason}"' not in SOURCES] == []

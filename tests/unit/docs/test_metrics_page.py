"""The pages of metrics and runbooks: every name on them exists, and every metric is on the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from metric_names import operator_metrics, runtime_metrics, series

DOCS = Path(__file__).resolve().parents[3] / "docs"
RUNBOOKS = (DOCS / "runbooks.md").read_text("utf-8")


def test_the_page_has_every_metric_with_its_type_and_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|.*\| \S.* \|$", (DOCS / "metrics.md").read_text("utf-8"), re.MULTILINE)

    assert len(rows) == len(dict(rows))
    assert dict(rows) == {**runtime_metrics(), **operator_metrics()}


def test_runbooks_name_metrics_that_are_told() -> None:
    named = set(re.findall(r"\b(?:kafka_stream|streamsapp_(?:app|operator|instance))_\w+", RUNBOOKS))
    assert named <= {*series(), *runtime_metrics()}


@pytest.mark.parametrize("section", RUNBOOKS.split("\n## ")[1:], ids=lambda text: text.partition("\n")[0])
def test_a_runbook_begins_with_what_to_alert_on(section: str) -> None:
    assert re.match(r"[\w ]+\n\n```promql\n", section)

"""The page about the operator names every event there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs/operator.md").read_text("utf-8")
SOURCES = "\n".join(file.read_text("utf-8") for file in (ROOT / "operator/streamsapp_operator").rglob("*.py"))


def test_names_every_event() -> None:
    told = {
        reason
        for line in PAGE.partition("\n## Events\n")[2].partition("\n## ")[0].splitlines()
        if line.startswith("| `")
        for reason in re.findall(r"`([A-Z][A-Za-z]+)`", line.split("|")[1])
    }
    assert set(re.findall(r'PostEvent\(\s*"(?:Normal|Warning)",\s*"([A-Za-z]+)"', SOURCES)) <= told
    assert [reason for reason in sorted(told) if f'"{reason}"' not in SOURCES] == []

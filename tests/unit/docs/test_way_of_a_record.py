"""A stranger who follows a record to the sink opens the files that the page about architecture lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RUNTIME = ROOT / "runtime" / "streamsapp"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
MOST_FILES = 25


def tables() -> list[list[str]]:
    """The files of the tables of that section, in their order."""
    (section,) = re.findall(r"^## The way of a record$(.*?)^## ", PAGE, re.DOTALL | re.MULTILINE)
    found = re.findall(r"^\|---\|---\|\n((?:\|.*\n)+)", section, re.MULTILINE)
    return [re.findall(r"^\| `([\w/.]+)`", table, re.MULTILINE) for table in found]


def test_few_files_lead_from_the_broker_to_the_sink() -> None:
    to_sink, to_broker = tables()

    assert (to_sink[0], to_sink[-1]) == ("runtime/polling.py", "native/push/sink.c")
    assert len(to_sink) <= MOST_FILES
    assert to_broker[0] == "collector/record_collector.py"


@pytest.mark.parametrize("name", [name for table in tables() for name in table])
def test_each_of_them_is_there(name: str) -> None:
    assert (RUNTIME / name).is_file()

"""The rows of the page about Kafka Streams: Java on the left, ours on the right."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import streamsapp
from streamsapp import Serdes
from streamsapp.processor.timestamps import wallclock_timestamp
from streamsapp.testing import TopologyTestDriver

PAGE = Path(__file__).resolve().parents[2] / "docs" / "migration" / "kafka-streams.md"
#: The tables whose rows add to a topology.
TOPOLOGIES = ("Topics in and out", "Records one by one", "Groups, windows and final results", "Tables and joins")
PROCESSOR, CONFIGURATION, RUNNING, TEST = (
    "In a processor",
    "Configuration",
    "A running application",
    "A test",
)


text, number, minute = Serdes.string(), Serdes.long(), timedelta(minutes=1)
#: The names that rows may use.
NAMES: dict[str, Any] = {
    **{name: getattr(streamsapp, name) for name in streamsapp.__all__},
    "TopologyTestDriver": TopologyTestDriver,
    "Path": Path,
    "re": re,
    "timedelta": timedelta,
    "wallclock_timestamp": wallclock_timestamp,
    "text": text,
    "number": number,
    "minute": minute,
}


class Row(NamedTuple):
    """A row with its line on the page."""

    line: int
    java: str
    python: str


def rows(table: str) -> list[Row]:
    """The rows of a table, by the heading above it."""
    found, inside = [], False
    for number, line in enumerate(PAGE.read_text("utf-8").splitlines(), 1):
        if line.startswith("#"):
            inside = line == f"### {table}"
        elif inside and (cells := re.fullmatch(r"\| `(.+)` \| `(.+)` \|", line)):
            found.append(Row(number, *cells.groups()))
    return found


def prelude(language: str) -> str:
    """The block of a language that rows stand below."""
    text = PAGE.read_text("utf-8")
    start = text.index("## Row by row")
    found = re.search(rf"^```{language}\n(.*?)^```$", text[start:], re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]

"""Tables as the page shows them: columns, and rows of cells that are texts with a meaning. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from streamsapp_operator.plugin.style import Tone
from streamsapp_operator.plugin.text import brief, plural

#: Rows of a table, and characters of a cell.
ROWS, LETTERS = 1000, 1000

_MOODS = {Tone.GOOD: "good", Tone.WARN: "warn", Tone.BAD: "bad", Tone.DIM: "faint"}


@dataclass(frozen=True, slots=True)
class PageCell:
    """A text, its meaning, and more words on request."""

    text: str
    tone: Tone = Tone.PLAIN
    why: str = ""
    #: Within the page.
    href: str = ""

    def document(self) -> dict[str, str]:
        told = {"value": brief(self.text, LETTERS), "class": _MOODS.get(self.tone, "")}
        return told | {name: text for name, text in (("title", brief(self.why, LETTERS)), ("href", self.href)) if text}


@dataclass(frozen=True, slots=True)
class PageRow:
    """A row with the key by which it stays the same one from look to look."""

    key: str
    cells: Sequence[PageCell | str]

    def document(self) -> list[Any]:
        return [self.key, [_cell(each) for each in self.cells]]


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table with its heading, and a sentence about it. Columns whose title begins with ``#`` have figures."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[PageRow] = field(default_factory=list)
    note: str = ""

    def document(self) -> dict[str, Any]:
        more = len(self.rows) - ROWS
        left_out = f"{plural(more, 'row')} more" if more > 0 else ""
        return {
            "name": self.name,
            "title": self.title,
            "note": " · ".join(text for text in (self.note, left_out) if text),
            "columns": [[each.removeprefix("#"), "number" if each.startswith("#") else ""] for each in self.columns],
            "rows": [row.document() for row in self.rows[:ROWS]],
        }


def _cell(each: PageCell | str) -> dict[str, str]:
    return PageCell(each).document() if isinstance(each, str) else each.document()


def mood(tone: Tone) -> str:
    """Returns the class of a text with this meaning."""
    return _MOODS.get(tone, "")

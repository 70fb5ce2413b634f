"""Renders tables of plain text: columns as wide as they need to be, the last one wrapped where the terminal ends. Pure.

Called by the views on the main thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamsapp_operator.plugin.style import Style, Tone
from streamsapp_operator.plugin.text import clean, fill, width, wrap

_GAP = "  "
#: The last column is not made narrower than this; a narrower terminal breaks the lines itself.
_LEAST = 24


@dataclass(frozen=True, slots=True)
class TableCell:
    """A text and its meaning."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Column:
    """A title; figures stand on the right."""

    title: str
    right: bool = False


Row = Sequence[TableCell | str]


def render(columns: Sequence[Column], rows: Sequence[Row], style: Style, indent: str = "  ") -> Iterator[str]:
    """Returns the lines, the titles first. A column with nothing but blanks is left out."""
    cells = [[_cell(each) for each in row] for row in rows]
    used = [index for index in range(len(columns)) if any(row[index].text for row in cells)]
    if not used:
        return
    titles = [TableCell(columns[index].title, Tone.DIM) for index in used]
    lines = [titles, *([row[index] for index in used] for row in cells)]
    widths = [max(width(line[at].text) for line in lines) for at in range(len(used))]
    rights = [columns[index].right for index in used]
    room = _room(widths, style, indent)
    for line in lines:
        yield from _line(line, widths, rights, room, style, indent)


def _cell(each: TableCell | str) -> TableCell:
    return TableCell(clean(each)) if isinstance(each, str) else TableCell(clean(each.text), each.tone)


def _room(widths: Sequence[int], style: Style, indent: str) -> int:
    """Returns the width that is left for the last column."""
    if style.width is None:
        return widths[-1]
    before = len(indent) + sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
    return max(_LEAST, style.width - before)


def _line(
    line: Sequence[TableCell], widths: Sequence[int], rights: Sequence[bool], room: int, style: Style, indent: str
) -> Iterator[str]:
    *front, last = line
    parts = [
        style.paint(fill(cell.text, columns, right=right), cell.tone)
        for cell, columns, right in zip(front, widths, rights, strict=False)
    ]
    pieces = wrap(last.text, room) if width(last.text) > room else [last.text]
    if rights[-1]:
        pieces = [fill(piece, min(widths[-1], room), right=True) for piece in pieces]
    yield (indent + _GAP.join([*parts, style.paint(pieces[0], last.tone)])).rstrip()
    before = indent + " " * (sum(widths[:-1]) + len(_GAP) * len(front))
    for piece in pieces[1:]:
        yield before + style.paint(piece, last.tone)

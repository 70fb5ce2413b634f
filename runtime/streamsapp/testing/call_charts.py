"""Draws what the last calls of a ``Session`` did: a small chart for each kind of figure, as SVG. Pure.

Called by ``Session`` when a notebook shows it. It needs no script, no font of its own and no network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

#: The calls that are remembered.
CALLS = 360
#: The size of a chart, and the room around its lines, in pixels.
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 300, 130, 56, 24, 18
_COLOUR = "#3b82d0"


class Call(NamedTuple):
    """A call of ``feed`` or ``advance``."""

    #: Records that were fed, and the seconds that processing them took.
    fed: int
    seconds: float
    #: Records that sinks wrote, and records that were dropped.
    written: int
    dropped: int
    #: The average lateness of the records of late, in milliseconds; ``None`` if there were none.
    lateness_ms: float | None

    @property
    def rate(self) -> float | None:
        """Records a second."""
        return self.fed / self.seconds if self.fed and self.seconds > 0 else None


_CHARTS: tuple[tuple[str, str, Callable[[Call], float | None]], ...] = (
    ("Records fed", "", lambda call: call.fed),
    ("Processed", "/s", lambda call: call.rate),
    ("Results", "", lambda call: call.written),
    ("Dropped", "", lambda call: call.dropped),
    ("Lateness, average", " ms", lambda call: call.lateness_ms),
)


def draw_calls(calls: Sequence[Call]) -> str:
    """Returns the charts of the figures that are known, side by side as far as there is room."""
    drawn = [_chart(title, unit, [figure(call) for call in calls]) for title, unit, figure in _CHARTS]
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px">{"".join(drawn)}</div>' if calls else ""


def _chart(title: str, unit: str, figures: Sequence[float | None]) -> str:
    known = [each for each in figures if each is not None]
    if not known:
        return ""
    highest = max(known) or 1
    last = "not known" if figures[-1] is None else f"{_number(figures[-1])}{unit}"
    told = f"{title} of the last {len(figures)} calls: last {last}, highest {_number(max(known))}{unit}"
    places = [_place(number, len(figures), each / highest) for number, each in _with_numbers(figures)]
    points = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{_COLOUR}" stroke="none">'
        f"<title>call {number + 1}: {_number(each)}{unit}</title></circle>"
        for (number, each), (x, y) in zip(_with_numbers(figures), places, strict=True)
    )
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="{escape(told)}" fill="none" stroke="currentColor" font-family="sans-serif" font-size="11">'
        f"{_text(0, 13, f'{title}: {last}')}"
        f'<path d="M{_LEFT} {_TOP}H{right}M{_LEFT} {bottom}H{right}" stroke-opacity=".25"/>'
        f"{_text(_LEFT - 4, _TOP + 4, _number(highest) + unit, 'end')}{_text(_LEFT - 4, bottom + 4, '0', 'end')}"
        f"{_text(_LEFT, _HEIGHT - 3, 'call 1')}{_text(right, _HEIGHT - 3, f'call {len(figures)}', 'end')}"
        f'<path d="{_line(figures, highest)}" stroke="{_COLOUR}" stroke-width="1.5"/>{"".join(points)}</svg>'
    )


def _with_numbers(figures: Sequence[float | None]) -> list[tuple[int, float]]:
    return [(number, each) for number, each in enumerate(figures) if each is not None]


def _line(figures: Sequence[float | None], highest: float) -> str:
    """A line with a gap where a figure is not known."""
    path, command = "", "M"
    for number, each in enumerate(figures):
        if each is None:
            command = "M"
            continue
        x, y = _place(number, len(figures), each / highest)
        path, command = f"{path}{command}{x:.1f} {y:.1f}", "L"
    return path


def _place(number: int, of: int, share: float) -> tuple[float, float]:
    room, height = _WIDTH - 8 - _LEFT, _HEIGHT - _TOP - _BOTTOM
    return _LEFT + room * (number / (of - 1) if of > 1 else 0.5), _TOP + height * (1 - share)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="currentColor" stroke="none">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"

"""Colours and signs of a terminal, and their absence elsewhere. Pure but for looking at the stream once.

Made by the entry point; read by the views on the main thread.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TextIO


class Tone(Enum):
    """The meaning of a piece of text, as the number of its colour."""

    PLAIN = ""
    GOOD = "32"
    WARN = "33"
    BAD = "31"
    DIM = "2"
    BOLD = "1"


@dataclass(frozen=True, slots=True)
class Style:
    """Writes text with colours, or without."""

    colour: bool = False
    #: Signs and dots beyond ASCII can be shown.
    unicode: bool = True
    #: Columns of the terminal; ``None``: lines may be as long as they like.
    width: int | None = None

    @classmethod
    def of(cls, stream: TextIO, environment: Mapping[str, str]) -> Style:
        """Chooses colours on a terminal only, and not if NO_COLOR is set or the terminal is a dumb one."""
        terminal = stream.isatty()
        return cls(
            colour=terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb",
            unicode=_can_write("●✓✗…·", stream.encoding),
            width=shutil.get_terminal_size().columns if terminal else None,
        )

    def paint(self, text: str, tone: Tone) -> str:
        """Returns the text coloured, if there are colours."""
        return f"\x1b[{tone.value}m{text}\x1b[0m" if self.colour and tone is not Tone.PLAIN and text else text

    def title(self, text: str) -> str:
        """Returns a heading."""
        return self.paint(text, Tone.BOLD)

    @property
    def dot(self) -> str:
        return "●" if self.unicode else "*"

    @property
    def between(self) -> str:
        return " · " if self.unicode else " - "

    def sign(self, tone: Tone) -> str:
        """Says without colours what the tone says."""
        good, bad, warn, other = "✓✗~·" if self.unicode else "+!~-"
        return {Tone.GOOD: good, Tone.BAD: bad, Tone.WARN: warn}.get(tone, other)


def _can_write(text: str, encoding: str | None) -> bool:
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True

"""Shows a developer what the tools are doing. Standard library only: the set-up uses it before anything is
installed.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_line = Lock()
#: The step whose line has no end yet, if there is one.
_open: list[str] = []


@contextmanager
def step(title: str) -> Iterator[None]:
    """One line per step: what it is while it runs, how long it took when it is done. A step that another thread has
    begun meanwhile ends that line, and then it has one of its own again."""
    _begin(title)
    start = time.monotonic()
    try:
        yield
    except BaseException:
        _end(title, "failed")
        raise
    _end(title, f"{time.monotonic() - start:6.1f} s")


def _begin(title: str) -> None:
    with _line:
        print("\n" * len(_open) + f"  {title:<44}", end="", flush=True)
        _open[:] = [title]


def _end(title: str, how: str) -> None:
    with _line:
        again = "" if _open == [title] else "\n" * len(_open) + f"  {title:<44}"
        print(again + how, flush=True)
        _open.clear()


class Progress:
    """A bar on a terminal, a line every few seconds elsewhere."""

    def __init__(self, words: int) -> None:
        self._words = words
        self._terminal = sys.stdout.isatty()
        self._interval = 0.2 if self._terminal else 5.0
        self._shown_at = float("-inf")
        self._shown = -1

    def show(self, done: int, seconds: float) -> None:
        now = time.monotonic()
        if done == self._shown or (done < self._words and now - self._shown_at < self._interval):
            return
        self._shown, self._shown_at = done, now
        share = min(done / self._words, 1.0)
        rate = done / seconds if seconds else 0.0
        figures = f"{share:4.0%}  {done:,} of {self._words:,} words  {rate:,.0f}/s"
        if self._terminal:
            width = max(10, min(30, shutil.get_terminal_size().columns - len(figures) - 8))
            print(f"\r  [{'#' * round(share * width):<{width}}] {figures}\033[K", end="", flush=True)
        else:
            print(f"  {figures}", flush=True)

    def finish(self) -> None:
        if self._terminal:
            print()

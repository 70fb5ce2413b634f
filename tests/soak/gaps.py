"""Measures how long undisturbed tasks wrote nothing: the cost of a rebalance for those it does not concern.

Pure; the soak driver calls it when a run is over. A measurement: nothing fails by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from verification import Update


class Disturbance(NamedTuple):
    """The time at which an instance, or with ``instance`` empty every instance, had a reason not to write."""

    instance: str
    begin_ms: float
    end_ms: float


class Gap(NamedTuple):
    """A task's pause between two records it wrote."""

    ms: int
    #: After the first time looked at.
    begin_ms: int
    task: str
    writer: str

    def __str__(self) -> str:
        return f"{self.ms} ms at {self.begin_ms / 1000:.1f} (task {self.task} of {self.writer})"


def longest_gap(updates: Iterable[Update], disturbances: Sequence[Disturbance], since_ms: float = 0) -> Gap | None:
    """The longest pause of a task's run since then that no disturbance of its instance, or of all, explains."""
    last: dict[tuple[str, str], Update] = {}
    longest: Gap | None = None
    for update in sorted(updates, key=attrgetter("at_ms")):  # a task writes to several partitions
        before = last.get((update.task, update.writer))
        last[update.task, update.writer] = update
        if before is None or before.at_ms < since_ms:
            continue
        gap = Gap(update.at_ms - before.at_ms, round(before.at_ms - since_ms), update.task, update.writer)
        if (longest is None or gap.ms > longest.ms) and not any(
            _explains(each, before, update) for each in disturbances
        ):
            longest = gap
    return longest


def _explains(disturbance: Disturbance, before: Update, after: Update) -> bool:
    concerned = disturbance.instance in ("", after.writer.partition(".")[0])
    return concerned and disturbance.begin_ms < after.at_ms and before.at_ms < disturbance.end_ms

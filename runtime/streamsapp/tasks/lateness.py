"""Measures how late records come: by how much their timestamps lie behind the stream time of their task.

Written on the processing thread that holds the task, read by ``/metrics``. These are Kafka Streams'
``record-lateness-avg`` and ``-max``, over the last 30 to 60 seconds as its sensors have them by default.
"""

from __future__ import annotations

from typing import NamedTuple

#: The length of a sample, in milliseconds; two of them count (``metrics.sample.window.ms``, ``metrics.num.samples``).
SAMPLE_MS = 30_000


class LatenessFigures(NamedTuple):
    """The lateness of some records, in milliseconds."""

    average: float
    highest: int


class Lateness:
    """The lateness of a task's records. Records in order cost nothing."""

    __slots__ = ("_before", "_ends_at", "_highest", "_records", "_total")

    def __init__(self) -> None:
        #: Sum, highest and number of records of the sample before.
        self._before = (0, 0, 0)
        self._total = self._highest = self._records = 0
        self._ends_at = 0

    def observe(self, total_ms: int, highest_ms: int) -> None:
        """Takes records that came late by so many milliseconds: all together, and the latest of them."""
        self._total += total_ms
        self._highest = max(self._highest, highest_ms)

    def begin_batch(self, now_ms: int) -> None:
        """Begins a new sample if it is time."""
        if now_ms >= self._ends_at:
            recent = now_ms < self._ends_at + SAMPLE_MS
            self._before = (self._total, self._highest, self._records) if recent else (0, 0, 0)
            self._total = self._highest = self._records = 0
            self._ends_at = now_ms + SAMPLE_MS

    def count(self, records: int) -> None:
        """Counts the records of a batch, late ones and others."""
        self._records += records

    def figures(self, now_ms: int) -> LatenessFigures | None:
        """Returns the figures of what came lately, ``None`` if nothing did."""
        if now_ms >= self._ends_at + SAMPLE_MS:
            return None
        total, highest, records = self._before if now_ms < self._ends_at else (0, 0, 0)
        records += self._records
        return LatenessFigures((total + self._total) / records, max(highest, self._highest)) if records else None

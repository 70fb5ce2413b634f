"""Progress: one bar on a terminal, log lines elsewhere.

``RestoreBar`` is a ``StateRestoreListener``, called on the threads that restore; ``ByteBar`` counts what is
downloaded, on the threads that download.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TextIO

from streamsapp.clock import Clock, SystemClock
from streamsapp.record import TopicPartition

log = logging.getLogger(__name__)

_BAR_WIDTH = 30
_REDRAW_SECONDS = 0.1
_LOG_SECONDS = 10.0


@dataclass
class _Changelog:
    start: int
    end: int
    position: int
    ended: bool = False

    @property
    def total(self) -> int:
        return max(self.end - self.start, 0)

    @property
    def done(self) -> int:
        return min(max(self.position - self.start, 0), self.total)


class RestoreBar:
    """Shows how far restoring has come. Offsets are counted, not records: compacted ones are passed over.

    It never raises: the runtime would take that for a failed listener and end the instance. Tasks come and go while
    others restore, so that a changelog may begin twice, or be reported after its bar has ended.
    """

    def __init__(self, stream: TextIO | None = None, clock: Clock | None = None) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock or SystemClock()
        self._draws = self._stream.isatty()
        self._changelogs: dict[TopicPartition, _Changelog] = {}
        self._lock = Lock()
        self._records = 0
        self._began = 0.0
        self._shown = 0.0

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        """``ending_offset`` is exclusive."""
        with self._lock:
            if not self._changelogs:
                self._began = self._shown = self._clock.monotonic()
            self._changelogs[topic_partition] = _Changelog(starting_offset, ending_offset, starting_offset)
        if not self._draws:
            log.info(
                "restoring store %s from changelog %s: offsets %d to %d",
                store_name,
                topic_partition,
                starting_offset,
                ending_offset,
            )

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """``batch_end_offset`` is that of the batch's last record."""
        with self._lock:
            changelog = self._changelogs.get(topic_partition)
            if changelog is None:
                return
            changelog.position = batch_end_offset + 1
            self._records += num_restored
            now = self._clock.monotonic()
            if now - self._shown >= (_REDRAW_SECONDS if self._draws else _LOG_SECONDS):
                self._shown = now
                self._show()

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """A changelog is applied whole; after the last one the bar makes way for a summary."""
        if not self._draws:
            log.info("restored store %s from changelog %s: %d records", store_name, topic_partition, total_restored)
        with self._lock:
            changelog = self._changelogs.get(topic_partition)
            if changelog is not None:
                changelog.position, changelog.ended = changelog.end, True
            self._finish_if_all_ended()

    def on_restore_suspended(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """The task moved elsewhere before it was restored."""
        if not self._draws:
            log.info(
                "stopped restoring store %s from changelog %s after %d records",
                store_name,
                topic_partition,
                total_restored,
            )
        with self._lock:
            self._changelogs.pop(topic_partition, None)
            self._finish_if_all_ended()

    def text(self) -> str:
        """The line that is shown."""
        total = sum(changelog.total for changelog in self._changelogs.values())
        done = sum(changelog.done for changelog in self._changelogs.values())
        share = done / total if total else 1.0
        elapsed = max(self._clock.monotonic() - self._began, 0.001)
        partitions = f"{self._ended} of {len(self._changelogs)} changelog partitions"
        return f"restoring {_bar(share)} {partitions}, {self._records:,} records, {self._records / elapsed:,.0f}/s"

    @property
    def _ended(self) -> int:
        return sum(changelog.ended for changelog in self._changelogs.values())

    def _show(self) -> None:
        if self._draws:
            self._draw(self.text())
        else:
            log.info("%s", self.text())

    def _draw(self, line: str) -> None:
        with suppress(OSError, ValueError):  # the terminal is gone, or cannot show the bar's signs
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()

    def _finish_if_all_ended(self) -> None:
        """Ends the bar if all restores that were begun have ended: a later one starts a new bar."""
        ended = self._ended
        if not ended or ended < len(self._changelogs):
            return
        seconds = self._clock.monotonic() - self._began
        if self._draws:
            self._draw("")
        log.info("restored %d changelog partitions, %d records in %.1f s", ended, self._records, seconds)
        self._changelogs.clear()
        self._records = 0


class ByteBar:
    """Shows how many bytes have come of ``total``, on a terminal only. ``verb`` says what is done with them."""

    def __init__(self, verb: str, total: int, stream: TextIO | None = None, clock: Clock | None = None) -> None:
        self._verb = verb
        self._total = total
        self._stream = stream or sys.stderr
        self._clock = clock or SystemClock()
        self._draws = self._stream.isatty()
        self._lock = Lock()
        self._done = 0
        self._shown = float("-inf")

    def __enter__(self) -> ByteBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._draws:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def __call__(self, count: int) -> None:
        """Counts bytes; fewer than none where some have to come again."""
        with self._lock:
            self._done += count
            now = self._clock.monotonic()
            if self._draws and now - self._shown >= _REDRAW_SECONDS:
                self._shown = now
                share = min(self._done / self._total, 1.0) if self._total else 1.0
                self._stream.write(f"\r\x1b[K{self._verb} {_bar(share)} of {self._total:,} bytes")
                self._stream.flush()


def _bar(share: float) -> str:
    filled = int(share * _BAR_WIDTH)
    return f"{'█' * filled}{'░' * (_BAR_WIDTH - filled)} {share:4.0%}"

"""Shows the progress of tasks at work: one line that is drawn again on a terminal, log lines elsewhere.

Told by the threads that listen to workers, drawn by a thread of its own.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from typing import Any, TextIO

from streamsapp.clock import Clock, SystemClock
from streamsapp.errors import StreamsError

log = logging.getLogger(__name__)

_DRAW_SECONDS, _LOG_SECONDS = 0.5, 10.0
#: Seconds of the past that a rate is taken from.
_RATE_SECONDS = 10.0


class SparkProgress:
    """Shows the progress of one command's tasks."""

    def __init__(
        self,
        totals: Mapping[str, int],
        stages: Mapping[str, int],
        stream: TextIO | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Takes in ``totals`` the records of each task as far as they are known, in ``stages`` the stage that it is
        in."""
        self._totals = dict(totals)
        self._stages = dict(stages)
        self._stream = stream or sys.stderr
        self._clock = clock or SystemClock()
        self._records: dict[str, int] = {}
        self._done: set[str] = set()
        self._began = self._clock.monotonic()
        self._past: list[tuple[float, int]] = []
        self._over = threading.Event()
        self._lock = threading.Lock()
        #: The error that ended it: an error that another try would not mend, else the last one heard.
        self.hopeless: str | None = None
        self.failure: str | None = None
        self.on_hopeless = threading.Event()

    def __enter__(self) -> SparkProgress:
        threading.Thread(target=self._show, name="progress", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._stream.isatty():
            self._stream.write("\r\x1b[K")

    def heard(self, report: dict[str, Any]) -> None:
        """Takes a worker's report."""
        task = str(report["task"])
        with self._lock:
            self._records[task] = int(report["records"])
            if report["state"] == "done":
                self._done.add(task)
            if report["state"] == "failed":
                self._fail(str(report["error"]), hopeless=bool(report["hopeless"]))

    def _fail(self, error: str, *, hopeless: bool) -> None:
        self.failure = error
        if not hopeless:
            log.warning("%s; it is tried again", error)
        elif self.hopeless is None:
            self.hopeless = error
            self.on_hopeless.set()

    def error(self, otherwise: str) -> StreamsError:
        """Returns the message about a job that failed."""
        return StreamsError(self.hopeless or self.failure or otherwise)

    @property
    def seconds(self) -> float:
        return self._clock.monotonic() - self._began

    def line(self) -> str:
        """Returns the line that shows the progress."""
        with self._lock:
            records, done = sum(self._records.values()), len(self._done)
            known = sum(min(count, self._totals.get(task, 0)) for task, count in self._records.items())
            stage = max((self._stages[task] for task in self._records if task in self._stages), default=1)
        now, total = self._clock.monotonic(), sum(self._totals.values())
        self._past = [(at, count) for at, count in self._past if at > now - _RATE_SECONDS] + [(now, records)]
        since, before = self._past[0]
        rate = (records - before) / (now - since) if now > since else 0.0
        left = f", {(total - known) / rate:,.0f} s left" if rate and total > known else ""
        return (
            f"stage {stage} of {max(self._stages.values(), default=1)}, {done} of {len(self._stages)} tasks, "
            f"{records:,} records ({known / total if total else 1:.0%} of the input), {rate:,.0f}/s{left}"
        )

    def _show(self) -> None:
        draws = self._stream.isatty()
        while not self._over.wait(_DRAW_SECONDS if draws else _LOG_SECONDS):
            if draws:
                self._stream.write(f"\r\x1b[K{self.line()}")
                self._stream.flush()
            else:
                log.info("%s", self.line())

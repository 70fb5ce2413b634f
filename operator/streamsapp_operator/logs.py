"""Sets up the operator's log: the runtime's format, where ``app`` names the application, and fewer lines of kopf.

Set up once by ``__main__``; filters run on whichever thread logs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from streamsapp import log_format
from streamsapp_operator.status_comparison import masked

#: Between two lines that say the same, in seconds.
_SELDOM_SECONDS = 60.0


class DuplicateFilter(logging.Filter):
    """Lets a library log the same line once a minute: kopf logs each of its tries."""

    def __init__(self, name: str, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._prefix = name
        self._monotonic = monotonic
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(self._prefix):
            return True
        now, said = self._monotonic(), masked(record.getMessage())
        self._told = {text: at for text, at in self._told.items() if now - at < _SELDOM_SECONDS}
        if said in self._told:
            return False
        self._told[said] = now
        return True


def set_up_logging(level: str, form: str) -> None:
    """Replaces the handlers of an earlier call."""
    handler = log_format.set_up_logging(level, form)
    if level != "debug":
        handler.addFilter(DuplicateFilter("kopf", time.monotonic))
        logging.getLogger("kopf").setLevel(logging.WARNING)

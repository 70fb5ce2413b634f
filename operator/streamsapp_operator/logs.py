"""Logging of the operator: one JSON object per line, or readable lines on a terminal. Everything goes to stderr.

Set up once by ``__main__``; formatted on whichever thread logs. The format is that of the runtime, and ``app`` tells
which application a line is about.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable

from streamsapp_operator.status_comparison import masked

#: Between two lines that say the same, in seconds.
_SELDOM_SECONDS = 60.0


class JsonFormatter(logging.Formatter):
    """One JSON object per line, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        app = getattr(record, "app", None)
        if app is not None:
            line["app"] = str(app)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - its name
        """UTC with milliseconds, whatever ``datefmt`` says."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return f"{seconds}.{int(record.msecs):03d}Z"


class Seldom(logging.Filter):
    """Lets one library tell the same thing once a minute: kopf tells each of its tries."""

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
    handler = logging.StreamHandler(sys.stderr)
    if form == "json" or (form == "auto" and not sys.stderr.isatty()):
        handler.setFormatter(JsonFormatter())
    else:
        text = "%(asctime)s.%(msecs)03d %(levelname)-7s %(threadName)s: %(message)s"
        handler.setFormatter(logging.Formatter(text, datefmt="%H:%M:%S"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        handler.addFilter(Seldom("kopf", time.monotonic))
        logging.getLogger("kopf").setLevel(logging.WARNING)

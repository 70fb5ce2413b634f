"""Logging of the operator: one JSON object per line, or readable lines on a terminal. Everything goes to stderr.

Set up once by ``__main__``; formatted on whichever thread logs. The format is that of the runtime, and ``app`` tells
which application a line is about.
"""

from __future__ import annotations

import json
import logging
import sys
import time


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
        # It tells each failed try as an error of its own, and asyncio each slow callback.
        logging.getLogger("kopf").setLevel(logging.CRITICAL)
        logging.getLogger("asyncio").setLevel(logging.ERROR)

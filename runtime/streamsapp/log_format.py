"""The format of log lines: readable on a terminal, one JSON object per line where machines read.

Set up once by the commands of the runtime and of the operator; formatted on whichever thread logs. Everything goes to
stderr, as stdout is for results.
"""

from __future__ import annotations

import json
import logging
import sys
import time

FORMATS = ("auto", "text", "json")
LEVELS = ("debug", "info", "warning", "error")


class JsonFormatter(logging.Formatter):
    """One JSON object per line, tracebacks included; ``app``, given as ``extra``, names an application."""

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
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - its name
        """UTC with milliseconds, whatever ``datefmt`` says."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return f"{seconds}.{int(record.msecs):03d}Z"


def set_up_logging(level: str, form: str) -> logging.Handler:
    """Send the log to stderr; replaces the handlers of an earlier call. ``form`` is one of ``FORMATS``."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json" or (form == "auto" and not sys.stderr.isatty()):
        handler.setFormatter(JsonFormatter())
    else:
        text = "%(asctime)s.%(msecs)03d %(levelname)-7s %(threadName)s: %(message)s"
        handler.setFormatter(logging.Formatter(text, datefmt="%H:%M:%S"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    return handler

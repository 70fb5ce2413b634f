"""The format of log lines: readable on a terminal, one JSON object per line where machines read.

Set up once by the commands of the runtime and of the operator; formatted on whichever thread logs. Everything goes to
stderr, as stdout is for results.
"""

from __future__ import annotations

import json
import logging
import sys
import time

from streamsapp.record import TaskId, TopicPartition

FORMATS = ("auto", "text", "json")
#: The names of what a message may be about.
_SUBJECTS = ("app", "task", "topic", "partition", "offset")
LEVELS = ("debug", "info", "warning", "error")


class JsonFormatter(logging.Formatter):
    """One JSON object per line, tracebacks included.

    An application, a task, and the topic, partition and offset of a record have fields of their own where the message
    is about them. They are given as ``extra``; a task or a partition that is an argument of the message need not be.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | int | None] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        line |= _subject(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - its name
        """UTC with milliseconds, whatever ``datefmt`` says."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return f"{seconds}.{int(record.msecs):03d}Z"


def _subject(record: logging.LogRecord) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    for argument in record.args if isinstance(record.args, tuple) else ():
        if isinstance(argument, TaskId):
            found["task"] = str(argument)
        elif isinstance(argument, TopicPartition):
            found |= {"topic": argument.topic, "partition": argument.partition}
    given = {name: value for name in _SUBJECTS if (value := getattr(record, name, None)) is not None}
    return found | {name: value if isinstance(value, int) else str(value) for name, value in given.items()}


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

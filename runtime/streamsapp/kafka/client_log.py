"""Thins out the messages that the Kafka client repeats: each is logged once in a while.

A broker that is away makes the client complain twenty times a second, in the same words. Used by the loggers of this
package, on whatever thread the client calls back.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

#: The same message is let through again after this many seconds.
REPEATED_EVERY = 30.0
#: More different messages than this are forgotten and begin anew.
REMEMBERED = 256

_NUMBERS = re.compile(r"\d+")


class OncePerWhile(logging.Filter):
    """Drops a message that differs from one seen lately in its numbers only, and says later how many it dropped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO:
            return True
        text = record.getMessage()
        alike = _NUMBERS.sub("", text)
        now = self._clock()
        since, dropped = self._seen.get(alike, (-REPEATED_EVERY, 0))
        if now - since < REPEATED_EVERY:
            self._seen[alike] = (since, dropped + 1)
            return False
        if len(self._seen) >= REMEMBERED:
            self._seen.clear()
        self._seen[alike] = (now, 0)
        if dropped:
            record.msg, record.args = f"{text} (and {dropped} times like that before)", None
        return True


def client_log(name: str) -> logging.Logger:
    """The logger of a module that hands it to the Kafka client."""
    log = logging.getLogger(name)
    log.addFilter(OncePerWhile())
    return log

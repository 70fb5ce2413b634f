"""A message that the client repeats is said once in a while."""

from __future__ import annotations

import logging

from streamsapp.kafka.client_log import REPEATED_EVERY, OncePerWhile


class Said:
    """The messages that pass the filter, at a time that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.filter = OncePerWhile(lambda: self.now)

    def __call__(self, message: str, level: int = logging.WARNING) -> str | None:
        record = logging.LogRecord("client", level, "", 0, message, None, None)
        return record.getMessage() if self.filter.filter(record) else None


def test_a_message_that_differs_in_numbers_only_is_said_once() -> None:
    said = Said()

    assert said("connect failed after 3ms") == "connect failed after 3ms"
    assert said("connect failed after 14ms") is None
    assert said("another thing") == "another thing"


def test_it_is_said_again_later_with_how_often_it_came() -> None:
    said = Said()
    said("connect failed")
    for _ in range(3):
        said("connect failed")
    said.now += REPEATED_EVERY

    assert said("connect failed") == "connect failed (and 3 times like that before)"


def test_debug_messages_are_all_said() -> None:
    said = Said()

    assert said("fetched", logging.DEBUG) == said("fetched", logging.DEBUG) == "fetched"

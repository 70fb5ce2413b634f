"""Dead letters fit their topic, and say what they lack."""

from __future__ import annotations

import pytest

from streamsapp import TaskId
from streamsapp.errors import ConfigError
from streamsapp.processor.handlers import ErrorContext
from streamsapp.record import Headers
from streamsapp.tasks.dead_letters import HEADER_OMITTED, DeadLetters

LIMIT = 20_000
SMALL = 10
LARGE = LIMIT + 5_000


def context(key: int = SMALL, value: int = SMALL, header: int = SMALL) -> ErrorContext:
    """Of a record with as many bytes in its parts."""
    headers: Headers = [("own", b"h" * header)]
    return ErrorContext(TaskId(0, 0), "node", "in", 0, 7, 42, headers, b"k" * key, b"v" * value)


@pytest.mark.parametrize(
    ("given", "omitted"),
    [
        (context(), None),
        (context(value=LIMIT - 2_000), None),
        (context(value=LIMIT - 100), f"value ({LIMIT - 100} bytes)"),
        (context(value=3_000_000), "value (3000000 bytes)"),
        (context(header=LARGE), f"headers ({LARGE + 13} bytes)"),
        (context(value=LARGE, header=LARGE), f"value ({LARGE} bytes), headers ({LARGE + 13} bytes)"),
        (context(key=LARGE), f"key ({LARGE} bytes)"),
    ],
)
def test_a_letter_lacks_as_little_as_it_must_and_names_it(given: ErrorContext, omitted: str | None) -> None:
    made = DeadLetters("letters", LIMIT).letter(given, ValueError("boom"), 42)

    topic, value, key, _, _, _, timestamp, headers = made
    told = dict(headers or [])
    parts = {each.split(" (")[0] for each in (omitted or "").split(", ")}
    assert (topic, timestamp) == ("letters", 42)
    assert value == (None if "value" in parts else given.value)
    assert key == (None if "key" in parts else given.key)
    assert ("own" in told) is ("headers" not in parts)
    assert (told.get(HEADER_OMITTED) or b"").decode() == (omitted or "")
    assert told["__streams.errors.offset"] == b"7", "where all of it is"


def test_a_stack_trace_that_does_not_fit_is_left_out() -> None:
    made = DeadLetters("letters", LIMIT).letter(context(), ValueError("x" * 15_000), 42)

    told = dict(made[7] or [])
    assert "__streams.errors.stacktrace" not in told
    assert len(told["__streams.errors.message"] or b"") == 15_000


def test_a_letter_without_a_topic_is_refused_with_what_to_set() -> None:
    with pytest.raises(ConfigError, match="dead_letter_queue_topic is not set"):
        DeadLetters(None).letter(context(), ValueError("boom"), 42)

"""Dead letters carry the record's own headers and say what went wrong and where (KIP-1034)."""

from __future__ import annotations

from dataclasses import replace

from streamsapp.processor.handlers import ErrorContext, dead_letter_headers
from streamsapp.record import TaskId

CONTEXT = ErrorContext(
    task_id=TaskId(0, 3),
    node="parse",
    topic="orders",
    partition=3,
    offset=42,
    timestamp=1000,
    headers=[("trace", b"1")],
    key=b"k",
    value=b"v",
)


def raised() -> Exception:
    try:
        raise KeyError("amount")
    except KeyError as error:
        return error


def test_headers_tell_exception_and_place() -> None:
    headers = dead_letter_headers(CONTEXT, raised())
    assert headers[:2] == [
        ("__streams.errors.exception", b"KeyError"),
        ("__streams.errors.message", b"'amount'"),
    ]
    assert headers[3:] == [
        ("__streams.errors.topic", b"orders"),
        ("__streams.errors.partition", b"3"),
        ("__streams.errors.offset", b"42"),
    ]


def test_the_stack_trace_names_the_line_that_raised() -> None:
    headers = dict(dead_letter_headers(CONTEXT, raised()))
    trace = headers["__streams.errors.stacktrace"] or b""
    assert b"in raised" in trace
    assert trace.endswith(b"KeyError: 'amount'\n")


def test_a_punctuator_has_no_place_to_tell() -> None:
    context = replace(CONTEXT, topic=None, partition=None, offset=None)
    assert dead_letter_headers(context, raised())[-3:] == [
        ("__streams.errors.topic", None),
        ("__streams.errors.partition", None),
        ("__streams.errors.offset", None),
    ]


def test_a_huge_message_is_cut_between_characters() -> None:
    message = dict(dead_letter_headers(CONTEXT, ValueError("x" + "ä" * 100_000)))["__streams.errors.message"] or b""
    assert len(message) == 32 * 1024 - 1
    assert message.decode().endswith("ä")

"""The failures that the exception handlers decide about, and what becomes of the record."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from streamsapp import TaskId
from streamsapp.errors import (
    ConfigError,
    DeserializationError,
    FencedError,
    ProcessingError,
    SerializationError,
    StateStoreError,
    StreamsError,
    TaskCorruptedError,
    told_as,
)
from streamsapp.log_format import JsonFormatter
from streamsapp.manifest.settings import as_in_the_manifest
from streamsapp.outgoing import OutputRecord
from streamsapp.processor.handlers import ErrorContext, Response
from streamsapp.serdes.windowed import Windowed
from streamsapp.tasks.failures import FailureHandling
from streamsapp.tasks.remedies import UnwrittenPart
from streamsapp.tasks.task_context import TaskContext
from streamsapp.testing import MockClock
from task_parts import config, handling, raw

RECORD = raw(7, 42, topic="orders", key=b"K", value=b"V", headers=[("trace", b"1")])


class Failures:
    """The failure handling of task 0_3 with record orders-0@7 in process."""

    def __init__(self, **settings: Any) -> None:
        self.context = TaskContext("app", TaskId(0, 3), MockClock(1_000))
        self.context.message = RECORD
        self.emitted: list[OutputRecord] = []
        self.handling: FailureHandling = handling(self.context, config(**settings), self.emitted)

    def fail_in(self, stage: str) -> None:
        error = ValueError("boom")
        if stage == "deserialization":
            self.handling.deserialization("node", RECORD, error)
        elif stage == "processing":
            self.handling.processing("node", error, 42, None)
        else:
            self.handling.serialization("node", "out", error, 42)


STAGES = {
    "deserialization": ("deserialization_exception_handler", DeserializationError),
    "processing": ("processing_exception_handler", ProcessingError),
    "serialization": ("production_exception_handler", SerializationError),
}
every_stage = pytest.mark.parametrize(("stage", "setting", "error"), [(s, *rest) for s, rest in STAGES.items()])


@every_stage
def test_failing_names_node_task_topic_partition_and_offset(stage: str, setting: str, error: type[Exception]) -> None:
    it = Failures()

    with pytest.raises(error, match=r"node node, task 0_3, record orders-0@7.*boom") as raised:
        it.fail_in(stage)
    assert isinstance(raised.value.__cause__, ValueError)
    assert it.context.dropped_records == 0


@every_stage
@pytest.mark.parametrize("answer", [None, "continue"])
def test_a_handler_that_answers_anything_else_lets_the_record_fail(
    stage: str, setting: str, error: type[Exception], answer: Any
) -> None:
    it = Failures(**{setting: lambda context, error: answer})

    with pytest.raises(error, match=r"orders-0@7.*boom"):
        it.fail_in(stage)


def test_what_is_remembered_of_an_error_that_quotes_broken_text_can_be_sent_as_json() -> None:
    it = Failures(processing_exception_handler="continue")

    it.handling.processing("node", ValueError("half a pair: \ud83d"), 42, None)

    (record_error,) = it.context.record_errors.last
    assert record_error.reason == "ValueError: half a pair: \\ud83d"


@every_stage
def test_continuing_drops_the_record_counts_it_and_logs_it(
    stage: str, setting: str, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    it = Failures(**{setting: "continue"})

    with caplog.at_level(logging.WARNING):
        it.fail_in(stage)

    assert it.context.dropped_records == 1
    assert it.emitted == []
    assert "orders-0@7" in caplog.text
    line = json.loads(JsonFormatter().format(caplog.records[-1]))
    assert (line["task"], line["topic"], line["partition"], line["offset"]) == ("0_3", "orders", 0, 7)


@every_stage
def test_a_dead_letter_has_the_original_bytes_and_says_what_went_wrong(
    stage: str, setting: str, error: type[Exception]
) -> None:
    it = Failures(**{setting: "dead_letter", "dead_letter_queue_topic": "dead"})

    it.fail_in(stage)

    ((topic, value, key, partition, _, _, timestamp, headers),) = it.emitted
    assert (topic, key, value, partition, timestamp) == ("dead", b"K", b"V", -1, 42)
    told = dict(headers or [])
    assert told["trace"] == b"1"
    assert told["__streams.errors.exception"] == b"ValueError"
    assert told["__streams.errors.message"] == b"boom"
    assert (told["__streams.errors.topic"], told["__streams.errors.partition"]) == (b"orders", b"0")
    assert told["__streams.errors.offset"] == b"7"
    assert b"ValueError: boom" in (told["__streams.errors.stacktrace"] or b"")


def test_a_handler_is_told_where_it_happened() -> None:
    told: list[tuple[ErrorContext, Exception]] = []

    def handler(context: ErrorContext, error: Exception) -> Response:
        told.append((context, error))
        return Response.CONTINUE

    it = Failures(processing_exception_handler=handler)
    it.fail_in("processing")

    ((context, error),) = told
    assert (context.task_id, context.node, context.topic, context.partition, context.offset) == (
        TaskId(0, 3), "node", "orders", 0, 7
    )  # fmt: skip
    assert (context.key, context.value, context.headers) == (b"K", b"V", [("trace", b"1")])
    assert isinstance(error, ValueError)


def test_a_failing_punctuator_has_no_record_to_name() -> None:
    it = Failures()
    it.context.message = None

    with pytest.raises(ProcessingError, match="node node, task 0_3, in a punctuator"):
        it.fail_in("processing")


def test_a_dead_letter_of_a_punctuator_carries_the_time_it_was_called_with() -> None:
    it = Failures(processing_exception_handler="dead_letter", dead_letter_queue_topic="dead")
    it.context.message = None

    it.handling.processing("node", ValueError("boom"), 77, None)

    ((_, value, key, *_, timestamp, headers),) = it.emitted
    assert (key, value, timestamp) == (None, None, 77)
    assert ("__streams.errors.topic", None) in (headers or [])


def test_a_dead_letter_of_a_record_without_a_time_gets_the_present_one() -> None:
    it = Failures(deserialization_exception_handler="dead_letter", dead_letter_queue_topic="dead")

    it.handling.deserialization("node", raw(0, -1), ValueError("boom"))

    assert it.emitted[0][6] == 1_000


def test_a_handler_that_wants_a_dead_letter_without_a_topic_is_told_what_to_set() -> None:
    it = Failures(processing_exception_handler=lambda context, error: Response.DEAD_LETTER)

    with pytest.raises(ConfigError, match="dead_letter_queue_topic is not set"):
        it.fail_in("processing")


@pytest.mark.parametrize(
    "error",
    [
        ProcessingError("decided at a node further down"),
        SerializationError("decided at a sink"),
        StateStoreError("the disk is full"),
        TaskCorruptedError("state"),
        FencedError("fenced"),
    ],
)
def test_no_handler_can_drop_a_record_for_an_error_that_is_not_its_own(error: StreamsError) -> None:
    it = Failures(processing_exception_handler="continue")

    with pytest.raises(type(error)) as raised:
        it.handling.processing("node", error, 42, None)
    assert raised.value is error


@pytest.mark.parametrize(
    ("part", "place", "message"),
    [
        (UnwrittenPart("value", 1, "string"), "app.py:7",
         ("cannot serialise the value of a record for topic out at node sink (added at app.py:7), task 0_3, record "
          "orders-0@7: got int, the serde of values is string; declare one that fits by Produced(value_serde=...), "
          "e.g. Serdes.long()")),
        (UnwrittenPart("value", 1, "string"), "spec.topology.steps[3].to", "one that fits by valueSerde, e.g. long"),
        (UnwrittenPart("key", Windowed("a", 0, 9), "string"), "app.py:7",
         ("cannot serialise the key of a record for topic out at node sink (added at app.py:7), task 0_3, record "
          "orders-0@7: got Windowed, the serde of keys is string; declare Serdes.time_windowed(Serdes.string(), size), "
          "or Serdes.session_windowed for sessions by Produced(key_serde=...), or give records the key within: "
          "to_stream(lambda w, value: w.key)")),
        (UnwrittenPart("key", Windowed("a", 0, 9), "string"), "spec.topology.steps[3].to",
         "leave keySerde out, or give records the key within: toStream: {mapper: module:function}"),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_written_is_told_by_its_side_with_a_remedy_in_the_users_words(
    part: UnwrittenPart, place: str, message: str
) -> None:
    it = Failures()
    it.handling.places["sink"] = place
    with pytest.raises(SerializationError) as raised:
        it.handling.serialization("sink", "out", _refused(part.given), 42, part)
    assert message in str(raised.value)


def _refused(given: Any) -> Exception:
    try:
        str.encode(given)
    except TypeError as error:
        return error
    raise AssertionError


def test_the_command_line_names_settings_as_the_manifest_does() -> None:
    it = Failures()
    it.handling.places["node"] = "spec.topology.steps[0].stream"
    with pytest.raises(DeserializationError) as raised:
        it.fail_in("deserialization")

    assert "Consumed" not in str(raised.value)
    assert str(raised.value).endswith(
        "declare the serdes that the topic was written with (keySerde and valueSerde, or default_key_serde and "
        "default_value_serde), or let deserialization_exception_handler decide"
    )
    with told_as(as_in_the_manifest):
        assert str(raised.value).endswith(
            "(keySerde and valueSerde, or spec.processing.defaultKeySerde and spec.processing.defaultValueSerde), or "
            "let spec.errors.deserialization decide"
        )

"""Records that could not be written: a handler decides, and a dead letter may be written instead."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from streamsapp import Produced, StreamsBuilder
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.errors import ConfigError, ProductionError
from streamsapp.outgoing import OutputRecord
from streamsapp.processor.handlers import HEADER_EXCEPTION, HEADER_MESSAGE, ErrorContext, Response
from streamsapp.record import RawRecord
from streamsapp.runtime.production_errors import ProductionErrors
from streamsapp.testing import MockClock
from task_parts import config, feed, raw, task_of

ERROR = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")


class Handler:
    """A production exception handler with one answer."""

    def __init__(self, answer: Response) -> None:
        self._answer = answer
        self.asked: list[tuple[ErrorContext, Exception]] = []

    def __call__(self, context: ErrorContext, exception: Exception) -> Response:
        self.asked.append((context, exception))
        return self._answer


class Failing:
    """The part that decides about records, with the output it may add to."""

    def __init__(self, answer: Response, **settings: Any) -> None:
        self.handler = Handler(answer)
        self.collector = RecordCollector(10)
        self.failures = ProductionErrors(
            config(production_exception_handler=self.handler, **settings), self.collector, MockClock(1_234)
        )

    def fail(self, topic: str = "out", error: KafkaError = ERROR) -> None:
        self.failures.failed(error, RawRecord(topic, 3, -1, b"key", b"value", 5, [("h", b"1")]))

    @property
    def added(self) -> list[OutputRecord]:
        sent: list[OutputRecord] = []

        def send(records: list[OutputRecord]) -> list[OutputRecord]:
            sent.extend(records)
            return []

        self.collector.drain(send, 10)
        return sent


@pytest.mark.parametrize("number", [1, 2])
def test_a_record_that_is_given_up_counts_as_dropped_by_the_node_and_task_that_sent_it(number: int) -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out", Produced(name="writing"))
    tasks = [task_of(builder.build(), partition) for partition in range(number)]
    feed(tasks[0], [raw(7, 5)])
    tasks[0].process(tasks[0].control, 10)
    it = Failing(Response.CONTINUE)
    it.failures.tasks = lambda: tasks

    it.fail()

    ((context, _),) = it.handler.asked
    assert (context.node, str(context.task_id)) == ("writing", "0_0" if number == 1 else "-1_-1")
    assert [task.context.dropped_records for task in tasks] == [1, 0][:number]
    (record_error,) = tasks[0].context.record_errors.unwritten.last
    assert (record_error.node, record_error.record, record_error.outcome, record_error.key) == (
        "writing",
        "in-0@≤7",
        "continue",
        b"key",
    )
    sent_by = "task 0_0" if number == 1 else "one of the tasks 0_0, 0_1"
    assert record_error.reason.endswith(f"; sent by node writing, {sent_by}, for a record of in-0@≤7")


def test_a_record_that_fails_names_node_and_task() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out", Produced(name="writing"))
    task = task_of(builder.build())
    it = Failing(Response.FAIL)
    it.failures.tasks = lambda: [task]

    with pytest.raises(ProductionError, match="sent by node writing, task 0_0") as raised:
        it.fail()
    assert raised.value.happened_at["node"] == "writing"
    assert task.context.dropped_records == 0
    assert [each.outcome for each in task.context.record_errors.unwritten.last] == ["fail"]


def test_the_handler_is_shown_the_record_and_told_why() -> None:
    it = Failing(Response.CONTINUE)

    it.fail()

    ((context, error),) = it.handler.asked
    assert (context.topic, context.partition, context.key, context.value) == ("out", 3, b"key", b"value")
    assert (context.timestamp, context.headers) == (5, [("h", b"1")])
    assert isinstance(error, ProductionError)
    assert str(error).startswith("cannot write to topic out: too large; raise message.max.bytes")


def test_a_record_that_is_dropped_is_counted() -> None:
    it = Failing(Response.CONTINUE)

    it.fail()
    it.fail()

    assert it.failures.dropped == 2
    assert it.added == []


def test_a_handler_that_says_fail_fails() -> None:
    it = Failing(Response.FAIL)

    with pytest.raises(ProductionError, match="cannot write to topic out: too large"):
        it.fail()
    assert it.failures.dropped == 0


def test_a_dead_letter_has_the_original_bytes_and_says_what_went_wrong() -> None:
    it = Failing(Response.DEAD_LETTER, dead_letter_queue_topic="dead")

    it.fail()

    ((topic, value, key, partition, _, _, timestamp, headers),) = it.added
    assert (topic, value, key, partition, timestamp) == ("dead", b"value", b"key", -1, 1_234)
    described = dict(headers or [])
    assert b"ProductionError" in (described[HEADER_EXCEPTION] or b"")
    assert b"cannot write to topic out" in (described[HEADER_MESSAGE] or b"")
    assert it.failures.dropped == 1


def test_a_dead_letter_that_cannot_be_written_fails_without_asking() -> None:
    it = Failing(Response.DEAD_LETTER, dead_letter_queue_topic="dead")

    with pytest.raises(ProductionError, match="cannot write to topic dead"):
        it.fail("dead")
    assert it.handler.asked == []


def test_a_changelog_record_is_never_dropped() -> None:
    it = Failing(Response.CONTINUE)

    with pytest.raises(ProductionError, match="app-s-changelog"):
        it.fail("app-s-changelog")
    assert it.handler.asked == []


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION])
def test_no_handler_leaves_out_what_is_no_fault_of_the_record(code: int) -> None:
    it = Failing(Response.CONTINUE)

    with pytest.raises(ProductionError, match="cannot write to topic out"):
        it.fail(error=KafkaError(code))
    assert it.handler.asked == []


@pytest.mark.parametrize("topic", ["app-r-repartition", "other-s-changelog", "app-data"])
def test_the_handler_decides_about_every_other_topic(topic: str) -> None:
    it = Failing(Response.CONTINUE)

    it.fail(topic)

    assert it.failures.dropped == 1


def test_a_dead_letter_without_a_topic_for_it_names_the_setting() -> None:
    it = Failing(Response.DEAD_LETTER)

    with pytest.raises(ConfigError, match="dead_letter_queue_topic is not set"):
        it.fail()
    assert it.failures.dropped == 0


@pytest.mark.parametrize("answer", [None, "continue"])
def test_a_handler_that_answers_anything_else_lets_the_record_fail(answer: Any) -> None:
    it = Failing(answer)

    with pytest.raises(ProductionError, match="cannot write to topic out"):
        it.fail()
    assert it.failures.dropped == 0


def test_a_handler_that_raises_lets_the_record_fail_and_is_told() -> None:
    it = Failing(Response.CONTINUE)
    it.failures._handler = lambda *_: Response["OTHER"]

    with pytest.raises(ProductionError, match=r"to topic out: .*handler raised KeyError: ") as raised:
        it.fail()
    assert isinstance(raised.value.__cause__, KeyError)

"""The log names once a topic that keeps its records for less time than they are old."""

from __future__ import annotations

import logging
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamsapp import Grouped, StreamsBuilder
from streamsapp.clock import Clock
from streamsapp.dsl.options import Consumed, Produced
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.runtime.record_ages import RecordAges
from streamsapp.serdes.serdes import Serdes
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.testing import MockClock
from task_parts import feed, raw, task_of

DAY = 86_400_000
NOW = 1_700_000_000_000
TEXT = Serdes.string()
DEFAULTS = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime", "retention.ms": str(7 * DAY)}


class Topics:
    """The broker's settings of topics."""

    def __init__(self, **settings: str) -> None:
        self.settings = DEFAULTS | {name.replace("_", "."): value for name, value in settings.items()}
        self.asked = 0
        self.failure: Exception | None = None

    def setting(self, topic: str, name: str) -> str:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return self.settings[name]


def copied(age_ms: int) -> StreamTask:
    """A task that has copied a record of this age from ``in`` to ``out``."""
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).to("out", Produced(TEXT, TEXT))
    return _fed(task_of(builder.build()), age_ms)


def _fed(task: StreamTask, age_ms: int) -> StreamTask:
    feed(task, [raw(0, NOW - age_ms)])
    while task.buffered_records:
        task.process(task.control, 10)
    return task


@pytest.fixture
def clock() -> MockClock:
    return MockClock(NOW)


def look(topics: Topics, clock: MockClock, *tasks: StreamTask, times: int = 1) -> None:
    ages = RecordAges(cast(TopicAdmin, topics), cast(Clock, clock))
    for _ in range(times):
        ages.look(tasks)


def test_source_and_sink_are_told_once_with_the_remedy(clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    look(Topics(), clock, copied(300 * DAY), copied(400 * DAY), times=3)

    source, sink = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert source.startswith("topic in keeps records for 7 days (retention.ms=604800000), and the application reads ")
    assert "records of 2023-01-18 there" in source
    assert "kafka-configs.sh --alter --topic in --add-config retention.ms=-1 keeps all" in source
    assert sink.startswith("topic out keeps records for 7 days (retention.ms=604800000), and the application writes ")


@pytest.mark.parametrize(
    "settings",
    [{"retention_ms": "-1"}, {"cleanup_policy": "compact"}, {"message_timestamp_type": "LogAppendTime"},
     {"retention_ms": str(301 * DAY)}],
)  # fmt: skip
def test_nothing_is_told_of_a_topic_that_keeps_them(
    settings: dict[str, str], clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    topics = Topics(**settings)
    look(topics, clock, copied(300 * DAY), times=2)

    assert caplog.records == []
    assert topics.asked == 6  # three settings of two topics, once


def test_the_broker_is_asked_nothing_about_records_of_now(clock: MockClock) -> None:
    topics = Topics()
    look(topics, clock, copied(1000))

    assert topics.asked == 0


def test_repartition_topics_keep_all(clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, TEXT)).group_by(lambda key, value: value, Grouped(TEXT, TEXT))
    grouped.count()
    look(Topics(), clock, _fed(task_of(builder.build()), 300 * DAY))

    assert [record.getMessage().split()[1] for record in caplog.records] == ["in"]


def test_a_broker_that_does_not_say_is_left_alone_for_a_while(
    clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    topics = Topics()
    topics.failure = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    task = copied(300 * DAY)
    ages = RecordAges(cast(TopicAdmin, topics), cast(Clock, clock))
    ages.look([task])
    ages.look([task])
    assert topics.asked == 1
    topics.failure = None
    clock.advance(61_000)
    ages.look([task])

    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 2


def test_a_task_that_does_not_run_is_not_looked_at(clock: MockClock) -> None:
    topics, task = Topics(), copied(300 * DAY)
    task.state = TaskState.RESTORING
    look(topics, clock, task)

    assert topics.asked == 0

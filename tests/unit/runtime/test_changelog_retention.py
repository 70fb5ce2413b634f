"""The broker keeps the changelogs of windows, sessions and versions for as long as their stores do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamsapp import SessionWindows, StreamsBuilder, TimeWindows, UnlimitedWindows
from streamsapp.clock import Clock
from streamsapp.dsl.options import Consumed, Grouped, Materialized
from streamsapp.kafka.requests import NoAnswerError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.runtime.changelog_retention import ChangelogRetention
from streamsapp.serdes.serdes import Serdes
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.testing import MockClock
from task_parts import feed, raw, task_of

HOUR, DAY = 3_600_000, 86_400_000
NOW = 1_700_000_000_000
TEXT = Serdes.string()


class Topics:
    """The broker's settings of topics, which it may refuse to change."""

    def __init__(self, now: str) -> None:
        self.now, self.asked = now, 0
        self.failure: Exception | None = None

    def setting(self, topic: str, name: str) -> str:
        self.asked += 1
        return self.now

    def set(self, topic: str, name: str, value: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.now = value


def counted(number: int = 0, **options: Any) -> StreamTask:
    """A task that counts per minute, and keeps the counts for an hour."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key(Grouped(TEXT, TEXT))
    grouped.windowed_by(TimeWindows.of(60_000)).count(Materialized("counts", store="memory", retention=HOUR, **options))
    return task_of(builder.build(), number)


def versioned() -> StreamTask:
    builder = StreamsBuilder()
    builder.table("in", Consumed(TEXT, TEXT), Materialized("rows", versioned=HOUR))
    return task_of(builder.build())


def at(task: StreamTask, timestamp: int, offset: int = 0) -> StreamTask:
    """The task has read a record of this time."""
    feed(task, [raw(offset, timestamp, partition=task.id.partition, key=b"k")])
    while task.buffered_records:
        task.process(task.control, 10)
    return task


def retention(topics: Topics, clock: MockClock) -> ChangelogRetention:
    return ChangelogRetention(cast(TopicAdmin, topics), cast(Clock, clock))


def test_records_of_last_year_are_kept_for_as_long_as_the_store_has_them(caplog: pytest.LogCaptureFixture) -> None:
    topics, clock = Topics(str(HOUR + DAY)), MockClock(NOW)
    year = 365 * DAY

    retention(topics, clock).see_to([at(counted(), NOW - year), at(counted(1), NOW - 2 * year)])

    assert 2 * year + HOUR + DAY <= int(topics.now) <= 2 * year + HOUR + DAY + 60_000
    (told,) = caplog.messages
    for part in ("app-counts-changelog", "732 days", "retention.ms=", "task 0_1 is 2021-11-14", f"set {HOUR + DAY}"):
        assert part in told


def test_versions_of_last_year_are_not_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    topics, clock = Topics(str(HOUR + DAY)), MockClock(NOW)

    task = at(versioned(), NOW - 365 * DAY)
    retention(topics, clock).see_to([task])
    task.stores.close()

    assert int(topics.now) == 365 * DAY + HOUR + DAY


def test_the_broker_is_asked_nothing_where_the_records_are_of_today() -> None:
    topics, clock = Topics(str(HOUR + DAY)), MockClock(NOW)

    retention(topics, clock).see_to([at(counted(), NOW - HOUR), at(counted(1), NOW + DAY), counted(2)])

    assert topics.asked == 0


@pytest.mark.parametrize("now", ["-1", str(400 * DAY)])
def test_a_topic_that_keeps_enough_is_left_alone_and_asked_about_once(now: str) -> None:
    topics, clock = Topics(now), MockClock(NOW)
    task, kept = at(counted(), NOW - 365 * DAY), retention(topics, clock)

    for _ in range(3):
        kept.see_to([task])

    assert (topics.now, topics.asked) == (now, 1)


def test_a_silent_input_does_not_make_the_broker_delete_what_the_store_has() -> None:
    topics, clock = Topics(str(HOUR + DAY)), MockClock(NOW)
    task, kept = at(counted(), NOW), retention(topics, clock)
    for _ in range(10 * 24):
        clock.advance(HOUR)
        kept.see_to([task])
        assert int(topics.now) >= clock.now_ms() - NOW + HOUR, "the window of now lives for an hour of stream time"
    assert topics.asked <= 10 * 24


def test_a_task_that_is_restored_says_nothing_of_the_time() -> None:
    topics, clock = Topics(str(HOUR + DAY)), MockClock(NOW)
    task = at(counted(), NOW - 365 * DAY)
    task.state = TaskState.RESTORING

    retention(topics, clock).see_to([task])

    assert topics.asked == 0


def test_an_instance_that_sets_less_at_the_same_moment_is_overruled_by_the_next_look() -> None:
    topics, clock = Topics(str(HOUR + DAY)), MockClock(NOW)
    task, kept = at(counted(), NOW - 365 * DAY), retention(topics, clock)
    kept.see_to([task])
    raised, topics.now = topics.now, str(100 * DAY)

    kept.see_to([task])
    assert topics.now == raised
    kept.see_to([task])
    asked = topics.asked
    kept.see_to([task])
    assert topics.asked == asked, "a setting that was found to be right is believed"


def test_a_setting_that_somebody_lowered_is_raised_again() -> None:
    topics, clock = Topics(str(HOUR + DAY)), MockClock(NOW)
    task, kept = at(counted(), NOW - 365 * DAY), retention(topics, clock)
    kept.see_to([task])

    topics.now = str(HOUR + DAY)
    clock.advance(300_000)
    kept.see_to([task])

    assert int(topics.now) > 365 * DAY


def test_what_the_program_says_of_one_topic_counts() -> None:
    topics, clock = Topics("5"), MockClock(NOW)

    retention(topics, clock).see_to([at(counted(log_config={"retention.ms": "5"}), NOW - 365 * DAY)])

    assert topics.now == "5"


def test_windows_without_an_end_are_kept_for_as_long_as_kafka_can_say() -> None:
    longest = (1 << 63) - 1
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key(Grouped(TEXT, TEXT))
    grouped.windowed_by(UnlimitedWindows.of()).count(Materialized("counts", store="memory"))
    grouped.windowed_by(SessionWindows.of(1, grace=longest)).count(Materialized("sessions", store="memory"))
    topology = builder.build()
    stores = {store.name: store for part in topology.sub_topologies() for store in part.stores}
    for name in ("counts", "sessions"):
        settings = stores[name].type.changelog_settings
        assert settings["retention.ms"] == str(longest)

    topics = Topics(str(longest))
    kept = retention(topics, MockClock(NOW))
    for _ in range(2):
        kept.see_to([at(task_of(topology), NOW - 365 * DAY)])
    assert topics.now == str(longest)

    topics.now = str(HOUR)
    retention(topics, MockClock(NOW)).see_to([at(task_of(topology), NOW - 365 * DAY)])
    assert topics.now == str(longest)


REFUSED = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "no rights"))


@pytest.mark.parametrize(
    ("failure", "told"), [(REFUSED, "no rights"), (NoAnswerError("it closes"), "it closes"), (TimeoutError(), "")]
)
def test_a_broker_that_refuses_is_asked_again_later_and_the_log_says_what_may_be_lost(
    caplog: pytest.LogCaptureFixture, failure: Exception, told: str
) -> None:
    topics, clock = Topics(str(HOUR + DAY)), MockClock(NOW)
    topics.failure = failure
    task, kept = at(counted(), NOW - 365 * DAY), retention(topics, clock)

    kept.see_to([task])
    kept.see_to([task])
    (logged,) = caplog.messages
    for part in ("may lose what store counts of task 0_0 has", "grant ALTER_CONFIGS", told):
        assert part in logged

    topics.failure = None
    clock.advance(60_000)
    kept.see_to([task])
    assert int(topics.now) > 365 * DAY

"""The driver answers what a test gives wrongly with the topic, the serde, the type and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from driven import Drive, Driven, as_text, number, text
from streamsapp import Materialized, Produced, Record, Serdes, StreamsBuilder, Topology, Windowed
from streamsapp.errors import DeserializationError, SerializationError, TopologyError, UserInputError
from streamsapp.serdes.api import AnySerde
from streamsapp.testing import TestInputTopic
from task_parts import through


def test_an_output_topic_that_nothing_writes_is_refused_with_those_that_are(drive: Drive) -> None:
    with pytest.raises(
        TopologyError, match=r"the topology never writes topic otu; it writes: out; did you mean 'out'\?"
    ):
        drive(through()).output("otu")


def test_changelogs_repartition_topics_and_dead_letters_are_written(drive: Drive) -> None:
    builder = StreamsBuilder()
    builder.stream("in", as_text).group_by(lambda _, word: word).count(Materialized("counts")).to_stream().to(
        "out", Produced(value_serde=number)
    )
    it = drive(builder.build(), dead_letter_queue_topic="letters")
    for topic in ("app-counts-changelog", "app-counts-repartition", "letters", "out"):
        assert it.output(topic).is_empty()
    with pytest.raises(TopologyError, match="never writes topic in; it writes: app-counts-changelog, app-counts-rep"):
        it.output("in")


def test_a_sink_that_chooses_by_record_may_write_any_topic(drive: Drive) -> None:
    builder = StreamsBuilder()
    builder.stream("in").to(lambda key, value, context: value)
    it = drive(builder.build())
    output = it.output("chosen")
    it.input().pipe_input("k", "chosen")
    assert output.read_key_values() == [("k", "chosen")]


@pytest.mark.parametrize(
    ("serde", "value", "told"),
    [
        (text, 5, "the value 5 is of type int, which its value serde 'string' does not write; declare Serdes.long()"),
        (
            text,
            {"a": 1},
            r"the value {'a': 1} is of type dict, .* does not write; declare Serdes.json\(\) for the value",
        ),
        (text, Windowed("a", 0, 1), r"of type Windowed, .*; declare Serdes.time_windowed\(…\), or give its .key"),
        (number, "a", r"of type str, .* serde 'long' does not write: got str, .*; declare Serdes.string\(\)"),
        (number, 1 << 63, "of type int, .*: 9223372036854775808 does not fit long: .*; give a value that it can write"),
        (
            Serdes.of(lambda value: value, bytes),
            "a",
            "serde 'custom' does not write: its serializer gave str, not bytes",
        ),
    ],
)
def test_a_value_that_its_serde_does_not_write_is_named(drive: Drive, serde: AnySerde, value: Any, told: str) -> None:
    it = drive(through())
    topic = it.driver.create_input_topic("in", text, serde)
    with pytest.raises(SerializationError, match=f"topic in: .*{told}"):
        topic.pipe_input("k", value)
    assert it.output().is_empty()


def test_a_key_that_its_serde_does_not_write_is_named(drive: Drive) -> None:
    with pytest.raises(SerializationError, match="topic in: the key 5 is of type int, which its key serde 'string'"):
        drive(through()).input().pipe_input(5, "v")


def test_a_result_that_the_serde_of_the_test_does_not_read_is_named(drive: Drive) -> None:
    it = drive(through())
    it.input().pipe_input("k", "v")
    with pytest.raises(DeserializationError, match=r"topic out: its value serde 'long' does not read b'v': .*; create"):
        it.driver.create_output_topic("out", text, number).read_value()


@pytest.mark.parametrize(
    ("pipe", "told"),
    [
        (lambda topic: topic.pipe_key_values(["ab"]), "record 1 of topic in is a str: 'ab', not a pair"),
        (lambda topic: topic.pipe_key_values([("a", "b"), ("c",)]), "record 2 of topic in is a tuple of 1"),
        (
            lambda topic: topic.pipe_records([("a", "b")]),
            "topic in: .* is not a Record; pairs .* go to pipe_key_values",
        ),
        (lambda topic: topic.pipe_input("a", "b", "now"), "milliseconds since 1970"),
        (lambda topic: topic.pipe_input("a", "b", datetime(2026, 1, 1)), "zone"),  # noqa: DTZ001 - refused for it
    ],
)
def test_what_is_no_record_is_refused(drive: Drive, pipe: Callable[[TestInputTopic], None], told: str) -> None:
    with pytest.raises(UserInputError, match=told):
        pipe(drive(through()).input())


@pytest.mark.parametrize("create", [lambda it: it.create_input_topic, lambda it: it.create_output_topic])
def test_a_serde_that_is_none_is_named(drive: Drive, create: Callable[[Any], Callable[..., Any]]) -> None:
    it = drive(through()).driver
    topic = "in" if create(it) == it.create_input_topic else "out"
    with pytest.raises(UserInputError, match=f"topic {topic}: value_serde=<class 'str'> is not a serde"):
        create(it)(topic, text, str)


def test_times_are_given_as_pythons_own(drive: Drive) -> None:
    it = drive(through())
    start = datetime(2026, 1, 1, tzinfo=UTC)
    topic = it.driver.create_input_topic("in", text, text, start, timedelta(seconds=1))
    topic.pipe_key_values([("k", "a"), ("k", "b")])
    topic.advance_time(timedelta(minutes=1))
    topic.pipe_input("k", "c")
    topic.pipe_input("k", "d", start)
    begin = 1_767_225_600_000
    assert [each.timestamp for each in it.output().read_records()] == [begin, begin + 1_000, begin + 62_000, begin]


def test_an_absent_store_is_answered_with_those_that_there_are(drive: Drive) -> None:
    def counted() -> Topology:
        builder = StreamsBuilder()
        builder.stream("in").group_by_key().count(Materialized("counts"))
        return builder.build()

    it: Driven = drive(counted())
    with pytest.raises(KeyError, match="the topology has no store 'count'; it has: counts; did you mean 'counts'"):
        it.driver.get_key_value_store("count")
    with pytest.raises(KeyError, match="store 'counts' is of another kind"):
        it.driver.get_window_store("counts")


def test_records_that_are_given_right_go_through(drive: Drive) -> None:
    it = drive(through())
    it.input().pipe_key_values([["a", "1"], ("b", None)])  # type: ignore[list-item]
    it.input().pipe_record(Record("c", "3", 7))
    assert it.output().read_key_values() == [("a", "1"), ("b", None), ("c", "3")]

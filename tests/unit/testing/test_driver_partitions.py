"""``TopologyTestDriver(topology, partitions=...)``: the tasks, partitions and times that an application has."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamsapp import (
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Repartitioned,
    Serdes,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from streamsapp.errors import TopicError, TopologyError, UserInputError
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()
PARTITIONS = 4
WORDS = [f"word {number}" for number in range(40)]


def _counted(partitions: int | None = None) -> Topology:
    """Counts the words of lines: a repartition topic lies between."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", Consumed(TEXT, TEXT)).flat_map_values(str.split).select_key(lambda _, word: word)
    if partitions is not None:
        lines = lines.repartition(Repartitioned("words", TEXT, TEXT, partitions=partitions))
    counts = lines.group_by_key(Grouped(TEXT, TEXT, name="counted")).count(
        Materialized(TEXT, LONG, store_name="counts")
    )
    counts.to_stream().to("counts-out", Produced(TEXT, LONG))
    return builder.build()


def _where(word: str, partitions: int = PARTITIONS) -> int:
    return partition_for(word.encode(), partitions)


def test_each_partition_has_the_state_of_its_keys() -> None:
    with TopologyTestDriver(_counted(), partitions=PARTITIONS) as driver:
        lines = driver.create_input_topic("lines", TEXT, TEXT)
        for number in range(PARTITIONS):
            lines.pipe_input(None, "a b c d e", partition=number)
        stores = [driver.get_key_value_store("counts", number) for number in range(PARTITIONS)]
        for word in "abcde":
            assert [store.get(word) for store in stores] == [
                PARTITIONS if number == _where(word) else None for number in range(PARTITIONS)
            ]
        assert len({_where(word) for word in "abcde"}) > 1


def test_results_go_where_kafkas_producer_sends_them_and_are_read_by_partition() -> None:
    with TopologyTestDriver(_counted(), partitions=PARTITIONS) as driver:
        driver.create_input_topic("lines", TEXT, TEXT).pipe_values(word.replace(" ", "-") for word in WORDS)
        for number in range(PARTITIONS):
            part = driver.create_output_topic("counts-out", TEXT, LONG, partition=number)
            keys = [key for key, _ in part.read_key_values()]
            assert keys
            assert {_where(key) for key in keys} == {number}
            assert part.is_empty()
            with pytest.raises(LookupError, match=f"to partition {number} of topic counts-out"):
                part.read_record()
        assert driver.create_output_topic("counts-out", TEXT, LONG).is_empty()


def test_a_record_goes_to_the_partition_of_its_key_and_those_without_one_are_dealt_in_turn() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).process(_Place).to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), partitions={"in": PARTITIONS}) as driver:
        records, out = driver.create_input_topic("in", TEXT, TEXT), driver.create_output_topic("out", TEXT, TEXT)
        records.pipe_key_values((word, "x") for word in WORDS)
        assert out.read_key_values() == [(word, f"0_{_where(word)} in-{_where(word)}") for word in WORDS]
        records.pipe_values("x" * (PARTITIONS + 1))
        assert [value.split()[0] for value in out.read_values()] == ["0_0", "0_1", "0_2", "0_3", "0_0"]


class _Place(Processor):
    """Sends on where it runs, and where the record came from."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        metadata = self.context.record_metadata
        assert metadata is not None
        place = f"{self.context.task_id} {metadata.topic}-{metadata.partition}"
        self.context.forward(record.with_value(place))


def test_each_task_has_a_stream_time_of_its_own() -> None:
    builder = StreamsBuilder()
    (
        builder.stream("in", Consumed(TEXT, TEXT))
        .group_by_key(Grouped(TEXT, TEXT))
        .windowed_by(TimeWindows.of(10))
        .count(Materialized("windows", TEXT, LONG))
    )
    late, key = "late", next(word for word in WORDS if _where(word) != _where("late"))

    def found(**options: Any) -> Any:
        with TopologyTestDriver(builder.build(), **options) as driver:
            records = driver.create_input_topic("in", TEXT, TEXT)
            records.pipe_input(key, "x", 1_000_000)
            records.pipe_input(late, "x", 0)
            where = {"partition": _where(late)} if options else {}
            return driver.get_window_store("windows", **where).fetch(late, 0)

    assert found() is None
    assert found(partitions=PARTITIONS) == 1


def test_a_repartition_topic_has_the_partitions_that_it_is_declared_with() -> None:
    with TopologyTestDriver(_counted(partitions=7), partitions=2) as driver:
        driver.create_input_topic("lines", TEXT, TEXT).pipe_values(word.replace(" ", "-") for word in WORDS)
        stores = [driver.get_key_value_store("counts", number) for number in range(7)]
        for word in WORDS:
            assert stores[_where(word.replace(" ", "-"), 7)].get(word.replace(" ", "-")) == 1
        through = driver.create_output_topic("test-words-repartition", TEXT, TEXT, partition=6)
        assert through.queue_size() == sum(_where(word.replace(" ", "-"), 7) == 6 for word in WORDS) > 0


def test_a_join_finds_the_partner_of_the_same_partition_only() -> None:
    builder = StreamsBuilder()
    names = builder.table("names", Consumed(TEXT, TEXT), Materialized("names", TEXT, TEXT))
    builder.stream("ids", Consumed(TEXT, TEXT)).join(names, "{} {}".format, Joined(TEXT, TEXT, TEXT)).to(
        "out", Produced(TEXT, TEXT)
    )
    with TopologyTestDriver(builder.build(), partitions=PARTITIONS) as driver:
        ids, out = driver.create_input_topic("ids", TEXT, TEXT), driver.create_output_topic("out", TEXT, TEXT)
        driver.create_input_topic("names", TEXT, TEXT).pipe_input("k", "name")
        ids.pipe_input("k", "found")
        ids.pipe_input("k", "elsewhere", partition=(_where("k") + 1) % PARTITIONS)
        assert out.read_values() == ["found name"]


def test_topics_that_are_joined_and_not_co_partitioned_are_refused() -> None:
    builder = StreamsBuilder()
    names = builder.table("names", Consumed(TEXT, TEXT))
    builder.stream("ids", Consumed(TEXT, TEXT)).join(names, "{} {}".format).to("out", Produced(TEXT, TEXT))
    with pytest.raises(TopicError, match=r"not co-partitioned \(ids: 3, names: 2\)"):
        TopologyTestDriver(builder.build(), partitions={"ids": 3, "names": 2})


def test_a_partitioner_is_given_the_number_of_partitions_and_its_choice_is_seen() -> None:
    asked: list[int] = []

    def last(topic: str, key: Any, value: Any, partitions: int) -> int:
        asked.append(partitions)
        return partitions - 1

    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).to("out", Produced(TEXT, TEXT, partitioner=last))
    with TopologyTestDriver(builder.build(), partitions={"in": 2, "out": 5}) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_key_values([("a", "x"), ("b", "y")])
        assert asked == [5, 5]
        assert driver.create_output_topic("out", TEXT, TEXT, partition=4).read_values() == ["x", "y"]


def test_a_global_table_is_seen_by_all_tasks() -> None:
    builder = StreamsBuilder()
    rates = builder.global_table("rates", Consumed(TEXT, TEXT), Materialized("rates", TEXT, TEXT))
    builder.stream("in", Consumed(TEXT, TEXT)).join(rates, lambda _, value: value, "{} {}".format).to(
        "out", Produced(TEXT, TEXT)
    )
    with TopologyTestDriver(builder.build(), partitions=PARTITIONS) as driver:
        driver.create_input_topic("rates", TEXT, TEXT).pipe_input("euro", "1.1")
        records = driver.create_input_topic("in", TEXT, TEXT)
        for number in range(PARTITIONS):
            records.pipe_input(None, "euro", partition=number)
        assert driver.create_output_topic("out", TEXT, TEXT).read_values() == ["euro 1.1"] * PARTITIONS
        assert driver.get_key_value_store("rates").get("euro") == "1.1"


def test_the_wall_clock_calls_every_task() -> None:
    class Ticks(Processor):
        def init(self, context: ProcessorContext) -> None:
            context.schedule(1000, PunctuationType.WALL_CLOCK_TIME, lambda at: self._tick(context, at))

        def _tick(self, context: ProcessorContext, at: int) -> None:
            context.forward(Record(str(context.task_id), str(at), at))

        def process(self, record: Record) -> None:
            raise AssertionError("no record comes")

    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).process(Ticks).to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), partitions=3) as driver:
        driver.advance_wall_clock_time(1000)
        out = driver.create_output_topic("out", TEXT, TEXT).read_key_values()
        assert sorted(out) == [("0_0", "1000"), ("0_1", "1000"), ("0_2", "1000")]


def test_topics_that_a_pattern_matches_are_those_that_are_given() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("day-.*"), Consumed(TEXT, TEXT)).process(_Place).to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), partitions={"day-1": 2, "day-2": 1}) as driver:
        driver.create_input_topic("day-1", TEXT, TEXT).pipe_input(None, "x", partition=1)
        driver.create_input_topic("day-2", TEXT, TEXT).pipe_input(None, "x")
        assert driver.create_output_topic("out", TEXT, TEXT).read_values() == ["0_1 day-1-1", "0_0 day-2-0"]
        with pytest.raises(TopologyError, match="no source of the topology reads topic day-3"):
            driver.create_input_topic("day-3", TEXT, TEXT)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "4", {"lines": 0}, {"lines": "4"}, None])
def test_a_number_of_partitions_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(UserInputError, match="give a whole number of at least 1"):
        TopologyTestDriver(_counted(), partitions=wrong)


def test_a_number_for_a_topic_of_another_name_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"neither reads nor writes topic line.*did you mean 'lines'"):
        TopologyTestDriver(_counted(), partitions={"line": 4})


def test_a_partition_that_a_topic_does_not_have_is_refused() -> None:
    with TopologyTestDriver(_counted(), partitions=2) as driver:
        lines = driver.create_input_topic("lines", TEXT, TEXT)
        for wrong in (2, -1):
            with pytest.raises(UserInputError, match=f"topic lines has 2 partitions, and {wrong} is none of them"):
                lines.pipe_input(None, "a", partition=wrong)
        with pytest.raises(UserInputError, match="topic counts-out has 2 partitions, and 2 is none"):
            driver.create_output_topic("counts-out", TEXT, LONG, partition=2)


def test_a_store_in_several_partitions_needs_the_partition() -> None:
    with TopologyTestDriver(_counted(), partitions=2) as driver:
        for wrong in (None, 2):
            with pytest.raises(UserInputError, match=f"partitions 0, 1; name one of them with partition=, got {wrong}"):
                driver.get_state_store("counts", partition=wrong)
        with pytest.raises(KeyError, match="has no store 'count'"):
            driver.get_state_store("count", partition=0)

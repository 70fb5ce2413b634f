"""``TopologyTestDriver``: a topology in a unit test, record by record, as Kafka Streams' own driver runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from driven import Drive, as_text, number, text
from streamsapp import (
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
)
from streamsapp.dsl.options import Materialized, Produced
from streamsapp.errors import DeserializationError, ProcessingError, TopologyError
from streamsapp.record import RecordMetadata
from streamsapp.testing import MockClock, TopologyTestDriver
from task_parts import Each, forwards, through


def word_count() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("in", as_text).flat_map_values(str.split).group_by(lambda _, word: word)
    words.count(Materialized("counts")).to_stream().to("out", Produced(key_serde=text, value_serde=number))
    return builder.build()


# ---- records in and out ------------------------------------------------------------------------------------------


def test_a_record_keeps_key_value_timestamp_and_headers(drive: Drive) -> None:
    it = drive(through())

    it.input().pipe_input("k", "v", 5, headers=[("h", b"1"), ("h", None)])

    assert it.output().read_record() == Record("k", "v", 5, [("h", b"1"), ("h", None)])


def test_records_are_read_oldest_first_and_once(drive: Drive) -> None:
    it = drive(through())
    output = it.output()
    assert output.is_empty()
    it.input().pipe_key_values([("a", "1"), ("b", "2"), ("a", "3")])

    assert output.queue_size() == 3
    assert output.read_key_value() == ("a", "1")
    assert output.read_value() == "2"
    assert [record.value for record in output.read_records()] == ["3"]
    assert output.is_empty()


def test_values_and_whole_records_go_in_and_out_as_lists(drive: Drive) -> None:
    it = drive(through())
    it.input().pipe_records([Record("a", "1", 5), Record("b", "2", 6, [("h", b"x")])])
    it.input().pipe_values(["3"])

    assert it.output().read_record().timestamp == 5
    assert it.output().read_values() == ["2", "3"]


def test_reading_more_than_was_written_names_the_topic(drive: Drive) -> None:
    with pytest.raises(LookupError, match=r"nothing \(more\) was written to topic out"):
        drive(through()).output().read_record()


def test_the_last_value_of_each_key_can_be_read_as_a_map(drive: Drive) -> None:
    it = drive(through())
    it.input().pipe_key_values([("a", "1"), ("b", "2"), ("a", "3")])

    assert it.output().read_key_values_to_map() == {"a": "3", "b": "2"}


def test_null_keys_and_values_pass(drive: Drive) -> None:
    it = drive(through())
    it.input().pipe_values(["v"])
    it.input().pipe_input("k", None)

    assert it.output().read_key_values() == [(None, "v"), ("k", None)]


def test_a_topic_that_nothing_reads_is_refused_with_those_that_are(drive: Drive) -> None:
    with pytest.raises(TopologyError, match="no source of the topology reads topic other; it reads: in"):
        drive(through()).input("other")


def test_offsets_and_partitions_are_those_of_the_piped_records(drive: Drive) -> None:
    seen: list[RecordMetadata | None] = []
    it = drive(through(lambda context, record: seen.append(context.record_metadata)))
    topic = it.input()

    topic.pipe_input("k", "v")
    topic.pipe_input("k", "v")
    topic.pipe_input("k", "v", partition=2)

    assert seen == [("in", 0, 0), ("in", 0, 1), ("in", 2, 0)]


# ---- time --------------------------------------------------------------------------------------------------------


def test_records_without_a_time_get_the_topics_own_which_advances(drive: Drive) -> None:
    it = drive(through())
    topic = it.input(start_ms=100, auto_advance_ms=10)

    topic.pipe_input("k", "a")
    topic.pipe_input("k", "b")
    topic.pipe_input("k", "c", timestamp_ms=7)
    topic.advance_time(1_000)
    topic.pipe_input("k", "d")

    assert [record.timestamp for record in it.output().read_records()] == [100, 110, 7, 1_120]


class Ticks(Processor):
    def __init__(self, kind: PunctuationType, start: int | None = None) -> None:
        self._kind, self._start = kind, start

    def init(self, context: ProcessorContext) -> None:
        context.schedule(10, self._kind, lambda now: context.forward(Record("tick", str(now), now)), self._start)

    def process(self, record: Record) -> None:
        """Only ticks come out."""


def ticking(kind: PunctuationType, start: int | None = None) -> Topology:
    topology = Topology().add_source("source", "in").add_processor("node", lambda: Ticks(kind, start), "source")
    return topology.add_sink("sink", "out", "node")


def test_stream_time_callbacks_fire_with_the_records_that_move_stream_time(drive: Drive) -> None:
    it = drive(ticking(PunctuationType.STREAM_TIME))
    topic = it.input()
    for timestamp in (1, 9, 25, 22, 30):
        topic.pipe_input("k", "v", timestamp)
    it.driver.advance_wall_clock_time(1_000)

    assert [record.timestamp for record in it.output().read_records()] == [1, 25, 30]


def test_wall_clock_callbacks_fire_when_the_clock_is_moved(drive: Drive) -> None:
    it = drive(ticking(PunctuationType.WALL_CLOCK_TIME), wall_clock_ms=500)
    it.input().pipe_input("k", "v", 10_000)
    assert it.output().is_empty()

    for step in (9, 1, 35):
        it.driver.advance_wall_clock_time(step)

    assert [record.timestamp for record in it.output().read_records()] == [510, 545]


def test_a_wall_clock_callback_that_starts_now_fires_when_the_clock_is_moved_and_not_with_a_record(
    drive: Drive,
) -> None:
    it = drive(ticking(PunctuationType.WALL_CLOCK_TIME, start=500), wall_clock_ms=500)
    it.input().pipe_input("k", "v", 10_000)
    assert it.output().is_empty()

    it.driver.advance_wall_clock_time(3)

    assert [record.timestamp for record in it.output().read_records()] == [503]


def test_a_clock_cannot_go_back() -> None:
    clock = MockClock(5)

    with pytest.raises(ValueError, match="time cannot go back by 1 ms"):
        clock.advance(-1)
    assert (clock.now_ms(), clock.monotonic()) == (5, 0.005)


def test_an_idle_input_holds_records_back_until_the_clock_was_moved(drive: Drive) -> None:
    it = drive(through(topics=("in", "other")), max_task_idle_ms=1_000)
    it.input().pipe_input("k", "v")
    assert it.output().is_empty()

    it.driver.advance_wall_clock_time(1_000)

    assert it.output().read_value() == "v"


# ---- topologies --------------------------------------------------------------------------------------------------


def test_records_go_to_the_named_child_only(drive: Drive) -> None:
    def route(context: ProcessorContext, record: Record) -> None:
        context.forward(record, f"{record.value}-sink")

    topology = Topology().add_source("source", "in").add_processor("route", lambda: Each(route), "source")
    topology.add_sink("red-sink", "red", "route").add_sink("blue-sink", "blue", "route")
    it = drive(topology)
    it.input().pipe_values(["red", "blue", "red"])

    assert [record.value for record in it.output("red").read_records()] == ["red", "red"]
    assert [record.value for record in it.output("blue").read_records()] == ["blue"]


def test_a_topic_chosen_per_record_can_be_read(drive: Drive) -> None:
    topology = Topology().add_source("source", "in").add_sink("sink", lambda k, v, m: f"to-{v}", "source")
    it = drive(topology)
    it.input().pipe_values(["a", "b"])

    assert it.driver.produced_topic_names == {"to-a", "to-b"}
    assert it.output("to-b").read_value() == "b"


def test_a_pattern_reads_every_topic_that_matches(drive: Drive) -> None:
    topology = Topology().add_source("source", pattern="in-.*").add_sink("sink", "out", "source")
    it = drive(topology)

    it.input("in-a").pipe_input("k", "1")
    it.input("in-b").pipe_input("k", "2")

    assert [record.value for record in it.output().read_records()] == ["1", "2"]
    with pytest.raises(TopologyError, match="no source of the topology reads topic xin-a"):
        it.input("xin-a")


def test_what_is_written_to_a_topic_that_is_read_is_fed_back(drive: Drive) -> None:
    topology = Topology().add_source("first", "in").add_sink("to-between", "between", "first")
    topology.add_source("second", "between").add_processor("node", lambda: Each(forwards), "second")
    topology.add_sink("to-out", "out", "node")
    it = drive(topology)

    it.input().pipe_input("k", "v", 3)

    assert it.output("between").read_value() == "v"
    assert it.output().read_record() == Record("k", "v", 3)


def test_internal_topics_have_their_full_names(drive: Drive) -> None:
    it = drive(word_count())
    it.input().pipe_input(None, "a b")

    assert it.driver.produced_topic_names == {"app-counts-repartition", "app-counts-changelog", "out"}
    changes = it.driver.create_output_topic("app-counts-changelog", text, Serdes.bytes())
    assert [record.key for record in changes.read_records()] == ["a", "b"]


def test_every_record_is_committed_before_the_next(drive: Drive) -> None:
    it = drive(word_count())
    it.input().pipe_values(["a", "a", "a"])

    changes = it.driver.create_output_topic("app-counts-changelog", text, Serdes.bytes())
    assert len(changes.read_records()) == 3, "the changelog has each value, not only the last"


# ---- stores ------------------------------------------------------------------------------------------------------


def test_a_store_can_be_read_with_and_without_its_timestamps(drive: Drive) -> None:
    it = drive(word_count())
    it.input().pipe_input(None, "a b a", 8)
    values = it.driver.get_key_value_store("counts")

    assert it.driver.get_state_store("counts").get("a") == (2, 8)
    assert values.get("a") == 2
    assert values.get("none") is None
    assert list(values.all()) == [("a", 2), ("b", 1)]
    assert list(values.range("b", "z")) == [("b", 1)]
    assert values.approximate_num_entries() >= 2


def test_a_store_can_be_filled_before_records_are_piped(drive: Drive) -> None:
    def look_up(context: ProcessorContext, record: Record) -> None:
        context.forward(record.with_value(context.get_state_store("names").get(record.key)))

    supplier = Stores.persistent_key_value_store("names")
    topology = through(look_up).add_state_store(Stores.key_value_store_builder(supplier, text, text), "node")
    it = drive(topology)
    it.driver.get_state_store("names").put("k", "Jane")

    it.input().pipe_input("k", "?")

    assert it.output().read_value() == "Jane"


def test_a_store_that_is_not_there_raises_key_error(drive: Drive) -> None:
    with pytest.raises(KeyError):
        drive(word_count()).driver.get_key_value_store("other")


# ---- errors ------------------------------------------------------------------------------------------------------


def fail_on_bad(context: ProcessorContext, record: Record) -> None:
    if record.value == "bad":
        raise ValueError("boom")
    context.forward(record)


def test_an_error_of_the_topology_reaches_the_test_and_names_the_node(drive: Drive) -> None:
    with pytest.raises(ProcessingError, match=r"ValueError at node node \(.*\), task 0_0, record in-0@0: boom"):
        drive(through(fail_on_bad)).input().pipe_input("k", "bad")


def test_a_record_that_cannot_be_read_is_reported_as_such(drive: Drive) -> None:
    driver = drive(through()).driver
    topic = driver.create_input_topic("in", text, Serdes.bytes())

    with pytest.raises(DeserializationError, match="in-0@0"):
        topic.pipe_input("k", b"\xff")


def test_a_handler_that_continues_drops_only_the_bad_record(drive: Drive) -> None:
    it = drive(through(fail_on_bad), processing_exception_handler="continue")
    it.input().pipe_values(["a", "bad", "b"])

    assert [record.value for record in it.output().read_records()] == ["a", "b"]


def test_a_dead_letter_can_be_read_like_any_output(drive: Drive) -> None:
    it = drive(through(fail_on_bad), processing_exception_handler="dead_letter", dead_letter_queue_topic="dead")
    it.input().pipe_input("k", "bad", 4, headers=[("mine", b"1")])

    letter = it.output("dead").read_record()
    assert (letter.key, letter.value, letter.timestamp) == ("k", "bad", 4)
    assert letter.headers[0] == ("mine", b"1")
    assert dict(letter.headers)["__streams.errors.exception"] == b"ValueError"


# ---- closing -----------------------------------------------------------------------------------------------------


def test_closing_closes_processors_once_and_removes_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    closed: list[str] = []

    class Closing(Each):
        def close(self) -> None:
            closed.append("node")

    topology = Topology().add_source("source", "in").add_processor("node", lambda: Closing(forwards), "source")
    supplier = Stores.persistent_key_value_store("store")
    topology.add_state_store(Stores.key_value_store_builder(supplier, text, text), "node")

    with TopologyTestDriver(topology) as driver:
        assert len(list(tmp_path.iterdir())) == 1
        closed.clear()
    driver.close()

    assert closed == ["node"]
    assert list(tmp_path.iterdir()) == []


def test_state_is_removed_even_if_a_processor_fails_to_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    class Failing(Each):
        def close(self) -> None:
            raise ValueError("boom")

    topology = Topology().add_source("source", "in").add_processor("node", lambda: Failing(forwards), "source")
    driver = TopologyTestDriver(topology)

    with pytest.raises(ValueError, match="boom"):
        driver.close()
    assert list(tmp_path.iterdir()) == []


def test_two_drivers_of_one_topology_share_nothing(drive: Drive) -> None:
    topology = word_count()
    first, second = drive(topology), drive(topology)
    first.input().pipe_input(None, "a")

    assert second.driver.get_key_value_store("counts").get("a") is None

"""Processors that fill global stores: their records, their rights, and the handling of records that fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NoReturn

import pytest

from global_stores import TIMEOUT, FakeBroker, Globals, content
from streamsapp import (
    Consumed,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    TopicPartition,
    Topology,
)
from streamsapp.errors import DeserializationError, ProcessingError, TopologyError
from streamsapp.record import RawRecord
from streamsapp.state.api import StoreBuilder
from task_parts import config

TEXT: Consumed[str, str] = Consumed(Serdes.string(), Serdes.string())
T0 = TopicPartition("rates", 0)


@pytest.fixture
def it(tmp_path: Path) -> Iterator[Globals]:
    broker = FakeBroker()
    broker.create("rates", 2)
    made = Globals(tmp_path, broker)
    yield made
    made.stop()


class Upper(Processor):
    """Keeps values in capitals; the class remembers the calls."""

    seen: ClassVar[list[str]] = []

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.store = context.get_state_store("capitals")
        self.seen.append(f"init on {len(list(self.store.all()))}")

    def process(self, record: Record) -> None:
        self.seen.append(f"{record.key}={record.value}@{record.timestamp}")
        if record.key is not None:
            self.store.put(record.key, None if record.value is None else record.value.upper())

    def close(self) -> None:
        self.seen.append("close")


def capitals() -> StoreBuilder:
    return Stores.key_value_store_builder(
        Stores.persistent_key_value_store("capitals"), Serdes.string(), Serdes.string()
    )


def processed(processor: type[Processor] = Upper) -> Topology:
    Upper.seen.clear()
    builder = StreamsBuilder()
    builder.add_global_store(capitals(), "rates", TEXT, processor)
    return builder.build()


def test_a_store_with_a_processor_is_restored_through_it_and_filled_by_a_second_one(it: Globals) -> None:
    for key, value in (("a", "x"), (None, "skipped"), ("b", None)):
        it.broker.send("rates", key, value, timestamp=3)

    it.restored(processed())
    assert Upper.seen == ["init on 0", "a=x@3", "b=None@3", "close", "init on 1"]

    it.broker.send("rates", None, "not skipped", timestamp=4)
    it.broker.send("rates", "c", "y", timestamp=5)
    it.broker.wait_for_polls()
    it.stop()
    assert Upper.seen[5:] == ["None=not skipped@4", "c=y@5", "close"]
    assert content(it.restored(processed()), "capitals") == {"a": "X", "c": "Y"}
    assert Upper.seen[0:2] == ["init on 2", "close"]


def test_a_store_that_copies_its_topic_may_be_restored_without_the_processor(it: Globals) -> None:
    it.broker.send("rates", "a", "x")
    Upper.seen.clear()
    topology = Topology().add_global_store(
        capitals(), "in", "rates", "keep", Upper, key_deserializer=Serdes.string(), value_deserializer=Serdes.string(),
        reprocess_on_restore=False,
    )  # fmt: skip

    thread = it.restored(topology)

    assert content(thread, "capitals") == {"a": "x"}
    assert Upper.seen == ["init on 1"]


@pytest.mark.parametrize("restoring", [True, False], ids=["restoring", "updating"])
def test_the_deserialization_handler_decides_about_bytes_that_cannot_be_read(it: Globals, restoring: bool) -> None:
    settings = config(deserialization_exception_handler="dead_letter", dead_letter_queue_topic="dead")

    def fill() -> None:
        it.broker.send("rates", "a", "x")
        it.broker.send("rates", "b", "y")
        bad = it.broker.records[T0][0]
        it.broker.records[T0][0] = type(bad)("rates", 0, 0, b"a", b"\xff", 0, None)

    if restoring:
        fill()
        thread = it.restored(processed(), settings)
    else:
        thread = it.restored(processed(), settings)
        with it.broker._changed:
            fill()
        it.broker.wait_for_polls()

    assert content(thread, "capitals") == {"b": "Y"}
    ((topic, value, key, *_, headers),) = it.writer.letters
    assert (topic, key, value) == ("dead", b"a", b"\xff")
    told = dict(headers or ())
    assert told["__streams.errors.topic"] == b"rates"
    assert told["__streams.errors.offset"] == b"0"


@pytest.mark.parametrize("restoring", [True, False], ids=["restoring", "updating"])
def test_the_processing_handler_makes_a_dead_letter_of_a_record_whose_processor_fails(
    it: Globals, restoring: bool
) -> None:
    settings = config(processing_exception_handler="dead_letter", dead_letter_queue_topic="dead")

    class Choosy(Upper):
        def process(self, record: Record) -> None:
            if record.value == "bad":
                raise ValueError("not this one")
            super().process(record)

    def fill() -> None:
        for key, value in (("a", "x"), ("b", "bad"), ("c", "z")):
            it.broker.send("rates", key, value)

    if restoring:
        fill()
        thread = it.restored(processed(Choosy), settings)
    else:
        thread = it.restored(processed(Choosy), settings)
        with it.broker._changed:
            fill()
        it.broker.wait_for_polls()

    assert content(thread, "capitals") == {"a": "X", "c": "Z"}
    ((_, value, key, *_, headers),) = it.writer.letters
    assert (key, value) == (b"b", b"bad")
    assert dict(headers or ())["__streams.errors.message"] == b"not this one"


def test_the_position_behind_a_record_is_not_kept_before_its_letter_is_written(it: Globals) -> None:
    settings = config(deserialization_exception_handler="dead_letter", dead_letter_queue_topic="dead")
    it.broker.send("rates", "a", "x")
    bad = it.broker.records[T0][0]
    it.broker.records[T0][0] = type(bad)("rates", 0, 0, b"a", b"\xff", 0, None)
    it.writer.writes = False
    task = it.task(processed(), settings)
    task.open()
    task.restore(TopicPartition(*T0), it.broker.records[T0])
    assert not task.stores.positions
    task.close()

    it.writer.writes = True
    it.restored(processed(), settings)
    assert [value for _, value, *_ in it.writer.letters] == [b"\xff"]


def test_bytes_that_cannot_be_read_end_the_thread_by_default_and_nothing_of_the_batch_is_seen(it: Globals) -> None:
    thread = it.restored(processed())
    with it.broker._changed:
        it.broker.send("rates", "a", "x")
        it.broker.send("rates", "b", "y")
        it.broker.records[T0][1] = type(it.broker.records[T0][1])("rates", 0, 1, b"b", b"\xff", 0, None)

    failure = it.failures.get(timeout=TIMEOUT)

    assert isinstance(failure.error, DeserializationError)
    assert "record rates-0@1" in str(failure.error)
    assert content(thread, "capitals") == {}


class Unreadable(RawRecord):
    """Has a header whose name is no text."""

    def headers(self) -> NoReturn:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


def test_a_header_name_that_is_no_text_does_not_end_the_thread_where_the_handler_continues(it: Globals) -> None:
    it.broker.send("rates", "a", "x")
    it.broker.send("rates", "b", "y")
    it.broker.records[T0][0] = Unreadable("rates", 0, 0, b"a", b"x", 0)

    thread = it.restored(processed(), config(deserialization_exception_handler="continue"))

    assert content(thread, "capitals") == {"b": "Y"}


class Scheduling(Upper):
    def init(self, context: ProcessorContext) -> None:
        context.schedule(1, PunctuationType.WALL_CLOCK_TIME, print)


def test_a_processor_that_fills_a_store_cannot_schedule_callbacks(it: Globals) -> None:
    it.start(processed(Scheduling))

    failure = it.failures.get(timeout=TIMEOUT)

    assert isinstance(failure.error, TopologyError)
    assert "KTABLE-SOURCE-0000000001 fills a global store, so it cannot schedule callbacks" in str(failure.error)


class Failing(Upper):
    def process(self, record: Record) -> None:
        raise ValueError("boom")


def test_a_processor_that_raises_ends_the_thread_unless_the_handler_goes_on(it: Globals) -> None:
    it.broker.send("rates", "a", "x")
    it.start(processed(Failing))
    failure = it.failures.get(timeout=TIMEOUT)
    assert isinstance(failure.error, ProcessingError)
    assert "ValueError at node KTABLE-SOURCE-0000000001" in str(failure.error)
    it.stop()

    it.restored(processed(Failing), config(processing_exception_handler="continue"))

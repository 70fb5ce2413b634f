"""Exceptions that no handler absorbed lead to one of two things: the task goes on from the last commit, or the end."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest

from instances import PATIENT, TIMEOUT, Instances, counts_per_key, eventually, last_counts, produce
from kafka_cluster import Kafka
from streamsapp import (
    ClientState,
    Consumed,
    Grouped,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Repartitioned,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    Topology,
    UncaughtExceptionResponse,
)
from streamsapp.errors import FencedError, ProcessingError, TopologyError

TEXT = Serdes.string()


class RaisesNowAndThen:
    """Raises when it has been called so many times, once each."""

    def __init__(self, *calls: int) -> None:
        self._calls = set(calls)
        self._called = 0
        self._lock = threading.Lock()
        self.raised = 0

    def __call__(self, value: str) -> str:
        with self._lock:
            self._called += 1
            if self._called in self._calls:
                self.raised += 1
                raise RuntimeError(f"call {self._called}")
        return value


def word_counts(source: str, sink: str, unsteady: RaisesNowAndThen, store: str = "rocksdb") -> Topology:
    """Words counted behind a repartition topic; ``unsteady`` sees each word before it is counted."""
    builder = StreamsBuilder()
    words = builder.stream(source, Consumed(key_serde=TEXT, value_serde=TEXT)).select_key(lambda _, word: word)
    repartitioned = words.repartition(Repartitioned(TEXT, TEXT)).map_values(unsteady)
    grouped = repartitioned.group_by_key(Grouped(key_serde=TEXT, value_serde=TEXT))
    counts = grouped.count(Materialized("counts", store=store))  # type: ignore[call-overload]
    counts.to_stream().to(sink, Produced(key_serde=TEXT, value_serde=Serdes.long()))
    return builder.build()


def all_counted(kafka: Kafka, sink: str, truth: Counter[bytes]) -> bool:
    """Of each word, and not of all together: at least once may count some of them twice."""
    counts = last_counts(kafka.read(sink))
    return all(counts.get(word, 0) >= count for word, count in truth.items())


@pytest.mark.parametrize("store", ["rocksdb", pytest.param("memory", marks=pytest.mark.long)])
def test_tasks_go_on_from_the_last_commit_when_the_thread_is_replaced(
    kafka: Kafka, instances: Instances, guarantee: str, store: str
) -> None:
    source, sink = kafka.create_topic("words", partitions=3), kafka.create_topic("counts", partitions=2)
    chosen = random.Random(5)
    words = [b"word%d" % chosen.randrange(500) for _ in range(30_000)]
    produce(kafka, source, [(None, word, 1000 + at) for at, word in enumerate(words)])
    unsteady = RaisesNowAndThen(1, 3_000, 11_000, 11_001, 24_000)
    config = instances.config(threads=2, processing_guarantee=guarantee, kafka=PATIENT)
    instance = instances.make(word_counts(source, sink, unsteady, store), config)
    instance.set_uncaught_exception_handler(lambda error: UncaughtExceptionResponse.REPLACE_THREAD)
    instance.start()
    truth = Counter(words)

    eventually(lambda: all_counted(kafka, sink, truth))
    assert unsteady.raised == 5
    assert instance.state is ClientState.RUNNING
    assert instance.close()

    updates = counts_per_key(kafka.read(sink))
    final = {key: counts[-1] for key, counts in updates.items()}
    assert last_counts(kafka.read(f"{config.application_id}-counts-changelog")) == final
    if guarantee == "exactly_once":
        assert final == truth
        assert all(counts == list(range(1, truth[key] + 1)) for key, counts in updates.items())
    else:
        assert all(final[key] >= count for key, count in truth.items())


def test_the_instance_ends_with_the_exception_when_the_handler_says_so(
    kafka: Kafka, instances: Instances, guarantee: str
) -> None:
    source, sink = kafka.create_topic("words", partitions=2), kafka.create_topic("counts")
    config = instances.config(threads=2, processing_guarantee=guarantee, kafka=PATIENT)
    instance = instances.make(word_counts(source, sink, RaisesNowAndThen(700)), config)
    asked: list[Exception] = []

    def end(error: Exception) -> UncaughtExceptionResponse:
        asked.append(error)
        return UncaughtExceptionResponse.SHUTDOWN_CLIENT

    instance.set_uncaught_exception_handler(end)
    states: list[ClientState] = []
    instance.set_state_listener(lambda new, old: states.append(new))
    instance.start()
    eventually(lambda: instance.state is ClientState.RUNNING)  # a task may fail before the last one runs
    produce(kafka, source, [(None, b"word%d" % number, 1000) for number in range(2000)])

    error = instance.wait(TIMEOUT)
    assert asked == [error]
    assert isinstance(error, ProcessingError)
    assert "call 700" in str(error)
    assert states == [ClientState.REBALANCING, ClientState.RUNNING, ClientState.PENDING_ERROR, ClientState.ERROR]
    assert instance.healthy()[0] is False


def test_what_an_ended_instance_did_not_commit_is_done_by_the_next(
    kafka: Kafka, instances: Instances, guarantee: str
) -> None:
    source, sink = kafka.create_topic("words", partitions=2), kafka.create_topic("counts")
    words = [b"word%d" % (number % 100) for number in range(4000)]
    produce(kafka, source, [(None, word, 1000) for word in words])
    config = instances.config(threads=2, processing_guarantee=guarantee)
    assert instances.start(word_counts(source, sink, RaisesNowAndThen(2500)), config).wait(TIMEOUT) is not None

    instances.start(word_counts(source, sink, RaisesNowAndThen()), config)

    eventually(lambda: all_counted(kafka, sink, Counter(words)))
    updates = counts_per_key(kafka.read(sink))
    if guarantee == "exactly_once":
        assert all(counts == list(range(1, 41)) for counts in updates.values())
    else:
        assert all(counts[-1] >= 40 for counts in updates.values())


class InitFails(Processor):
    """Cannot be initialised."""

    def init(self, context: ProcessorContext) -> None:
        raise LookupError("no model file")

    def process(self, record: Record) -> None:
        raise AssertionError(record)


class WrongChild(Processor):
    """Forwards to a node that is not its child."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process(self, record: Record) -> None:
        self._context.forward(record, "nowhere")


def processed_by(processor: type[Processor], source: str, sink: str) -> Topology:
    topology = Topology()
    topology.add_source("source", source)
    topology.add_processor("unlucky", processor, "source")
    topology.add_sink("good-sink", sink, "unlucky")
    topology.add_sink("other-sink", sink, "unlucky")
    return topology


def test_a_processor_that_cannot_be_initialised_ends_the_instance_by_name(kafka: Kafka, instances: Instances) -> None:
    source, sink = kafka.create_topic("in"), kafka.create_topic("out")

    instance = instances.start(processed_by(InitFails, source, sink), instances.config())

    error = instance.wait(TIMEOUT)
    assert isinstance(error, ProcessingError)
    for part in ("unlucky", "task 0_0", "LookupError", "no model file"):
        assert part in str(error)


def test_forwarding_to_an_unknown_child_names_the_children(kafka: Kafka, instances: Instances) -> None:
    source, sink = kafka.create_topic("in"), kafka.create_topic("out")
    produce(kafka, source, [(b"k", b"v", 1000)])

    error = instances.start(processed_by(WrongChild, source, sink), instances.config()).wait(TIMEOUT)

    assert isinstance(error, ProcessingError)
    assert isinstance(error.__cause__, TopologyError)
    for part in ("unlucky", "'nowhere'", "good-sink", "other-sink", f"{source}-0@0"):
        assert part in str(error)


def test_the_older_of_two_instances_that_share_an_instance_id_by_mistake_is_fenced_and_says_so(
    kafka: Kafka, instances: Instances
) -> None:
    source, sink = kafka.create_topic("words"), kafka.create_topic("counts")
    topology = word_counts(source, sink, RaisesNowAndThen())

    def config(name: str) -> StreamsConfig:
        directory = instances.directory / name
        return instances.config("twice-by-mistake", group_instance_id="pod-1", state_dir=directory, kafka=PATIENT)

    older = instances.start(topology, config("older"))
    produce(kafka, source, [(None, b"a", 1000)])
    eventually(lambda: len(kafka.read(sink)) == 1)
    newer = instances.start(topology, config("newer"))
    eventually(lambda: newer.state is ClientState.RUNNING)
    produce(kafka, source, [(None, b"a", 1000), (None, b"b", 1000)])

    error = older.wait(TIMEOUT)
    assert isinstance(error, FencedError)
    assert "another instance" in str(error)
    eventually(lambda: last_counts(kafka.read(sink)) == {b"a": 2, b"b": 1})
    assert newer.state is ClientState.RUNNING
    assert len(kafka.read(sink)) == 3

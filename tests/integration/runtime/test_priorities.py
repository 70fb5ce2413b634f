"""Two queries in one application: one is flooded, fails or hangs, and the other goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from instances import Instances, end_offsets, eventually, last_counts, produce
from kafka_cluster import Kafka
from killable import two_queries
from streamsapp import ClientState, Scheduling, StreamsRuntime, Topology
from streamsapp.errors import UserInputError

GUARANTEES = pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])


class Queries:
    """The topics of both queries, and what the bulk one does with a value."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.fast, self.fast_out = kafka.create_topic("fast"), kafka.create_topic("fast-out")
        self.bulk, self.bulk_out = kafka.create_topic("bulk"), kafka.create_topic("bulk-out")
        self.fails = threading.Event()
        self.hangs, self.goes_on = threading.Event(), threading.Event()
        self.sent = 0

    def topology(self) -> Topology:
        return two_queries(self.fast, self.fast_out, self.bulk, self.bulk_out, self.value)

    def value(self, value: str) -> str:
        if value == "bad" and self.fails.is_set():
            raise ValueError("this record cannot be processed")
        if value == "slow" and self.hangs.is_set():
            self.goes_on.wait()
        return value

    def scheduling(self) -> list[Scheduling]:
        return [
            Scheduling(source=self.fast, scheduling_class="latency", weight=10),
            Scheduling(source=self.bulk, scheduling_class="bulk", on_failure="pause"),
        ]

    def ask(self) -> None:
        """One record of the fast query is processed, and its result is committed."""
        self.sent += 1
        produce(self.kafka, self.fast, [(b"k", b"value", 1_000)])
        eventually(lambda: len(self.kafka.read(self.fast_out)) >= self.sent, "a result of the fast query")
        assert len(self.kafka.read(self.fast_out)) == self.sent


@pytest.fixture
def queries(kafka: Kafka) -> Iterator[Queries]:
    made = Queries(kafka)
    yield made
    made.goes_on.set()


def part(runtime: StreamsRuntime, number: int) -> dict[str, Any]:
    return next(each for each in runtime.status()["subTopologies"] if each["id"] == number)


def is_paused(runtime: StreamsRuntime) -> bool:
    return part(runtime, 1)["paused"] is not None


def keyed(values: list[bytes]) -> list[tuple[bytes, bytes, int]]:
    return [(b"k%d" % (at % 3), value, 1_000 + at) for at, value in enumerate(values)]


@GUARANTEES
def test_a_query_that_fails_again_and_again_is_set_aside_alone(
    queries: Queries, instances: Instances, guarantee: str
) -> None:
    queries.fails.set()
    config = instances.config(
        processing_guarantee=guarantee, commit_interval_ms=100, threads=2, scheduling=queries.scheduling()
    )
    runtime = instances.start(queries.topology(), config)
    queries.ask()

    produce(queries.kafka, queries.bulk, keyed([b"good"] * 5 + [b"bad"] + [b"good"] * 6))
    eventually(lambda: is_paused(runtime), "the failing query is set aside")
    for _ in range(5):
        queries.ask()

    assert runtime.state is ClientState.RUNNING
    assert "ValueError at node" in part(runtime, 1)["paused"]["reason"]
    assert part(runtime, 0)["paused"] is None
    eventually(lambda: part(runtime, 1)["inputLag"] in (7, 12), "its lag is shown")
    produce(queries.kafka, queries.bulk, [(b"k0", b"good", 2_000)] * 3)
    eventually(lambda: part(runtime, 1)["inputLag"] in (10, 15), "its lag grows")

    queries.fails.clear()
    runtime.resume(queries.bulk)
    eventually(lambda: last_counts(queries.kafka.read(queries.bulk_out)) == {b"k0": 7, b"k1": 4, b"k2": 4})
    if guarantee == "exactly_once":
        assert len(queries.kafka.read(queries.bulk_out)) == 15
    queries.ask()


@GUARANTEES
@pytest.mark.parametrize("threads", [1, 2])
def test_a_query_that_hangs_keeps_no_other_from_its_results(
    queries: Queries, instances: Instances, guarantee: str, threads: int
) -> None:
    queries.hangs.set()
    config = instances.config(
        processing_guarantee=guarantee, commit_interval_ms=100, threads=threads, scheduling=queries.scheduling()
    )
    runtime = instances.start(queries.topology(), config)
    queries.ask()

    produce(queries.kafka, queries.bulk, keyed([b"good"] * 5 + [b"slow"] + [b"good"] * 6))
    time.sleep(0.5)
    for _ in range(5):
        queries.ask()
    assert runtime.ready()[0]
    assert runtime.healthy()[0]

    queries.hangs.clear()
    queries.goes_on.set()
    eventually(lambda: last_counts(queries.kafka.read(queries.bulk_out)) == {b"k0": 4, b"k1": 4, b"k2": 4})
    if guarantee == "exactly_once":
        assert len(queries.kafka.read(queries.bulk_out)) == 12
    queries.ask()
    eventually(lambda: sum(thread.is_alive() for thread in runtime._started().processing) == threads)


@GUARANTEES
def test_results_of_a_query_that_fails_alone_are_those_of_whole_epochs(
    queries: Queries, instances: Instances, guarantee: str
) -> None:
    """Many records, and failures between them: exactly once, each is counted once and sent once."""
    queries.fails.set()
    config = instances.config(
        processing_guarantee=guarantee, commit_interval_ms=50, threads=2, scheduling=queries.scheduling()
    )
    runtime = instances.start(queries.topology(), config)
    produce(queries.kafka, queries.bulk, keyed([b"good"] * 3_000 + [b"bad"] + [b"good"] * 2_999))
    for _ in range(10):
        queries.ask()
    eventually(lambda: is_paused(runtime))
    queries.fails.clear()
    runtime.resume(1)

    eventually(lambda: last_counts(queries.kafka.read(queries.bulk_out)) == {b"k0": 2000, b"k1": 2000, b"k2": 2000})

    if guarantee == "exactly_once":
        assert len(queries.kafka.read(queries.bulk_out)) == 6_000


def test_a_query_is_paused_by_name_and_goes_on_where_it_stopped(queries: Queries, instances: Instances) -> None:
    runtime = instances.start(queries.topology(), instances.config(commit_interval_ms=50))
    produce(queries.kafka, queries.bulk, keyed([b"good"] * 6))
    eventually(lambda: len(queries.kafka.read(queries.bulk_out)) == 6)

    runtime.pause(queries.bulk)
    produce(queries.kafka, queries.bulk, keyed([b"good"] * 6))
    queries.ask()
    queries.ask()

    assert len(queries.kafka.read(queries.bulk_out)) == 6
    assert part(runtime, 1)["paused"]["reason"] == "asked for"
    runtime.resume(1)
    eventually(lambda: len(queries.kafka.read(queries.bulk_out)) == 12)
    assert runtime.status()["subTopologies"] == []


def test_a_name_that_no_sub_topology_has_is_refused_with_the_names(queries: Queries, instances: Instances) -> None:
    runtime = instances.start(queries.topology(), instances.config())

    with pytest.raises(UserInputError, match=f"0 reads {queries.fast}; 1 reads {queries.bulk}"):
        runtime.pause("orders")


def test_a_flooded_query_does_not_keep_the_other_from_its_results_nor_starves(
    queries: Queries, instances: Instances
) -> None:
    flood = [(b"k%d" % (at % 3), b"good", 1_000 + at) for at in range(200_000)]
    produce(queries.kafka, queries.bulk, flood)
    config = instances.config(commit_interval_ms=50, threads=1, scheduling=queries.scheduling())
    runtime = instances.start(queries.topology(), config)
    eventually(lambda: runtime.state is ClientState.RUNNING)

    for _ in range(10):
        queries.ask()

    eventually(lambda: end_offsets(queries.kafka, queries.bulk_out) >= len(flood))
    eventually(lambda: sum(last_counts(queries.kafka.read(queries.bulk_out)).values()) == len(flood))


@pytest.fixture
def instances(kafka: Kafka, tmp_path: Path) -> Iterator[Instances]:
    made = Instances(kafka, tmp_path)
    yield made
    made.close()

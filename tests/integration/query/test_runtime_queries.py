"""Queries from Python at two instances that share an application."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from typing import TypeVar

import pytest

from instances import Instances, eventually, produce
from kafka_cluster import Kafka
from streamsapp import Consumed, Grouped, Materialized, Serdes, StreamsBuilder, StreamsRuntime, Topology
from streamsapp.errors import StoreNotAvailableError
from streamsapp.http import instance_routes
from streamsapp.http.instance_routes import Drain
from streamsapp.query import KeyQueryMetadata, Staleness
from streamsapp.state.api import ValueAndTimestamp
from streamsapp.web import HttpServer

T = TypeVar("T")

KEYS = [f"key{number}" for number in range(12)]


def counting(topic: str) -> Topology:
    text = Serdes.string()
    builder = StreamsBuilder()
    words = builder.stream(topic, Consumed(key_serde=text, value_serde=text))
    words.group_by_key(Grouped(key_serde=text, value_serde=text)).count(Materialized("counts"))
    return builder.build()


@contextmanager
def serving(
    instances: Instances, topic: str, application_id: str, name: str, guarantee: str
) -> Iterator[StreamsRuntime]:
    """An instance with its port."""
    with closing(HttpServer(0, host="127.0.0.1")) as server:
        config = instances.config(
            application_id,
            processing_guarantee=guarantee,
            client_id=name,
            state_dir=instances.directory / name,
            application_server=f"127.0.0.1:{server.port}",
            standby_replicas=1,
        )
        runtime = instances.make(counting(topic), config)
        server.start(instance_routes(runtime, runtime.queries, Drain(runtime.drain, 10)))
        runtime.start()
        yield runtime


@pytest.fixture
def pair(
    kafka: Kafka, words: str, instances: Instances, guarantee: str
) -> Iterator[tuple[StreamsRuntime, StreamsRuntime]]:
    produce(kafka, words, [(key.encode(), b"x", 7) for key in KEYS])
    application_id = kafka.unique("asked")
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(serving(instances, words, application_id, name, guarantee)) for name in ("a", "b")
        )
        eventually(lambda: sum(shares(first)) == sum(shares(second)) == 2, "two tasks each")
        eventually(lambda: len(dict(everything(first))) == len(KEYS), "all keys")
        yield first, second


def shares(runtime: StreamsRuntime) -> list[bool]:
    return [task["role"] == "active" and task["state"] == "RUNNING" for task in runtime.tasks()]


def everything(runtime: StreamsRuntime) -> list[tuple[str, ValueAndTimestamp]]:
    try:
        return list(runtime.query("counts"))
    except StoreNotAvailableError:
        return []


def asked(query: Callable[[], T]) -> T:
    """The answer to a query, which is made again while there is none: an instance that waits for another one for too
    long gives none."""
    found: list[T] = []

    def answered() -> bool:
        with suppress(StoreNotAvailableError):
            found.append(query())
        return bool(found)

    eventually(answered, "an answer")
    return found[0]


def check_answers(runtime: StreamsRuntime) -> None:
    assert asked(lambda: {runtime.query("counts", key=key) for key in KEYS}) == {ValueAndTimestamp(1, 7)}
    assert asked(lambda: runtime.query("counts", key="nothing")) is None
    in_range = asked(lambda: [key for key, _ in runtime.query("counts", from_="key1", to="key2")])
    assert in_range == ["key1", "key10", "key11", "key2"]


def test_both_instances_answer_for_all_keys(pair: tuple[StreamsRuntime, StreamsRuntime]) -> None:
    for runtime in pair:
        check_answers(runtime)


def test_both_instances_agree_on_where_a_key_is(pair: tuple[StreamsRuntime, StreamsRuntime]) -> None:
    first, second = pair

    def agree() -> bool:
        found = metadata(first)
        return found == metadata(second) and all(len(each.standby_hosts) == 1 for each in found)

    eventually(agree, "the same metadata")
    assert len({each.active_host for each in metadata(first)}) == 2


def metadata(runtime: StreamsRuntime) -> list[KeyQueryMetadata]:
    return asked(lambda: [runtime.query_metadata_for_key("counts", key) for key in KEYS])


def test_a_standby_answers_after_the_active_instance_is_gone(
    kafka: Kafka, pair: tuple[StreamsRuntime, StreamsRuntime]
) -> None:
    first, second = pair
    bounds = Staleness(max_lag=0)
    # At least once a count is seen before its changelog has it.
    changelog = f"{first.status()['applicationId']}-counts-changelog"
    eventually(lambda: len({record.key() for record in kafka.read(changelog)}) == len(KEYS), "all of the changelog")
    # A lag that was observed before the counts were made says nothing of them.
    counted_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    eventually(lambda: caught_up(first, counted_at), "standbys that caught up")
    second.close()
    # While its tasks are promoted it says so; its answers are right at any time.
    eventually(lambda: all(value == 1 for value in answers(first, bounds)), "an answer for every key")


def caught_up(runtime: StreamsRuntime, since: str) -> bool:
    stores = [task["stores"][0] for task in runtime.tasks()]
    return all(store["lag"] == 0 and store["observedAt"] > since for store in stores)


def answers(runtime: StreamsRuntime, bounds: Staleness) -> list[int | None]:
    try:
        found = [runtime.query("counts", key=key, stale=bounds) for key in KEYS]
    except StoreNotAvailableError:
        return [None]
    assert found == [ValueAndTimestamp(1, 7)] * len(KEYS)
    return [each.value for each in found]

"""Queries look for a key in one partition if it is known, and in all partitions if others write the topics."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from query_hosts import PARTITIONS, QueryHost, store_info
from streamsapp import Consumed, Grouped, Materialized, Produced, Repartitioned, Serdes, StreamsBuilder, StreamsConfig
from streamsapp.errors import StoreNotAvailableError
from streamsapp.http.state_routes import StateRoute
from streamsapp.membership.api import Peer
from streamsapp.query.remote_reader import PeerResponse
from streamsapp.query.store_lookup import stores_of
from streamsapp.record import TaskId
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.state.api import ValueAndTimestamp
from streamsapp.tasks.task_plan import TaskPlan
from streamsapp.web.request_routing import HttpRequest, HttpResponse

HOME = partition_for(b"a", PARTITIONS)
OTHER = (HOME + 1) % PARTITIONS
REST = [each for each in range(PARTITIONS) if each not in (HOME, OTHER)]


class Two:
    """Two instances that ask each other without a network."""

    def __init__(self) -> None:
        self.hosts = {name: QueryHost(store_info(placed=False)) for name in ("one:1", "two:2")}
        self.asked: list[str] = []
        for name, host in self.hosts.items():
            host.endpoint = name

    def settle(self) -> None:
        peers = {name: Peer(name, frozenset(host.views)) for name, host in self.hosts.items()}
        for host in self.hosts.values():
            host.group = peers

    def fetch(self, endpoint: str, path: str, *, method: str = "GET", timeout: float = 0) -> PeerResponse:
        self.asked.append(path)
        answer = self.ask(endpoint, path)
        return PeerResponse(answer.status, answer.headers, answer.body)

    def ask(self, endpoint: str, path: str) -> HttpResponse:
        return StateRoute(self.hosts[endpoint].queries(self.fetch))(HttpRequest("GET", path))


@pytest.fixture
def two() -> Two:
    """The first has the key's home and another partition, the second the rest."""
    made = Two()
    made.hosts["one:1"].add(HOME, {"b": 2})
    made.hosts["one:1"].add(REST[0])
    made.hosts["two:2"].add(OTHER, {"a": 3})
    made.hosts["two:2"].add(REST[1])
    made.settle()
    return made


def document(answer: HttpResponse) -> dict[str, Any]:
    parsed: dict[str, Any] = orjson.loads(answer.body)
    return parsed


def test_a_key_that_is_not_at_home_is_found_wherever_it_is(two: Two) -> None:
    for host in two.hosts.values():
        queries = host.queries(two.fetch)
        assert queries.get("counts", "a") == ValueAndTimestamp(3, 7)
        assert queries.get("counts", "a", partition=HOME) is None
        assert queries.get("counts", "none") is None
        assert queries.key_metadata("counts", "a").active_host == "two:2"
        assert queries.key_metadata("counts", "a").partition == OTHER


def test_a_key_that_is_at_home_is_looked_for_nowhere_else(two: Two) -> None:
    two.hosts["one:1"].put(TaskId(0, HOME), {"a": 1})
    two.hosts["one:1"].committed_only = False
    assert two.hosts["one:1"].queries(two.fetch).get("counts", "a") == ValueAndTimestamp(1, 7)
    assert two.asked == []


def test_a_key_whose_partition_is_known_is_looked_for_nowhere_else(two: Two) -> None:
    host = two.hosts["one:1"]
    host.info = store_info(placed=True)
    assert host.queries(two.fetch).get("counts", "a") is None
    assert two.asked == []


def test_a_key_that_may_be_where_nobody_answers_is_not_said_to_be_missing(two: Two) -> None:
    del two.hosts["two:2"].views[TaskId(0, REST[1])]
    two.settle()
    with pytest.raises(StoreNotAvailableError, match=f"partition {REST[1]}"):
        two.hosts["one:1"].queries(two.fetch).get("counts", "none")
    assert two.ask("one:1", "/state/counts/none").status == 503


def test_over_http_the_likeliest_owner_is_asked_and_asks_the_others(two: Two) -> None:
    sent = two.ask("two:2", "/state/counts/a")
    assert (sent.status, sent.headers["Location"]) == (307, "http://one:1/state/counts/a")
    answered = two.ask("one:1", "/state/counts/a")
    assert (answered.status, document(answered)["value"], document(answered)["partition"]) == (200, 3, OTHER)
    assert document(two.ask("two:2", "/state/counts/a?proxy"))["value"] == 3


def test_over_http_a_missing_key_is_answered_with_where_it_was_looked_for(two: Two) -> None:
    missing = two.ask("two:2", "/state/counts/none?proxy")
    assert (missing.status, document(missing)["searched"]) == (404, list(range(PARTITIONS)))
    given = two.ask("two:2", f"/state/counts/a?partition={REST[1]}")
    assert (given.status, document(given)["searched"]) == (404, [REST[1]])


def test_who_asks_one_instance_only_hears_that_the_key_may_be_elsewhere(two: Two) -> None:
    assert document(two.ask("two:2", "/state/counts/a?local"))["value"] == 3
    assert two.ask("one:1", "/state/counts/a?local").status == 421
    assert two.asked == []


def everywhere(topic: str, key: Any, value: Any, partitions: int) -> int:
    return 0


def test_a_store_knows_its_partitioner_behind_a_repartition_topic_that_goes_by_the_default_one() -> None:
    text = Serdes.string()
    builder = StreamsBuilder()
    source = builder.stream("in", Consumed(key_serde=text, value_serde=text))
    source.group_by_key(Grouped(key_serde=text, value_serde=text)).count(Materialized("of-the-source"))
    grouped = source.group_by(lambda _, value: value, Grouped(key_serde=text, value_serde=text))
    grouped.count(Materialized("repartitioned"))
    moved = source.repartition(Repartitioned(key_serde=text, value_serde=text, partitioner=everywhere, name="own"))
    moved.group_by_key(Grouped(key_serde=text, value_serde=text)).count(Materialized("by-a-partitioner-of-its-own"))
    source.to("through", Produced(key_serde=text, value_serde=text))

    plans = [
        TaskPlan(TaskId(sub.id, 0), sub, {}, {}, {}, lambda topic: topic, lambda _: 1)
        for sub in builder.build().sub_topologies()
    ]
    known = stores_of(plans, StreamsConfig(application_id="app", bootstrap_servers="nowhere:1"))

    assert {name: info.placed for name, info in known.items()} == {
        "of-the-source": False,
        "repartitioned": True,
        "by-a-partitioner-of-its-own": False,
    }

"""Versioned stores in queries: from Python, over HTTP, and at other instances; page by page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest

from query_hosts import PARTITIONS, QueryHost, store_info
from streamsapp.errors import InvalidQueryError
from streamsapp.http.state_routes import StateRoute
from streamsapp.membership.api import Peer
from streamsapp.query.remote_reader import PeerResponse
from streamsapp.record import TaskId
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.state.kinds.versioned import VersionedRecord, VersionedType
from streamsapp.state.kinds.versions import VersionLayout
from streamsapp.web.request_routing import HttpRequest

HISTORY = 200_000
#: Key, value and time; the history is longer than two segments.
_PUTS: list[tuple[str, int | None, int]] = [
    (f"key{number}", start + number, start) for start in (10, 150_000, 180_000) for number in range(6)
]
_PUTS += [("key1", None, 190_000), ("key2", 7, 160_000)]


@pytest.fixture
def host() -> QueryHost:
    host = QueryHost(replace(store_info(), key_of=VersionLayout.key_of), VersionedType(HISTORY))
    for partition in range(PARTITIONS):
        host.add(partition)
        stores = host.opened[TaskId(0, partition)]
        for key, value, at in _PUTS:
            if partition_for(key.encode(), PARTITIONS) == partition:
                stores.stores["counts"].put(key, value, at)
        for _ in stores.apply(stores.freeze(), {}):
            pass
    return host


def ask(host: QueryHost, path: str, status: int = 200, **parameters: Any) -> dict[str, Any]:
    query = urlencode(parameters)
    response = StateRoute(host.queries())(HttpRequest("GET", f"{path}?{query}" if query else path))
    document: dict[str, Any] = orjson.loads(response.body)
    assert response.status == status, document
    return document


def pages(host: QueryHost, path: str, **parameters: Any) -> Iterator[list[Any]]:
    document: dict[str, Any] = {"next": ""}
    while document["next"] is not None:
        document = ask(host, path, **parameters, position=document["next"])
        yield document["entries"]


def elsewhere(host: QueryHost) -> QueryHost:
    """Another instance, which has nothing and asks the first one."""
    here = QueryHost(host.info, host.kind)
    tasks = frozenset(TaskId(0, partition) for partition in range(PARTITIONS))
    here.group = {"other": Peer("other:1", active=tasks, standby=frozenset())}

    def fetch(endpoint: str, path: str, *, method: str = "GET", timeout: float = 0) -> PeerResponse:
        response = StateRoute(host.queries())(HttpRequest("GET", path))
        return PeerResponse(response.status, {}, response.body)

    here.queries = lambda *_: QueryHost.queries(here, fetch)  # type: ignore[method-assign]
    return here


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_key_has_a_value_now_and_had_others(host: QueryHost, where: str) -> None:
    queries = (host if where == "here" else elsewhere(host)).queries()
    assert queries.get("counts", "key2") == VersionedRecord(180_002, 180_000)
    assert queries.get("counts", "key1") is None
    assert queries.as_of("counts", "key2", 159_999) == VersionedRecord(150_002, 150_000, 160_000)
    assert queries.as_of("counts", "key2", 170_000) == VersionedRecord(7, 160_000, 180_000)
    assert queries.as_of("counts", "key1", 189_999) == VersionedRecord(180_001, 180_000, 190_000)
    assert queries.as_of("counts", "key1", 190_000) is None
    assert queries.as_of("counts", "key2", 9) is None
    assert [version.timestamp for _, version in queries.versions("counts", "key2", times=(155_000, 180_000))] == [
        150_000,
        160_000,
        180_000,
    ]
    assert list(queries.versions("counts", "key2", times=(0, 9))) == []


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_range_of_keys_has_all_that_was_valid_in_a_time(host: QueryHost, where: str) -> None:
    queries = (host if where == "here" else elsewhere(host)).queries()
    found = {(key, version.value) for key, version in queries.versions("counts", from_="key1", to="key3")}
    assert found == {(key, value) for key, value, _ in _PUTS if "key1" <= key <= "key3" and value is not None}
    now = {(key, version.value) for key, version in queries.versions("counts", times=(200_000, 200_000))}
    assert now == {(f"key{number}", 180_000 + number) for number in (0, 2, 3, 4, 5)}


def test_http_gives_the_latest_version_and_those_of_a_time(host: QueryHost) -> None:
    latest = ask(host, "/state/counts/key2")
    assert (latest["key"], latest["value"], latest["timestamp"], latest["validTo"]) == ("key2", 180_002, 180_000, None)
    ask(host, "/state/counts/key1", status=404)
    then = ask(host, "/state/counts/key2", asOf=170_000)
    assert then["entries"] == [{"key": "key2", "value": 7, "timestamp": 160_000, "validTo": 180_000}]
    between = ask(host, "/state/counts/key2", **{"from": 0, "to": 150_000})
    assert [each["timestamp"] for each in between["entries"]] == [10, 150_000]


@pytest.mark.parametrize("limit", [1, 4, 1000])
def test_pages_go_on_where_the_one_before_ended(host: QueryHost, limit: int) -> None:
    there = [each for page in pages(host, "/state/counts", limit=limit) for each in page]
    expected = sorted((key, value) for key, value, _ in _PUTS if value is not None)
    assert sorted((each["key"], each["value"]) for each in there) == expected


def test_versions_are_for_versioned_stores_and_ranges_of_last_values_for_others(host: QueryHost) -> None:
    with pytest.raises(InvalidQueryError, match="keeps versions"):
        host.queries().range("counts")
    plain = QueryHost(store_info())
    with pytest.raises(InvalidQueryError, match="keeps no versions"):
        plain.queries().versions("counts", "a")
    assert "keeps no versions" in ask(plain, "/state/counts/a", status=400, asOf=1)["error"]
    assert "for one key" in ask(host, "/state/counts", status=400, asOf=1)["error"]

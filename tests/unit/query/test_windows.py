"""Stores of windows in queries: from Python, over HTTP, and at other instances; page by page."""

from __future__ import annotations

import re
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
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.api import ValueAndTimestamp
from streamsapp.state.kinds.session import SessionType
from streamsapp.state.kinds.window import WindowType
from streamsapp.web.request_routing import HttpRequest, HttpResponse

SIZE, MINUTE = 100, 60_000
HOME = partition_for(b"a", PARTITIONS)
_KINDS = {
    "segments": WindowType(10 * MINUTE, SIZE, keeps_timestamps=True),
    "time_ordered": WindowType(10 * MINUTE, SIZE, keeps_timestamps=True, time_ordered=True),
}
Windows = dict[tuple[str, int], int]


@pytest.fixture(params=_KINDS.values(), ids=list(_KINDS))
def host(request: pytest.FixtureRequest) -> QueryHost:
    return QueryHost(replace(store_info(), window_of=request.param.window_of), request.param)


def fill(host: QueryHost, partition: int, windows: Windows, *, committed: bool = True) -> None:
    task_id = TaskId(0, partition)
    if task_id not in host.opened:
        host.add(partition)
    stores = host.opened[task_id]
    for (key, start), value in windows.items():
        stores.stores["counts"].put(key, (value, start + 1), start)
    if committed:
        for _ in stores.apply(stores.freeze(), {}):
            pass


def everywhere(host: QueryHost) -> Windows:
    """A few windows of keys in all partitions."""
    windows = {(f"key{number}", start): start + number for number in range(8) for start in (0, 2 * MINUTE, 7 * MINUTE)}
    for partition in range(PARTITIONS):
        fill(
            host, partition, {w: v for w, v in windows.items() if partition_for(w[0].encode(), PARTITIONS) == partition}
        )
    return windows


def request(host: QueryHost, path: str, **parameters: Any) -> HttpResponse:
    query = urlencode(parameters)
    return StateRoute(host.queries())(HttpRequest("GET", f"{path}?{query}" if query else path))


def ask(host: QueryHost, path: str, **parameters: Any) -> dict[str, Any]:
    response = request(host, path, **parameters)
    document: dict[str, Any] = orjson.loads(response.body)
    assert response.status == 200, document
    return document


def pages(host: QueryHost, path: str, **parameters: Any) -> Iterator[list[Any]]:
    document: dict[str, Any] = {"next": ""}
    while document["next"] is not None:
        document = ask(host, path, **parameters, position=document["next"])
        yield document["entries"]


def test_the_windows_of_a_key_are_given_by_time(host: QueryHost) -> None:
    fill(host, HOME, {("a", 0): 1, ("a", 50): 2, ("aa", 50): 3, ("a", 3 * MINUTE): 4})
    found = host.queries().windows("counts", "a")
    assert list(found) == [
        (Windowed("a", 0, SIZE), ValueAndTimestamp(1, 1)),
        (Windowed("a", 50, 50 + SIZE), ValueAndTimestamp(2, 51)),
        (Windowed("a", 3 * MINUTE, 3 * MINUTE + SIZE), ValueAndTimestamp(4, 3 * MINUTE + 1)),
    ]
    assert [each.value for _, each in host.queries().windows("counts", "a", times=(50, 50))] == [2]
    assert list(host.queries().windows("counts", "b")) == []


def test_uncommitted_windows_are_seen_only_where_nothing_is_reverted(host: QueryHost) -> None:
    fill(host, HOME, {("a", 0): 1})
    fill(host, HOME, {("a", 0): 2, ("a", 50): 3}, committed=False)
    assert [each.value for _, each in host.queries().windows("counts", "a")] == [1]
    host.committed_only = False
    assert [each.value for _, each in host.queries().windows("counts", "a")] == [2, 3]


def test_windows_that_have_expired_are_not_given(host: QueryHost) -> None:
    fill(host, HOME, {("a", 0): 1, ("a", 1): 2, ("a", 10 * MINUTE): 3})
    assert [each.value for _, each in host.queries().windows("counts", "a")] == [2, 3]


def test_ranges_of_keys_and_times_are_those_of_all_partitions(host: QueryHost) -> None:
    windows = everywhere(host)
    found = {(w.key, w.start_ms): v.value for w, v in host.queries().windows("counts", from_="key2", to="key5")}
    assert found == {w: v for w, v in windows.items() if "key2" <= w[0] <= "key5"}
    found = {(w.key, w.start_ms): v.value for w, v in host.queries().windows("counts", times=(1, 2 * MINUTE))}
    assert found == {w: v for w, v in windows.items() if w[1] == 2 * MINUTE}


def test_http_gives_start_and_end_of_the_windows_of_a_key(host: QueryHost) -> None:
    fill(host, HOME, {("a", 0): 1, ("a", 50): 2, ("a", 3 * MINUTE): 3})
    document = ask(host, "/state/counts/a", **{"from": 1, "to": 60})
    assert document["entries"] == [{"key": "a", "start": 50, "end": 50 + SIZE, "value": 2, "timestamp": 51}]
    assert (document["partition"], document["next"]) == (HOME, None)


def test_http_gives_a_key_from_whatever_partition_its_producer_chose(host: QueryHost) -> None:
    host.info = replace(host.info, placed=False)
    for partition in range(PARTITIONS):
        fill(host, partition, {("a", 10 * partition): partition})
    assert [each["value"] for each in ask(host, "/state/counts/a")["entries"]] == list(range(PARTITIONS))


@pytest.mark.parametrize("limit", [1, 5, 1000])
def test_pages_go_on_where_the_one_before_ended(host: QueryHost, limit: int) -> None:
    windows = everywhere(host)
    there = list(pages(host, "/state/counts", limit=limit))
    assert all(len(page) <= limit for page in there)
    entries = [each for page in there for each in page]
    assert len(entries) == len(windows)
    assert {(each["key"], each["start"]): each["value"] for each in entries} == windows
    some = [each for page in pages(host, "/state/counts", limit=limit, fromTime=1, toTime=3 * MINUTE) for each in page]
    assert {each["start"] for each in some} == {2 * MINUTE}
    assert len(some) == 8


def test_windows_come_from_the_instance_that_has_them(host: QueryHost) -> None:
    windows = everywhere(host)

    def fetch(endpoint: str, path: str, *, method: str = "GET", timeout: float = 0) -> PeerResponse:
        response = StateRoute(host.queries())(HttpRequest("GET", path))
        return PeerResponse(response.status, {}, response.body)

    here = QueryHost(host.info, host.kind)
    tasks = frozenset(TaskId(0, partition) for partition in range(PARTITIONS))
    here.group = {"other": Peer("other:1", active=tasks, standby=frozenset())}
    found = here.queries(fetch).windows("counts", from_="key1", times=(2 * MINUTE, 7 * MINUTE))
    expected = {w: v for w, v in windows.items() if w[0] >= "key1" and w[1] >= 2 * MINUTE}
    assert {(w.key, w.start_ms): (w.end_ms, v) for w, v in found} == {
        (key, start): (start + SIZE, ValueAndTimestamp(value, start + 1)) for (key, start), value in expected.items()
    }


@pytest.mark.parametrize(
    ("path", "parameters", "why"),
    [
        ("/state/counts/a", {"from": "noon"}, "from: 'noon' is not a time in milliseconds"),
        ("/state/counts", {"fromTime": "x"}, "fromTime: cannot use 'x'"),
        ("/state/counts", {"fromTime": 5, "toTime": 4}, "no time from 5 to 4"),
        ("/state/counts", {"fromTime": -1}, "no time from -1"),
        ("/state/counts", {"position": "?"}, "position: '\\?' is none"),
        ("/state/counts", {"before": "a"}, "before: store counts has windows"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(
    host: QueryHost, path: str, parameters: dict[str, Any], why: str
) -> None:
    response = request(host, path, **parameters)
    assert response.status == 400
    assert re.search(why, orjson.loads(response.body)["error"])


def test_times_are_for_stores_with_windows_and_values_for_those_without(host: QueryHost) -> None:
    with pytest.raises(InvalidQueryError, match="has windows"):
        host.queries().get("counts", "a")
    with pytest.raises(InvalidQueryError, match="has windows"):
        host.queries().range("counts")
    plain = QueryHost()
    with pytest.raises(InvalidQueryError, match="has no windows"):
        plain.queries().windows("counts", "a")
    assert request(plain, "/state/counts", fromTime=1).status == 400


@pytest.mark.parametrize("by_time", [False, True])
def test_sessions_are_those_that_overlap_the_times(by_time: bool) -> None:
    kind = SessionType(10 * MINUTE, by_time=by_time)
    host = QueryHost(replace(store_info(), window_of=kind.window_of), kind)
    sessions = {("a", 0, 10): 1, ("a", 20, 90): 2, ("aa", 20, 30): 3, ("a", 5 * MINUTE, 7 * MINUTE): 4}
    for partition in range(PARTITIONS):
        host.add(partition)
    for (key, start, end), value in sessions.items():
        host.opened[TaskId(0, HOME)].stores["counts"].put(Windowed(key, start, end), value)
    host.committed_only = False
    queries = host.queries()
    assert [value for _, value in queries.windows("counts", "a")] == [1, 2, 4]
    assert list(queries.windows("counts", "a", times=(10, 20))) == [
        (Windowed("a", 0, 10), 1),
        (Windowed("a", 20, 90), 2),
    ]
    assert {value for _, value in queries.windows("counts", from_="aa")} == {3}
    there = [each for page in pages(host, "/state/counts", limit=1) for each in page]
    assert {(each["key"], each["start"], each["end"]): each["value"] for each in there} == sessions
    assert len(there) == len(sessions)


def test_only_all_windows_of_a_key_are_its_windows_where_one_instance_is_asked(host: QueryHost) -> None:
    host.info = replace(host.info, placed=False)
    for partition in range(2):
        fill(host, partition, {("a", 10 * partition): partition})
    gone = frozenset(TaskId(0, partition) for partition in range(2, PARTITIONS))
    host.group = {"other": Peer("other:1", active=gone, standby=frozenset())}
    response = request(host, "/state/counts/a", local=1)
    assert (response.status, orjson.loads(response.body)["owner"]) == (421, "other:1")
    for partition in range(2, PARTITIONS):
        fill(host, partition, {("a", 10 * partition): partition})
    assert len(ask(host, "/state/counts/a", local=1)["entries"]) == PARTITIONS


def test_the_windows_of_a_key_are_those_of_the_partition_that_is_asked_for(host: QueryHost) -> None:
    other = next(f"k{number}" for number in range(99) if partition_for(f"k{number}".encode(), PARTITIONS) != 0)
    for partition in range(PARTITIONS):
        fill(host, partition, {(other, 10 * partition): partition})
    document = ask(host, f"/state/counts/{other}", partition=0)
    assert (document["partition"], [each["value"] for each in document["entries"]]) == (0, [0])


def test_the_windows_of_the_empty_key_are_not_those_of_all_keys(host: QueryHost) -> None:
    home = partition_for(b"", PARTITIONS)
    fill(host, home, {("", 0): 1, ("a", 0): 2, ("aa", 50): 3, ("", 50): 4})
    assert [each["value"] for each in ask(host, "/state/counts/")["entries"]] == [1, 4]

    def fetch(endpoint: str, path: str, *, method: str = "GET", timeout: float = 0) -> PeerResponse:
        response = StateRoute(host.queries())(HttpRequest("GET", path))
        return PeerResponse(response.status, {}, response.body)

    here = QueryHost(host.info, host.kind)
    here.group = {"other": Peer("other:1", active=frozenset([TaskId(0, home)]), standby=frozenset())}
    assert [each.value for _, each in here.queries(fetch).windows("counts", "")] == [1, 4]

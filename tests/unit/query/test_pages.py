"""Pages of a range end by number and by bytes, and go on where they ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from query_hosts import PARTITIONS, QueryHost, store_info
from streamsapp.errors import StoreNotAvailableError
from streamsapp.http.state_routes import StateRoute
from streamsapp.membership.api import Peer
from streamsapp.query.api import PAGE_BYTES, Found, Page, merged
from streamsapp.query.remote_reader import PeerResponse, encode
from streamsapp.record import TaskId
from streamsapp.serdes.serdes import Serdes
from streamsapp.web.request_routing import HttpRequest

VALUE = "v" * (PAGE_BYTES // 20)


def found(key: int, size: int = 0) -> Found:
    return Found(bytes([key]), None, b"v" * size)


def large() -> QueryHost:
    """Five partitions full of what is six pages."""
    host = QueryHost(store_info(value_serde=Serdes.string()))
    for partition in range(PARTITIONS):
        host.add(partition, {f"{number:03}-{partition}": VALUE for number in range(30)})
    return host


def ask(host: QueryHost, path: str) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(StateRoute(host.queries())(HttpRequest("GET", path)).body)
    return document


@pytest.mark.parametrize("parameters", ["", "partition=0&"])
def test_a_page_ends_at_its_bytes_and_the_next_one_goes_on_there(parameters: str) -> None:
    host = large()
    keys: list[str] = []
    pages, following = 0, ""
    while following is not None:
        document = ask(host, f"/state/counts?{parameters}limit=10000&from={following}")
        size = sum(len(each["value"]) for each in document["entries"])
        assert 0 < size <= PAGE_BYTES + PARTITIONS * len(VALUE)
        keys += [each["key"] for each in document["entries"]]
        pages, following = pages + 1, document["next"]
    there = [0] if parameters else range(PARTITIONS)
    assert keys == [f"{number:03}-{partition}" for number in range(30) for partition in there]
    assert pages >= len(keys) // 20


def test_what_is_larger_than_a_page_is_a_page_of_its_own() -> None:
    host = QueryHost(store_info(value_serde=Serdes.string()))
    host.add(0, {"a": "v" * (PAGE_BYTES + 1), "b": "w"})
    document = ask(host, "/state/counts?partition=0")
    assert ([each["key"] for each in document["entries"]], document["next"]) == (["a"], "b")


def test_a_range_in_python_reads_all_pages() -> None:
    assert len(list(large().queries().range("counts"))) == 30 * PARTITIONS


@given(
    st.lists(st.sets(st.integers(0, 255), max_size=20), min_size=1, max_size=4), st.integers(1, 7), st.integers(1, 9)
)
def test_pages_of_all_partitions_leave_nothing_out_and_repeat_nothing(
    partitions: list[set[int]], limit: int, most_bytes: int
) -> None:
    held = [sorted(keys) for keys in partitions]
    start: bytes | None = b""
    seen: list[bytes] = []
    while start is not None:
        rest = [[found(key, key % 5) for key in keys if bytes([key]) >= start] for keys in held]
        page = merged([Page.of(each, limit, most_bytes) for each in rest], limit)
        assert len({each.key for each in page.entries}) <= limit
        seen += [each.key for each in page.entries]
        start = page.next
    assert seen == sorted(bytes([key]) for keys in held for key in keys)


ENTRY = {"key": encode(b"b"), "value": encode(Serdes.long().serialize(1)), "timestamp": 9}


@pytest.mark.parametrize(
    "document",
    [
        [],
        5,
        {},
        {"entries": 5},
        {"entries": [{}]},
        {"entries": [{"key": 5, "value": 5, "timestamp": None}]},
        {"entries": [{**ENTRY, "value": encode(b"no long")}]},
        {"entries": [ENTRY], "next": encode(b"a")},
        {"entries": [ENTRY], "next": 5},
    ],
)
def test_what_a_peer_answers_is_read_or_said_to_be_unreadable(document: Any) -> None:
    def fetch(endpoint: str, path: str, *, method: str = "GET", timeout: float = 0) -> PeerResponse:
        headers: Mapping[str, str] = {}
        return PeerResponse(200, headers, orjson.dumps(document))

    host = QueryHost()
    host.group = {"other": Peer("other:1", active=frozenset({TaskId(0, 0)}))}
    with pytest.raises(StoreNotAvailableError, match="other:1 answers with what cannot be read"):
        list(host.queries(fetch).range("counts", "a", partition=0))

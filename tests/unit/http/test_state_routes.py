"""Interactive queries over real sockets, against instances that know of each other."""

from __future__ import annotations

import http.client
import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any
from urllib.parse import quote

import orjson
import pytest

from query_hosts import PARTITIONS, QueryHost, store_info
from streamsapp.errors import InvalidQueryError
from streamsapp.http.json_values import parse_key, shown
from streamsapp.http.state_routes import StateRoute, parse_parameters
from streamsapp.membership.api import Peer
from streamsapp.query.remote_reader import HttpFetch, encode
from streamsapp.record import TaskId
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.serdes.serdes import Serdes
from streamsapp.tasks.states import TaskRole
from streamsapp.web import HttpServer
from streamsapp.web.request_routing import Route

HOME = partition_for(b"a", PARTITIONS)
#: Longer than a thread stands still on a busy machine, in seconds.
_PATIENCE = 60.0


class Group:
    """Instances with a server each."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.members: list[QueryHost] = []

    def join(self, host: QueryHost | None = None) -> QueryHost:
        member = host or QueryHost()
        server = self._stack.enter_context(closing(HttpServer(0, host="127.0.0.1")))
        queries = member.queries(partial(HttpFetch(), timeout=_PATIENCE))
        server.start({"/state/": Route(StateRoute(queries))})
        member.endpoint = f"127.0.0.1:{server.port}"
        self.members.append(member)
        return member

    def rebalance(self) -> None:
        """All instances hear which instance has which task."""
        for member in self.members:
            member.group = {each.endpoint: peer(each) for each in self.members}


def peer(host: QueryHost) -> Peer:
    tasks = host.views.values()
    active = frozenset(each.id for each in tasks if each.role is TaskRole.ACTIVE)
    return Peer(host.endpoint, active, frozenset(each.id for each in tasks) - active)


@pytest.fixture
def group() -> Iterator[Group]:
    with ExitStack() as stack:
        yield Group(stack)


def ask(host: QueryHost, path: str) -> tuple[int, dict[str, str], Any]:
    with closing(http.client.HTTPConnection(host.endpoint, timeout=_PATIENCE)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, dict(response.headers), json.loads(response.read())


def test_a_key_is_answered_with_all_that_is_known_of_it(group: Group) -> None:
    here = group.join()
    here.add(HOME, {"a": 3})
    status, _, document = ask(here, "/state/counts/a")
    assert (status, document) == (
        200,
        {
            "store": "counts",
            "key": "a",
            "value": 3,
            "timestamp": 7,
            "partition": HOME,
            "role": "active",
            "lag": 0,
        },
    )


def test_a_key_without_a_value_is_not_found_and_still_answered(group: Group) -> None:
    here = group.join()
    for partition in range(PARTITIONS):
        here.add(partition)
    status, _, document = ask(here, "/state/counts/a")
    assert (status, document["value"]) == (404, None)
    assert "error" not in document


@pytest.mark.parametrize("key", ["a/b", "ü ?&", "", "%2F"])
def test_keys_are_percent_encoded(group: Group, key: str) -> None:
    here = group.join()
    here.add(partition_for(key.encode(), PARTITIONS), {key: 5})
    assert ask(here, f"/state/counts/{quote(key, safe='')}")[2]["value"] == 5


def test_who_asks_the_wrong_instance_is_sent_to_the_right_one(group: Group) -> None:
    here, there = group.join(), group.join()
    there.add(HOME, {"a": 3})
    group.rebalance()
    status, headers, document = ask(here, "/state/counts/a?format=json")
    assert (status, headers["Location"]) == (307, f"http://{there.endpoint}/state/counts/a?format=json")
    assert document["owner"] == there.endpoint
    assert ask(there, "/state/counts/a?format=json")[2]["value"] == 3


@pytest.mark.parametrize("flag", ["proxy", "proxy=1"])
def test_the_right_instance_can_be_asked_by_the_wrong_one(group: Group, flag: str) -> None:
    here, there = group.join(), group.join()
    there.add(HOME, {"a": 3})
    group.rebalance()
    status, _, document = ask(here, f"/state/counts/a?{flag}")
    assert (status, document["value"], document["timestamp"], document["partition"]) == (200, 3, 7, HOME)


def test_who_asks_this_instance_only_is_told_the_owner(group: Group) -> None:
    here, there = group.join(), group.join()
    there.add(HOME, {"a": 3})
    group.rebalance()
    status, _, document = ask(here, "/state/counts/a?local=1")
    assert (status, document["owner"]) == (421, there.endpoint)


@pytest.mark.parametrize("query", ["", "?proxy", "?proxy&standby=ok"])
def test_while_nobody_has_it_the_answer_is_to_come_back(group: Group, query: str) -> None:
    here = group.join()
    here.change(here.add(HOME, {"a": 3}), running=False)
    group.rebalance()
    status, headers, document = ask(here, f"/state/counts/a{query}")
    assert (status, headers["Retry-After"]) == (503, "1")
    assert "value" not in document


def test_an_owner_that_is_gone_is_no_answer(group: Group) -> None:
    here = group.join()
    here.group = {"gone": Peer("127.0.0.1:1", active=frozenset({TaskId(0, HOME)}))}
    status, _, document = ask(here, "/state/counts/a?proxy")
    assert status == 503
    assert "127.0.0.1:1 does not answer" in document["error"]


def test_replicas_answer_within_bounds_when_asked_to(group: Group) -> None:
    here = group.join()
    task_id = here.add(HOME, {"a": 3}, TaskRole.STANDBY)
    here.change(task_id, lag=5, observed_at_ms=here.clock.now_ms())
    document = ask(here, "/state/counts/a?standby=ok&maxLag=5")[2]
    assert (document["value"], document["role"], document["lag"]) == (3, "standby", 5)
    assert [ask(here, f"/state/counts/a?{query}")[0] for query in ("standby=ok&maxLag=4", "local")] == [503, 421]
    here.change(task_id, lag=None)
    assert ask(here, "/state/counts/a?standby=ok")[0] == 503


def test_a_replica_elsewhere_answers_when_its_owner_does_not(group: Group) -> None:
    here, there = group.join(), group.join()
    there.change(there.add(HOME, {"a": 3}, TaskRole.STANDBY), lag=1, observed_at_ms=there.clock.now_ms())
    group.rebalance()
    assert ask(here, "/state/counts/a?proxy&standby=ok&maxLag=1&maxAgeMs=60000")[2]["role"] == "standby"
    assert ask(here, "/state/counts/a?proxy")[0] == 503


def test_a_range_covers_this_endpoint_and_names_what_it_leaves_out(group: Group) -> None:
    here, there = group.join(), group.join()
    here.add(0, {"a": 1, "c": 3})
    here.add(1, {"b": 2})
    there.add(2, {"bb": 4})
    group.rebalance()
    status, _, document = ask(here, "/state/counts?from=a&to=b")
    assert status == 200
    assert [(each["key"], each["value"]) for each in document["entries"]] == [("a", 1), ("b", 2)]
    assert document["partitions"] == [0, 1]
    assert document["elsewhere"] == {"2": there.endpoint, "3": None}
    assert [each["key"] for each in ask(here, "/state/counts?from=&to=")[2]["entries"]] == ["a", "b", "c"]


def test_a_range_of_everything_is_gathered_or_refused(group: Group) -> None:
    here, there = group.join(), group.join()
    here.add(0, {"a": 1, "c": 3})
    there.add(1, {"b": 2})
    there.add(2, {"bb": 4})
    group.rebalance()
    assert ask(here, "/state/counts?proxy")[0] == 503
    there.add(3, {"d": 5})
    group.rebalance()
    document = ask(here, "/state/counts?proxy")[2]
    assert [each["key"] for each in document["entries"]] == ["a", "b", "bb", "c", "d"]
    assert (document["partitions"], document["elsewhere"]) == ([0, 1, 2, 3], {})


def test_a_range_goes_on_where_its_page_ends(group: Group) -> None:
    here, there = group.join(), group.join()
    for partition, keys in enumerate(["adg", "be"]):
        here.add(partition, dict.fromkeys(keys, 1))
    for partition, keys in ((2, "cf"), (3, "h")):
        there.add(partition, dict.fromkeys(keys, 1))
    group.rebalance()
    found, following = "", ""
    while following is not None:
        document = ask(here, f"/state/counts?proxy&limit=3&from={following}")[2]
        found += "".join(each["key"] for each in document["entries"])
        following = document["next"]
    assert found == "abcdefgh"


def test_the_largest_page_can_be_fetched_from_others(group: Group) -> None:
    here, there = group.join(), group.join()
    there.add(0, {"a": 1})
    group.rebalance()
    assert len(ask(here, "/state/counts?partition=0&proxy&limit=10000")[2]["entries"]) == 1


def test_a_range_of_one_partition_is_sent_to_its_owner(group: Group) -> None:
    here, there = group.join(), group.join()
    there.add(1, {"b": 2})
    group.rebalance()
    assert ask(here, "/state/counts?partition=1")[1]["Location"].endswith("/state/counts?partition=1")
    assert [ask(here, f"/state/counts?partition={query}")[0] for query in ("1&local", "3", "4")] == [421, 503, 400]
    assert ask(there, "/state/counts?partition=1")[2]["entries"] == [{"key": "b", "value": 2, "timestamp": 7}]


@pytest.mark.parametrize(
    ("path", "status", "fault"),
    [
        ("/state/other/a", 404, "no store 'other'; it has counts"),
        ("/state/counts/a?maxlag=3", 400, "maxlag: there is no such parameter"),
        ("/state/counts/a?maxLag=3", 400, "standby=ok"),
        ("/state/counts/a?standby=yes", 400, "standby=ok"),
        ("/state/counts/a?standby=ok&maxLag=-1", 400, "max_lag"),
        ("/state/counts/a?partition=x", 400, "partition: cannot use 'x'"),
        ("/state/counts/a?proxy=maybe", 400, "proxy"),
        ("/state/counts?limit=0", 400, "limit: expected 1 to 10000"),
        ("/state/counts/%ff", 400, "utf-8"),
        ("/state/counts/a?format=bytes", 400, "expected base64"),
    ],
)
def test_wrong_requests_are_told_what_is_wrong(group: Group, path: str, status: int, fault: str) -> None:
    answered, _, document = ask(group.join(), path)
    assert answered == status
    assert fault in document["error"]


@pytest.mark.parametrize(
    ("serde", "text", "key"),
    [
        (Serdes.string(), "a b", "a b"),
        (Serdes.long(), "-5", -5),
        (Serdes.integer(), "5", 5),
        (Serdes.short(), "5", 5),
        (Serdes.double(), "0.5", 0.5),
        (Serdes.boolean(), "true", True),
        (Serdes.uuid(), "12345678123456781234567812345678", uuid.UUID(int=0x12345678123456781234567812345678)),
        (Serdes.json(), '{"a":1}', {"a": 1}),
        (Serdes.bytes(), "_w==", b"\xff"),
        (Serdes.bytes(), "/w", b"\xff"),
    ],
)
def test_keys_are_read_by_the_serde_of_the_store(serde: AnySerde, text: str, key: Any) -> None:
    store = store_info(key_serde=serde)
    assert parse_key(store, text, as_bytes=False) == serde.serialize(key)
    assert parse_key(store, encode(serde.serialize(key)), as_bytes=True) == serde.serialize(key)


@pytest.mark.parametrize(
    ("serde", "text"),
    [
        (Serdes.long(), "five"),
        (Serdes.integer(), str(1 << 40)),
        (Serdes.boolean(), "yes"),
        (Serdes.bytes(), "?"),
        (Serdes.list_(Serdes.string()), "[]"),
    ],
)
def test_texts_that_are_no_key_are_refused(serde: AnySerde, text: str) -> None:
    with pytest.raises(InvalidQueryError, match="of store counts"):
        parse_key(store_info(key_serde=serde), text, as_bytes=False)


def test_values_are_shown_as_json_can_and_bytes_as_base64() -> None:
    assert [orjson.dumps(shown(value)) for value in (b"\xff", {"a": {b"x"}}, (1, "é"), None)] == [
        b'"_w=="',
        b'{"a":["eA=="]}',
        '[1,"é"]'.encode(),
        b"null",
    ]
    with pytest.raises(InvalidQueryError, match="format=bytes"):
        shown(object())


def test_flags_need_no_value() -> None:
    asked = parse_parameters("proxy&local=0&limit=7")
    assert (asked.proxy, asked.local, asked.limit) == (True, False, 7)


def test_pages_of_json_keys_go_on_where_the_one_before_ended(group: Group) -> None:
    here = group.join(QueryHost(store_info(key_serde=Serdes.json())))
    keys = ["abc", "x y", 5, {"a": [1]}, None, True]
    entries = {b"k%d" % number: key for number, key in enumerate(keys) if key is not None}
    for partition in range(PARTITIONS):
        here.add(partition)
    for key in entries.values():
        here.opened[TaskId(0, HOME)].stores["counts"].put(key, (1, 7))
    here.committed_only = False
    found, following = [], ""
    while following is not None:
        document = ask(here, f"/state/counts?limit=1&from={quote(following, safe='')}")[2]
        found += [each["key"] for each in document["entries"]]
        following = document["next"]
    assert sorted(found, key=str) == sorted(entries.values(), key=str)


def test_a_key_that_is_too_long_to_ask_others_for_is_refused(group: Group) -> None:
    here, there = group.join(), group.join()
    for partition in range(PARTITIONS):
        there.add(partition)
    group.rebalance()
    with pytest.raises(InvalidQueryError, match="too long"):
        here.queries(partial(HttpFetch(), timeout=_PATIENCE)).get("counts", "k" * 30_000)
    assert here.queries(partial(HttpFetch(), timeout=_PATIENCE)).get("counts", "k" * 20_000) is None

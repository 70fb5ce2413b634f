"""Queries at one instance, with others that are functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from query_hosts import PARTITIONS, QueryHost, store_info
from streamsapp.errors import InvalidQueryError, StateStoreError, StoreNotAvailableError, UnknownStateStoreError
from streamsapp.membership.api import Peer
from streamsapp.query import KeyQueryMetadata, Staleness
from streamsapp.query.queries import PAGE
from streamsapp.query.remote_reader import PeerResponse, decode, encode
from streamsapp.record import TaskId
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.serdes.serdes import Serdes
from streamsapp.state.api import ValueAndTimestamp
from streamsapp.state.kinds.key_value import KEY_VALUE
from streamsapp.tasks.states import TaskRole

KEY = "a"
HOME = partition_for(b"a", PARTITIONS)
TASK = TaskId(0, HOME)


class Others:
    """Answers in place of other instances, and remembers what they were asked."""

    def __init__(self, **replies: Any) -> None:
        self.replies = {endpoint.replace("_", ":"): reply for endpoint, reply in replies.items()}
        self.asked: list[tuple[str, str]] = []

    def __call__(self, endpoint: str, path: str, *, method: str = "GET", timeout: float = 0) -> PeerResponse:
        self.asked.append((endpoint, path))
        reply = self.replies[endpoint]
        if isinstance(reply, Exception):
            raise reply
        return PeerResponse(503 if "error" in reply else 200, {}, orjson.dumps(reply))


@pytest.fixture
def host() -> QueryHost:
    return QueryHost()


def answer(value: int) -> dict[str, Any]:
    raw = encode(Serdes.long().serialize(value))
    return {"key": encode(b"a"), "value": raw, "timestamp": 9, "partition": HOME, "role": "active", "lag": 0}


def test_a_key_is_read_here_as_the_store_would_give_it(host: QueryHost) -> None:
    host.add(HOME, {KEY: 3})
    assert host.queries().get("counts", KEY) == ValueAndTimestamp(3, 7)
    assert QueryHost.queries(host).get("counts", "b", partition=HOME) is None


def test_a_plain_store_gives_plain_values() -> None:
    host = QueryHost(kind=KEY_VALUE)
    host.add(HOME, {KEY: 3})
    assert host.queries().get("counts", KEY) == 3


@pytest.mark.parametrize(("committed_only", "value"), [(True, 3), (False, 4)])
def test_uncommitted_writes_are_seen_only_where_nothing_is_reverted(
    host: QueryHost, committed_only: bool, value: int
) -> None:
    task_id = host.add(HOME, {KEY: 3})
    host.put(task_id, {KEY: 4})
    host.committed_only = committed_only
    assert host.queries().get("counts", KEY).value == value


def test_what_is_not_here_is_asked_for_where_it_is(host: QueryHost) -> None:
    host.group = {"other": Peer("other:1", active=frozenset({TASK}))}
    others = Others(other_1=answer(5))
    assert host.queries(others).get("counts", KEY) == ValueAndTimestamp(5, 9)
    assert others.asked == [("other:1", f"/state/counts/{encode(b'a')}?partition={HOME}&format=bytes&local=1")]


def test_replicas_are_tried_when_the_owner_does_not_answer(host: QueryHost) -> None:
    of_task = frozenset({TASK})
    host.group = {"a": Peer("a:1", active=of_task), "b": Peer("b:1", standby=of_task)}
    others = Others(a_1=ConnectionRefusedError("refused"), b_1=answer(4))
    assert host.queries(others).get("counts", KEY, stale=Staleness(max_lag=10)).value == 4
    assert others.asked[1][1].endswith("&standby=ok&maxLag=10")
    with pytest.raises(StoreNotAvailableError, match="a:1 does not answer: refused"):
        host.queries(others).get("counts", KEY)


def test_when_nobody_answers_each_reason_is_told(host: QueryHost) -> None:
    host.group = {"a": Peer("a:1", active=frozenset({TASK}))}
    with pytest.raises(StoreNotAvailableError, match="a:1: it is moving"):
        host.queries(Others(a_1={"error": "it is moving"})).get("counts", KEY)


def test_a_replica_answers_only_within_the_bounds(host: QueryHost) -> None:
    task_id = host.add(HOME, {KEY: 3}, TaskRole.STANDBY)
    host.change(task_id, lag=2, observed_at_ms=host.clock.now_ms())
    assert host.queries().get("counts", KEY, stale=Staleness(max_lag=2)).value == 3
    with pytest.raises(StoreNotAvailableError, match="a standby replica here, 2 records behind"):
        host.queries().local.get(host.info, HOME, b"a", Staleness(max_lag=1))
    with pytest.raises(StoreNotAvailableError):
        host.queries().local.get(host.info, HOME, b"a", None)


def leaves(host: QueryHost) -> None:
    host.views.clear()


def becomes_standby(host: QueryHost) -> None:
    host.change(TASK, role=TaskRole.STANDBY)


def restores(host: QueryHost) -> None:
    host.change(TASK, running=False)


def is_silent(host: QueryHost) -> None:
    host.safe_until = host.clock.monotonic() - 1


def opens_others(host: QueryHost) -> None:
    host.change(TASK, stores=QueryHost().opened or {})


@pytest.mark.parametrize("event", [leaves, becomes_standby, restores, is_silent, opens_others])
def test_what_was_read_while_the_task_went_away_is_no_answer(
    host: QueryHost, event: Callable[[QueryHost], None]
) -> None:
    host.add(HOME, {KEY: 3})
    view = host.views[TASK].stores["counts"]
    read = view.get

    def get_and_lose(key: bytes, *, committed: bool) -> Any:
        found = read(key, committed=committed)
        event(host)
        return found

    view.get = get_and_lose  # type: ignore[method-assign]
    with pytest.raises(StoreNotAvailableError):
        host.queries().local.get(host.info, HOME, b"a", None)


def test_closed_stores_are_not_read(host: QueryHost) -> None:
    host.opened[host.add(HOME, {KEY: 3})].close()
    with pytest.raises(StoreNotAvailableError, match="closed"):
        host.queries().local.get(host.info, HOME, b"a", None)


def test_who_is_told_where_to_ask_hears_the_owner(host: QueryHost) -> None:
    host.group = {"other": Peer("other:1", active=frozenset({TASK}))}
    with pytest.raises(StoreNotAvailableError, match="ask other:1") as told:
        host.queries().local.get(host.info, HOME, b"a", None)
    assert told.value.owner == "other:1"


def test_metadata_names_the_partition_and_who_has_it(host: QueryHost) -> None:
    host.group = {
        "a": Peer("a:1", active=frozenset({TASK})),
        "b": Peer("b:1", standby=frozenset({TASK})),
    }
    expected = KeyQueryMetadata("a:1", frozenset({"b:1"}), HOME)
    assert host.queries().key_metadata("counts", KEY) == expected
    assert host.queries().key_metadata("counts", b"a", Serdes.bytes()) == expected


def test_metadata_of_what_nobody_has_is_refused(host: QueryHost) -> None:
    with pytest.raises(StoreNotAvailableError, match="application_server"):
        host.queries().key_metadata("counts", KEY)


def test_wrong_questions_are_told_what_is_wrong(host: QueryHost) -> None:
    host.add(HOME)
    queries = host.queries()
    with pytest.raises(UnknownStateStoreError, match="no store 'cuonts'; it has counts"):
        queries.get("cuonts", KEY)
    with pytest.raises(InvalidQueryError, match="keys are string"):
        queries.get("counts", 5)
    with pytest.raises(InvalidQueryError, match="null key"):
        queries.get("counts", None)
    with pytest.raises(InvalidQueryError, match="it has 0 to 3"):
        queries.get("counts", KEY, partition=4)
    with pytest.raises(InvalidQueryError, match="it has 0 to 3"):
        queries.range("counts", partition=-1)


def test_an_instance_that_has_not_started_says_so(host: QueryHost) -> None:
    host.known = False
    with pytest.raises(StoreNotAvailableError, match="does not know its stores yet"):
        host.queries().get("counts", KEY)


def test_a_range_is_merged_from_all_partitions_in_order(host: QueryHost) -> None:
    for partition, keys in enumerate(["ae", "bf", "cg", "d"]):
        host.add(partition, dict.fromkeys(keys, partition))
    queries = host.queries()
    assert [key for key, _ in queries.range("counts")] == list("abcdefg")
    assert [(key, value.value) for key, value in queries.range("counts", "b", "d")] == [("b", 1), ("c", 2), ("d", 3)]
    assert [key for key, _ in queries.range("counts", "c", partition=0)] == ["e"]


def test_a_range_goes_on_from_page_to_page(host: QueryHost) -> None:
    expected = {f"{number:05}": number for number in range(2 * PAGE + 1)}
    host.add(0, expected)
    found = {key: value.value for key, value in host.queries().range("counts", partition=0)}
    assert found == expected


def test_a_range_takes_from_others_what_is_not_here(host: QueryHost) -> None:
    host.add(0, {"a": 1})
    host.group = {"other": Peer("other:1", active=frozenset({TaskId(0, 1)}))}
    entry = {"key": encode(b"b"), "value": encode(Serdes.long().serialize(2)), "timestamp": 9}
    others = Others(other_1={"entries": [entry]})
    rows = host.queries(others).range("counts", "a", "b")
    with pytest.raises(StoreNotAvailableError, match="partition 2 of store counts cannot be had"):
        list(rows)
    assert f"before={encode(b'b' + bytes(1))}".replace("=", "%3D").replace("before%3D", "before=") in others.asked[0][1]
    assert list(host.queries(others).range("counts", partition=1)) == [("b", ValueAndTimestamp(2, 9))]


@pytest.mark.parametrize("data", [b"", b"a", b"\xff\xfe?>", bytes(5)])
def test_bytes_survive_as_text_padded_or_not(data: bytes) -> None:
    assert decode(encode(data)) == data
    assert decode(encode(data).rstrip("=")) == data
    assert decode(encode(data).replace("-", "+").replace("_", "/")) == data


def test_text_that_is_no_base64_is_refused() -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode("not base64!")


def test_a_store_without_partitions_of_that_number_is_refused() -> None:
    with pytest.raises(InvalidQueryError, match="partition: 9 is none of store counts's"):
        store_info().task_id(9)


def test_an_answer_of_many_entries_ends_with_its_block(host: QueryHost) -> None:
    host.add(HOME, {"a": 1, "b": 2})
    with host.queries().range("counts", partition=HOME) as found:
        assert next(found) == ("a", ValueAndTimestamp(1, 7))
    with pytest.raises(StateStoreError, match="closed"):
        next(found)

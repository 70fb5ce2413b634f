"""A pod's word about itself is untrusted: it is understood whole or not at all, and never raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp import TaskId
from streamsapp.runtime.hand_overs import HandOver
from streamsapp.runtime.status import _hand_over
from streamsapp_operator.model.observed_state import HandOverReport, HangReport, Outage, PodReport, ReportedRole
from streamsapp_operator.observe.status_document import MAX_BYTES, read_status

STORE: dict[str, Any] = {
    "name": "counts",
    "changelog": "counts-changelog-1",
    "position": 90,
    "endOffset": 100,
    "lag": 10,
    "observedAt": "2026-01-01T00:00:10.500+00:00",
    "mode": "updating",
    "snapshot": {"epoch": 3, "offset": 80, "createdAt": "2026-01-01T00:00:00Z", "confirmedAt": None},
}
TASK: dict[str, Any] = {
    "id": "0_1",
    "role": "standby",
    "state": "RUNNING",
    "stores": [STORE],
    "inputLag": None,
    "processedRecords": 42,
    "restore": {"predictedSeconds": 1.5, "observedSeconds": None, "totalBytes": 7},
}
DOCUMENT: dict[str, Any] = {
    "applicationId": "app",
    "instance": "app-0",
    "state": "RUNNING",
    "generation": 7,
    "tasks": [TASK],
    "globalStores": [],
}


def read(document: Any) -> PodReport | str:
    return read_status(json.dumps(document).encode(), "app", 100.0, -0.5)


def test_understands_what_a_runtime_says() -> None:
    report = read(DOCUMENT)
    assert isinstance(report, PodReport)
    assert (report.state, report.generation, report.fetched_at, report.clock_offset) == ("RUNNING", 7, 100.0, -0.5)
    (task,) = report.tasks
    assert (task.id, task.role, task.predicted_restore_seconds) == ("0_1", ReportedRole.STANDBY, 1.5)
    assert task.processed == 42
    (store,) = task.stores
    assert (store.position, store.end_offset, store.lag, store.mode) == (90, 100, 10, "updating")
    assert (store.observed_at, store.snapshot_offset, store.snapshot_at) == (1767225610.5, 80, 1767225600.0)


def test_a_snapshot_that_was_confirmed_is_as_young_as_that() -> None:
    store = STORE | {"snapshot": STORE["snapshot"] | {"confirmedAt": "2026-01-01T00:00:30Z"}}
    report = read(DOCUMENT | {"tasks": [TASK | {"stores": [store]}]})
    assert isinstance(report, PodReport)
    assert report.tasks[0].stores[0].snapshot_at == 1767225630.0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"lag": -1}, "lag"),
        ({"lag": "10"}, "lag"),
        ({"lag": 1.5}, "lag"),
        ({"lag": 2**70}, "lag"),
        ({"lag": True}, "lag"),
        ({"observedAt": "2026-01-01T00:00:10"}, "observedAt"),
        ({"observedAt": 12}, "observedAt"),
        ({"mode": None}, "mode"),
        ({"name": "x" * 1000}, "name"),
        ({"name": "\x1b[2J"}, "name"),
    ],
)
def test_refuses_a_store_with_a_wrong_field_and_names_it(change: dict[str, Any], complaint: str) -> None:
    answer = read(DOCUMENT | {"tasks": [TASK | {"stores": [STORE | change]}]})
    assert isinstance(answer, str)
    assert answer.startswith("its /status is not understood")
    assert complaint in answer


@pytest.mark.parametrize("count", [-1, 1.5, "1", 2**70, True])
def test_refuses_a_count_that_is_none(count: object) -> None:
    answer = read(DOCUMENT | {"tasks": [TASK | {"processedRecords": count}]})
    assert isinstance(answer, str)
    assert "processedRecords" in answer


def test_takes_what_a_pod_tells_of_its_progress() -> None:
    hang: dict[str, Any] = {
        "task": "0_1",
        "seconds": 31.4,
        "message": "task 0_1 has had record in-1@17 in process for 31 s",
    }
    told = {
        "notes": ["it waits\x1b" + "x" * 900],
        "hanging": [hang],
        "inProcessSeconds": 31.4,
        "usualProcessSeconds": 12.5,
        "instanceRestarts": 2,
        "restartedSecondsAgo": 7.5,
    }
    report = read(DOCUMENT | told | {"tasks": [TASK | {"commits": 3, "waitingRecords": 5, "paused": True}]})
    assert isinstance(report, PodReport)
    assert report.hanging == (HangReport("0_1", 31.4, hang["message"]),)
    assert (report.in_process_seconds, report.instance_restarts, report.restarted_seconds_ago) == (31.4, 2, 7.5)
    assert (report.tasks[0].commits, report.tasks[0].waiting, report.usual_process_seconds) == (3, 5, 12.5)
    assert report.tasks[0].paused
    starting = read(DOCUMENT | {"inProcessSeconds": None, "usualProcessSeconds": None})
    assert isinstance(starting, PodReport)
    assert (starting.in_process_seconds, starting.usual_process_seconds) == (None, 0.0)
    assert report.notes == (("it waits" + "x" * 900)[:300],)
    for wrong in ({"hanging": [hang | {"task": "x"}]}, {"hanging": 1}, {"instanceRestarts": -1}):
        assert isinstance(read(DOCUMENT | wrong), str)


HAND_OVER: dict[str, Any] = {"task": "0_1", "at": "2026-01-01T00:00:10Z", "gapSeconds": 0.08, "kind": "planned"}


def test_takes_the_last_hand_overs_that_a_pod_tells_of() -> None:
    found = [HAND_OVER | {"at": f"2026-01-01T00:{it // 60:02}:{it % 60:02}Z"} for it in reversed(range(100))]
    report = read(DOCUMENT | {"handOvers": [*found, HAND_OVER | {"steps": {"assigned": 0.02, "read": 0.05}}]})
    assert isinstance(report, PodReport)
    assert report.hand_overs is not None
    assert len(report.hand_overs) == 64
    assert report.hand_overs[-1] == HandOverReport("0_1", 1767225600.0 + 99, 0.08, "planned")
    older, none = read(DOCUMENT), read(DOCUMENT | {"handOvers": []})
    assert isinstance(older, PodReport)
    assert isinstance(none, PodReport)
    assert (older.hand_overs, none.hand_overs) == (None, ())


def test_understands_the_hand_over_that_an_instance_reports() -> None:
    steps = {"assigned": 0.02, "restored": 0.03, "read": 0.05}
    report = read(DOCUMENT | {"handOvers": [_hand_over(HandOver(TaskId(0, 1), 10_000, 0.081, "planned", steps))]})
    assert isinstance(report, PodReport)
    assert report.hand_overs == (HandOverReport("0_1", 10.0, 0.081, "planned", 0.02, 0.03, 0.05),)


@pytest.mark.parametrize(
    "change",
    [
        {"gapSeconds": -1},
        {"gapSeconds": "1"},
        {"gapSeconds": 1e300},
        {"gapSeconds": None},
        {"steps": {"assigned": -0.1}},
        {"steps": None},
        {"task": "x"},
        {"at": "2026-01-01T00:00:10"},
        {"at": "0001-01-01T00:00:10Z"},
        {"kind": "x" * 41},
        {"kind": "\x1b[2J"},
    ],
)
def test_refuses_a_hand_over_that_is_none(change: dict[str, Any]) -> None:
    answer = read(DOCUMENT | {"handOvers": [HAND_OVER | change]})
    assert isinstance(answer, str)
    assert "is not understood" in answer


@pytest.mark.parametrize("field", ["position", "endOffset", "lag", "observedAt", "mode", "name", "changelog"])
def test_a_field_that_is_left_out_is_not_taken_for_unknown(field: str) -> None:
    store = {name: value for name, value in STORE.items() if name != field}
    assert isinstance(read(DOCUMENT | {"tasks": [TASK | {"stores": [store]}]}), str)


@pytest.mark.parametrize("task", ["0_1_2", "a_b", "", "0_1\n", "0_" + "1" * 20])
def test_refuses_what_is_no_task(task: str) -> None:
    assert isinstance(read(DOCUMENT | {"tasks": [TASK | {"id": task}]}), str)


def test_refuses_another_application() -> None:
    assert read(DOCUMENT | {"applicationId": "other"}) == "another application answers at its address: 'other'"


def test_refuses_what_is_too_large_without_reading_it() -> None:
    assert read_status(b"[" * (MAX_BYTES + 1), "app", 0.0, 0.0) == "its /status is larger than 4 MiB"


def test_refuses_what_is_nested_without_end() -> None:
    assert isinstance(read_status(b'{"tasks":' + b"[" * 100_000, "app", 0.0, 0.0), str)


@given(st.binary(max_size=200))
def test_never_raises_for_bytes(body: bytes) -> None:
    assert isinstance(read_status(body, "app", 0.0, 0.0), str)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*DOCUMENT, *TASK, *STORE]), inner),
    max_leaves=10,
)


@given(st.sampled_from([*DOCUMENT]), JSON)
def test_never_raises_for_a_document_with_something_else_in_a_field(field: str, value: Any) -> None:
    assert isinstance(read(DOCUMENT | {field: value}), PodReport | str)


OUTAGE = {"name": "kafka", "address": "k:9092", "since": "2026-01-01T00:00:10Z", "message": "no answer"}


def test_understands_whether_a_pod_is_ready_who_is_in_its_group_and_what_it_cannot_reach() -> None:
    report = read(DOCUMENT | {"ready": True, "peers": ["10.0.0.1:8080"], "outages": [OUTAGE]})
    assert isinstance(report, PodReport)
    assert (report.ready, report.peers) == (True, ("10.0.0.1:8080",))
    assert report.outages == (Outage("kafka", "k:9092", 1767225610.0, "no answer"),)


@pytest.mark.parametrize(
    "change",
    [
        {"ready": "yes"},
        {"peers": [5]},
        {"peers": ["a\x1bb"]},
        {"outages": [OUTAGE] * 11},
        {"outages": [OUTAGE | {"name": "postgres"}]},
        {"outages": [OUTAGE | {"message": "x" * 301}]},
    ],
)
def test_what_a_pod_says_of_what_is_around_it_is_checked_as_all_else(change: dict[str, Any]) -> None:
    report = read(DOCUMENT | change)
    assert isinstance(report, str)
    assert "is not understood" in report


def test_a_task_of_a_pod_with_remote_state_is_known_as_such() -> None:
    with_it, without = read(DOCUMENT), read(DOCUMENT | {"tasks": [TASK | {"restore": None}]})
    assert isinstance(with_it, PodReport)
    assert isinstance(without, PodReport)
    assert (with_it.tasks[0].has_remote_state, without.tasks[0].has_remote_state) == (True, False)


@pytest.mark.parametrize("task", ["0_999999999", "0_100000", "10000_0", "00_1", "0_01"])
def test_refuses_a_task_with_a_number_that_no_topology_has(task: str) -> None:
    answer = read(DOCUMENT | {"tasks": [TASK | {"id": task}]})
    assert isinstance(answer, str)
    assert "$.tasks[0].id" in answer
    assert isinstance(read(DOCUMENT | {"tasks": [TASK | {"id": "9999_99999"}]}), PodReport)


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1969-12-31T23:59:59Z"])
def test_refuses_a_time_that_cannot_be_true(at: str) -> None:
    for change in (
        {"outages": [OUTAGE | {"since": at}]},
        {"tasks": [TASK | {"stores": [STORE | {"observedAt": at}]}]},
        {"tasks": [TASK | {"stores": [STORE | {"snapshot": {"offset": 1, "createdAt": at}}]}]},
    ):
        assert "is no time between 1970 and 2200" in str(read(DOCUMENT | change))

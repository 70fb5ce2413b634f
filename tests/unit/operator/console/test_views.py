"""The views of applications on the page, made of objects and of reports of pods."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kubectl_parts import app_document, healthy_status
from observed_builders import NOW, active, pod, pods, report, standby, store
from streamsapp_operator.console.app_page import EVENTS, app_page
from streamsapp_operator.console.app_row import COLUMNS, app_row
from streamsapp_operator.console.look import Look
from streamsapp_operator.console.matrix import away, matrix, snapshots
from streamsapp_operator.console.rollouts import hand_overs, history, rollout, timeline
from streamsapp_operator.console.tables import LETTERS, ROWS, PageCell, PageRow, PageTable
from streamsapp_operator.model.observed_state import HandOverReport, PodSeen, ReportedRole
from streamsapp_operator.plugin.style import Tone

BEHIND = "StandbyBehind: the standby on app-2 is more than 1000 records behind"


def look(*seen: PodSeen, status: dict[str, Any] | None = None, **changes: Any) -> Look:
    """At an application whose operator takes standbys that are 1000 records behind and no more."""
    accepted = {"revision": "one", "replicas": len(seen), "rollout": {"maxStandbyLag": 1000}}
    told = healthy_status(targetReplicas=len(seen), accepted=accepted, **(status or {}))
    spec = changes.pop("spec", {})
    return Look(at=NOW, document=app_document(told, **spec), seen=tuple(seen), **changes)


def texts(row: PageRow) -> list[str]:
    return [cell.text if isinstance(cell, PageCell) else cell for cell in row.cells]


def at(seconds_ago: float) -> str:
    return datetime.fromtimestamp(NOW - seconds_ago, UTC).isoformat().replace("+00:00", "Z")


def test_a_task_says_who_is_active_who_follows_and_who_goes_on() -> None:
    table = matrix(look(*pods("one", "one", "one")))
    assert table.columns == ["Task", "app-0", "app-1", "app-2", "If its pod goes away"]
    assert texts(table.rows[0]) == [
        "0_0", "active · 10 records wait", "", "standby · 0 behind, seen 2s ago", "app-2 goes on after about 1.0s",
    ]  # fmt: skip
    assert [row.key for row in table.rows] == ["0_0", "0_1", "0_2"]


def test_a_standby_that_is_too_far_behind_says_so_and_its_task_goes_on_nowhere() -> None:
    first, second, last = pods("one", "one", "one")
    late = replace(last, report=report(active("0_2"), standby("0_0", position=0, end_offset=5000, lag=5000)))
    seen = look(first, second, late)
    row = matrix(seen).rows[0]
    assert (texts(row)[3], texts(row)[4]) == ("standby · 5,000 behind, seen 2s ago", BEHIND)
    assert [cell.tone for cell in row.cells[3:] if isinstance(cell, PageCell)] == [Tone.WARN, Tone.WARN]
    assert away(seen, first).text == f"not safe: 0_0: {BEHIND}"
    assert away(seen, second).text == "safe: its tasks run again after about 1.0s"


def test_a_task_without_its_pod_is_run_by_nobody() -> None:
    first, second, last = pods("one", "one", "one")
    gone = replace(first, report=None, unreachable="it did not answer")
    row = matrix(look(gone, second, last)).rows[0]
    assert texts(row) == ["0_0", "", "", "standby · 0 behind, seen 2s ago", "no pod runs it now"]


def test_a_task_with_a_snapshot_goes_on_anywhere_and_one_without_stores_at_once() -> None:
    saved = store("0_0", ReportedRole.ACTIVE, snapshot_offset=40, snapshot_at=NOW - 34)
    restored = active("0_0", stores=(saved,), predicted_restore_seconds=11.0, has_remote_state=True)
    seen = look(pod(0, restored, active("0_1", stores=())), pod(1), spec={"remoteState": {"url": "s3://b/p"}})
    assert [texts(row)[-1] for row in matrix(seen).rows] == [
        "any pod restores its snapshot, and goes on after about 12.0s",
        "it has no state: any pod goes on at once",
    ]
    assert [texts(row) for row in snapshots(seen).rows] == [["0_0", "counts", "app-0", "34s", "60", "11.0s"]]


def test_tasks_are_in_the_order_of_their_numbers() -> None:
    seen = look(pod(0, *(active(f"0_{number}") for number in (10, 9, 2))))
    assert [row.key for row in matrix(seen).rows] == ["0_2", "0_9", "0_10"]


def test_pods_that_nobody_may_ask_are_not_called_safe() -> None:
    silent = [replace(each, report=None, unreachable="there is no token to ask it with") for each in pods("one", "one")]
    seen = look(*silent)
    assert away(seen, silent[0]).text == "?"
    assert matrix(seen).note == "No pod told of its tasks."


def test_gaps_are_predicted_as_the_operator_does_by_what_it_remembers() -> None:
    known = [{"kind": "standby", "workSeconds": 0.0, "seconds": 0.12, "reported": True}]
    seen = look(*pods("one", "one"), status={"workingMemory": {"observedGaps": known}})
    assert away(seen, seen.seen[0]).text == "safe: its tasks run again after about 120ms"
    assert away(seen, seen.seen[0]).why == "a standby goes on, 1 such observed"
    assert texts(matrix(seen).rows[0])[-1] == "app-1 goes on after about 120ms"


def test_the_hand_overs_that_pods_report_are_listed_the_newest_first() -> None:
    told = (
        HandOverReport("0_0", NOW - 70, 0.09, "planned", 0.04, 0.05, 0.07),
        HandOverReport("0_1", NOW - 5, 1.5, "unplanned"),
    )
    first, second = pods("one", "one")
    seen = look(first, replace(second, report=replace(report(), hand_overs=told)))
    assert [texts(row) for row in hand_overs(seen).rows] == [
        ["0_1", "app-1", "5s ago", "1.5s", "", "", "", "unplanned"],
        ["0_0", "app-1", "1m10s ago", "90ms", "40ms", "50ms", "70ms", "planned"],
    ]
    assert hand_overs(look(first)).note == "No pod reports one."


def test_rollouts_are_drawn_as_pods_by_time_with_the_restart_under_way() -> None:
    done = {"pod": "app-0", "startedAt": at(60), "predictedSeconds": 1.0, "observedSeconds": 7.5}
    again = {"pod": "app-0", "startedAt": None, "predictedSeconds": None, "observedSeconds": 0.5}
    status = {
        "rollout": {
            "revision": "two", "phase": "Rolling", "updated": 1, "total": 2, "startedAt": at(90), "current": "app-1",
            "stepStartedAt": at(5), "predictedSeconds": 2.0,
        },
        "history": [
            {"revision": "two", "phase": "Rolling", "startedAt": at(90), "steps": [done]},
            {"revision": "one", "phase": "Complete", "startedAt": at(900), "endedAt": at(840), "steps": [again]},
        ],
    }  # fmt: skip
    now = int(1000 * NOW)
    newest, before = timeline(look(*pods("two", "one"), status=status))
    assert newest == {
        "revision": "two", "phase": "Rolling", "startedMs": now - 90_000, "endedMs": None,
        "steps": [
            {"pod": "app-0", "startedMs": now - 60_000, "predicted": 1.0, "observed": 7.5},
            {"pod": "app-1", "startedMs": now - 5_000, "predicted": 2.0, "observed": None},
        ],
    }  # fmt: skip
    assert (before["startedMs"], before["endedMs"]) == (now - 900_000, now - 840_000)
    assert before["steps"] == [{"pod": "app-0", "startedMs": None, "predicted": None, "observed": 0.5}]
    assert app_page(look(status=status))["timeline"] == [newest, before]
    assert timeline(look()) == []


def test_a_rollout_shows_for_each_pod_what_is_predicted_and_what_it_cost() -> None:
    first, second, last = pods("two", "two", "one")
    steps = [
        {
            "pod": "app-0", "startedAt": at(60), "predictedSeconds": 1.0, "observedSeconds": 7.5,
            "predictedFrom": "a standby goes on, 3 such observed",
        },
        {"pod": "app-1", "startedAt": at(9), "predictedSeconds": 0.35, "observedSeconds": 0.4},
    ]  # fmt: skip
    status = {
        "rollout": {"revision": "two", "phase": "Rolling", "updated": 2, "total": 3, "startedAt": at(90)},
        "history": [
            {"revision": "two", "phase": "Rolling", "startedAt": at(90), "steps": steps},
            {
                "revision": "bad",
                "phase": "RolledBack",
                "startedAt": at(900),
                "endedAt": at(840),
                "failure": "it crashed",
            },
        ],
    }
    seen = look(first, second, last, status=status)
    table = rollout(seen)
    assert table.note == "Rolling: 2 of 3 pods on revision two."
    assert [texts(row) for row in table.rows] == [
        ["app-0", "has the revision", "1.0s", "7.5s", "a standby goes on, 3 such observed"],
        ["app-1", "has the revision", "350ms", "400ms", ""],
        ["app-2", "has revision one", "1.0s", "", "a standby goes on, none such was observed yet"],
    ]
    assert [row.cells[3].tone for row in table.rows[:2] if isinstance(row.cells[3], PageCell)] == [Tone.WARN, Tone.GOOD]
    assert [texts(row) for row in history(seen).rows] == [
        ["1m30s ago", "two", "Rolling", "", "2", "1.0s", "7.5s", ""],
        ["15m00s ago", "bad", "RolledBack", "1m00s", "0", "", "", "it crashed"],
    ]


def test_who_may_not_see_pods_is_told_what_the_operator_says_of_them() -> None:
    page = app_page(look(pods=None, status={"readyReplicas": 2}))
    assert page["facts"][0] == ["pods", "2 of 3 ready, says the operator"]


def test_orders_are_those_that_the_viewer_may_give_and_the_application_takes() -> None:
    waits = {"rollout": {"revision": "two", "phase": "Blocked"}}
    seen = look(*pods("one"), status=waits)
    assert app_page(seen)["requests"] == []
    assert app_page(replace(seen, may_change=True))["requests"] == ["restart", "restartPod", "pause", "approve"]
    seen.document["metadata"]["annotations"] = {"streamsapp.dev/paused": "true"}
    assert app_page(replace(seen, may_change=True))["requests"] == ["restart", "restartPod", "approve"]


def test_the_last_events_are_shown_first_and_long_ones_are_cut() -> None:
    events = [
        {
            "metadata": {"name": f"e{number}", "creationTimestamp": at(0)},
            "lastTimestamp": at(1000 - number),
            "reason": "Told",
            "type": "Warning",
            "message": "x" * 5000,
        }
        for number in range(2 * EVENTS)
    ]
    [table] = [each for each in app_page(look(events=events))["tables"] if each["name"] == "events"]
    assert [key for key, _ in table["rows"]][:2] == [f"e{2 * EVENTS - 1}", f"e{2 * EVENTS - 2}"]
    assert len(table["rows"]) == EVENTS
    assert all(len(cell["value"]) < LETTERS + 10 for _, cells in table["rows"] for cell in cells)


def test_a_table_without_end_is_cut_and_says_so() -> None:
    told = PageTable(
        "all", "All", ["#Number"], [PageRow(f"{number}", [f"{number}"]) for number in range(ROWS + 7)]
    ).document()
    assert (len(told["rows"]), told["note"], told["columns"]) == (ROWS, "7 rows more", [["Number", "number"]])


def test_an_application_among_all_says_what_matters_of_it() -> None:
    blocked = {"safe": False, "blockers": [{"pod": "wordcount-0", "reason": BEHIND}]}
    moves = {"revision": "two", "phase": "Blocked", "updated": 1, "total": 3, "message": "waits"}
    status = healthy_status(restart=blocked, rollout=moves, readyReplicas=2)
    row = app_row(app_document(status, remoteState={"url": "s3://b/p"}))
    assert row.key == "default/wordcount"
    assert dict(zip(COLUMNS, texts(row), strict=True)) == {
        "Application": "wordcount", "Namespace": "default", "State": "Running", "#Pods ready": "2 of 3",
        "#Input lag": "1,310", "#Worst standby": "42", "Restart": "not safe", "Rollout": "Blocked · 1 of 3",
        "Snapshots": "Fresh", "Engine": "threads",
    }  # fmt: skip
    name, restart = row.cells[0], row.cells[6]
    assert isinstance(name, PageCell)
    assert isinstance(restart, PageCell)
    assert (name.href, restart.why) == ("#app/default/wordcount", BEHIND)


def test_an_application_that_no_operator_looked_at_says_nothing_else() -> None:
    row = app_row(app_document())
    assert texts(row) == ["wordcount", "default", "not attended to", *[""] * (len(COLUMNS) - 3)]

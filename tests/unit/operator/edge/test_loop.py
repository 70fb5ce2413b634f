"""A loop never dies of an error, and never reports the same error twice."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from typing import Any

import pytest

from instances import eventually
from memory_api import MemoryApi
from streamsapp.clock import SystemClock
from streamsapp_operator.children import RenderSettings
from streamsapp_operator.consumer_groups import ConsumerGroups
from streamsapp_operator.kube import ApiError, Conflict, InternalError, Rejected, Unavailable
from streamsapp_operator.kube.documents import read_json
from streamsapp_operator.loop import LONGEST_BACKOFF, LONGEST_OUTAGE_BACKOFF, Key, Loop, Loops
from streamsapp_operator.metrics import OperatorMetrics
from streamsapp_operator.model.actions import Evict, SetBudget
from streamsapp_operator.model.desired_state import DesiredState, InvalidSpec
from streamsapp_operator.model.observed_state import ObservedState
from streamsapp_operator.model.status import AppStatus
from streamsapp_operator.observe import PodAsker
from streamsapp_operator.plan import ReconcilePlan
from streamsapp_operator.reconcile import FIGURES_SECONDS, OperatorContext
from streamsapp_operator.reconcile_interval import IDLE_SECONDS, PERIOD, Pace
from streamsapp_operator.shared_informers import make_cache
from streamsapp_operator.steady_clock import SteadyClock

APP: dict[str, Any] = {
    "apiVersion": "streamsapp.dev/v1alpha1",
    "kind": "StreamsApp",
    "metadata": {"name": "app", "namespace": "ns", "uid": "u"},
    "spec": {"topology": {"entrypoint": "a:b"}, "kafka": {"bootstrapServers": "k:9092"}, "image": "image:1"},
}
KEY = Key("ns", "app")


class Clock(SteadyClock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.at = 1_000_000.0

    def now(self) -> float:
        return self.at


class Stage:
    """A loop whose turns are made one by one."""

    def __init__(self) -> None:
        self.api, self.clock, self.figures = MemoryApi(), Clock(), OperatorMetrics()
        self.api.put(APP)
        self.planned: ReconcilePlan | Exception = ReconcilePlan(AppStatus(phase="Running"), ())
        self.asked: list[DesiredState | InvalidSpec] = []
        self.seen: list[ObservedState] = []
        settings = RenderSettings(runtime_image=None, operator_namespace="ns")
        asker = PodAsker(self.clock)
        self.tools = OperatorContext(self.api, asker, self.clock, settings, b"k" * 32, "test", lambda: True, self._plan)
        self.loop = Loop(KEY, self.tools, self.figures, Pace())

    def _plan(
        self, app: DesiredState | InvalidSpec, observed: ObservedState, status: AppStatus, now: float
    ) -> ReconcilePlan:
        self.asked.append(app)
        self.seen.append(observed)
        if isinstance(self.planned, Exception):
            raise self.planned
        return self.planned

    def reconcile(self) -> float | None:
        return self.loop.reconcile()

    def events(self) -> list[str]:
        return [event["reason"] for event in self.api.list_events()]

    def status_writes(self) -> int:
        return sum(call.startswith("status") for call in self.api.written())


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_writes_the_status_before_it_acts(stage: Stage) -> None:
    stage.planned = ReconcilePlan(AppStatus(phase="Rolling"), (SetBudget(0),))
    assert stage.reconcile() == PERIOD
    assert list(stage.api.written()) == [
        "status StreamsApp/app",
        "merge StreamsApp/app",
        "apply PodDisruptionBudget/app",
    ]
    assert stage.api.objects["StreamsApp", "app"]["status"]["phase"] == "Rolling"


def test_does_nothing_when_the_application_changed_meanwhile(stage: Stage) -> None:
    def somebody_writes(call: str) -> ApiError | None:
        if call.startswith("status"):
            stage.api.objects["StreamsApp", "app"]["metadata"]["resourceVersion"] = "other"
        return None

    stage.reconcile()
    stage.api.written()
    stage.api.fails = somebody_writes
    stage.planned = ReconcilePlan(AppStatus(phase="Rolling"), (SetBudget(0),))
    wait = stage.reconcile()
    assert wait is not None
    assert wait < PERIOD
    assert list(stage.api.written()) == ["status StreamsApp/app"]


def test_a_status_that_only_counts_differently_is_written_now_and_then(stage: Stage) -> None:
    stage.planned = ReconcilePlan(AppStatus(phase="Running", input_lag=1), ())
    stage.reconcile()
    assert stage.status_writes() == 1
    for lag in range(2, 7):
        stage.planned = ReconcilePlan(AppStatus(phase="Running", input_lag=lag), ())
        stage.reconcile()
    assert stage.status_writes() == 0
    stage.clock.at += FIGURES_SECONDS
    stage.reconcile()
    stage.reconcile()
    assert stage.status_writes() == 1
    assert stage.api.objects["StreamsApp", "app"]["status"]["inputLag"] == 6
    stage.planned = ReconcilePlan(AppStatus(phase="Running", input_lag=None), ())
    stage.reconcile()
    assert stage.status_writes() == 1


def test_an_error_is_told_once_until_it_is_another_one_or_gone(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    stage.planned = KeyError("at offset 17")
    waits = [stage.reconcile() for _ in range(3)]
    stage.planned = KeyError("at offset 18")
    waits += [stage.reconcile() for _ in range(4)]
    assert_backs_off(waits)
    assert stage.events() == ["OperatorError"]
    assert sum(record.exc_info is not None for record in caplog.records) == 1
    stage.planned = ValueError("something else")
    stage.reconcile()
    assert stage.events() == ["OperatorError", "OperatorError"]
    stage.planned = ReconcilePlan(AppStatus(), ())
    assert stage.reconcile() == PERIOD
    assert "ns/app: works again" in caplog.messages


def test_an_api_server_that_is_away_is_no_event_and_waited_for_not_too_long(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.api.fails = lambda call: Unavailable("refused")
    waits = [stage.reconcile() for _ in range(10)]
    assert waits[-1] == LONGEST_OUTAGE_BACKOFF
    assert stage.asked == []
    assert caplog.messages == ["ns/app: refused"]
    stage.api.fails = lambda call: None
    assert stage.reconcile() == PERIOD
    assert stage.events() == []


def test_an_application_whose_writes_make_the_api_server_fail_is_tried_ever_more_seldom(stage: Stage) -> None:
    stage.planned = ReconcilePlan(AppStatus(), (SetBudget(0),))
    stage.api.fails = lambda call: InternalError("webhook is away") if call.startswith("apply Pod") else None
    assert_backs_off([stage.reconcile() for _ in range(20)])
    assert stage.events() == ["OperatorError"]
    told = stage.seen[-1].trouble
    assert told is not None
    assert (told.reason, told.message) == ("WriteFailed", "webhook is away")
    stage.api.fails = lambda call: None
    assert stage.reconcile() == PERIOD


def assert_backs_off(waits: list[float | None]) -> None:
    """Twice as long each time up to the longest, and at a moment that no other loop shares."""
    for failures, wait in enumerate(waits):
        longest = min(2.0**failures, LONGEST_BACKOFF)
        assert wait is not None
        assert longest / 2 <= wait <= longest
    assert len(set(waits)) > len(waits) / 2


def test_half_a_look_is_none(stage: Stage) -> None:
    stage.api.fails = lambda call: Unavailable("refused") if call == "list Pod" else None
    stage.reconcile()
    assert stage.asked == []


def test_a_refusal_is_told_with_an_event(stage: Stage) -> None:
    stage.planned = ReconcilePlan(AppStatus(), (SetBudget(0),))
    stage.api.fails = lambda call: Rejected("no room") if "Budget" in call and call.startswith("apply") else None
    stage.reconcile()
    assert stage.events() == ["OperatorError"]


def test_an_application_that_was_made_anew_is_another_one(stage: Stage) -> None:
    stage.reconcile()
    first = stage.loop._app
    stage.reconcile()
    assert stage.loop._app is first
    stage.api.put({**APP, "metadata": {**APP["metadata"], "uid": "v"}})
    stage.reconcile()
    assert stage.loop._app is not first


def test_an_application_that_is_gone_ends_its_loop_and_is_measured_no_more(stage: Stage) -> None:
    stage.reconcile()
    assert b'streamsapp_app_restart_safe{name="app"' in stage.figures.render()
    stage.api.objects.clear()
    assert stage.reconcile() is None
    assert b"streamsapp_app_restart_safe{" not in stage.figures.render()


def test_leaves_an_application_alone_that_waits_for_somebody_elses_finalizer(stage: Stage) -> None:
    metadata = APP["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["other"]}
    stage.api.put({**APP, "metadata": metadata})
    assert stage.reconcile() == PERIOD
    assert stage.asked == []
    assert list(stage.api.written()) == []


def test_a_nudge_does_not_make_a_failing_loop_turn_more_often_but_a_change_does(stage: Stage) -> None:
    turns = threading.Semaphore(0)

    def fail(call: str) -> ApiError | None:
        if call == "get StreamsApp/app":
            turns.release()
        return Rejected("x")

    stage.api.fails = fail
    loops = Loops(stage.tools, stage.figures)
    loops.saw(KEY)
    assert turns.acquire(timeout=60)
    while (oldest := loops.oldest()) is not None and oldest[1] <= stage.clock.at:
        time.sleep(0.01)  # the turn has not ended yet
    loops.nudge(KEY)
    assert loops.oldest() == oldest
    stage.clock.at += 1.0
    loops.saw(KEY)
    assert turns.acquire(timeout=60)
    loops.close(5.0)


def test_conflicts_are_tried_again_soon_and_told_to_nobody(stage: Stage) -> None:
    stage.api.fails = lambda call: Conflict("changed") if call.startswith("status") else None
    waits = [stage.reconcile() for _ in range(8)]
    assert waits[0] is not None
    assert waits[0] < PERIOD
    assert waits[-1] == PERIOD
    assert stage.events() == []


def test_loops_begin_with_an_application_and_end_with_it(stage: Stage) -> None:
    loops = Loops(stage.tools, stage.figures)
    loops.saw(KEY)
    oldest = loops.oldest()
    assert oldest is not None
    assert oldest[0] == KEY
    stage.api.objects.clear()
    loops.saw(KEY)

    def is_over() -> bool:
        stage.clock.at += 1.0
        return loops.oldest() is None

    eventually(is_over, "the end of the loop")
    stage.api.put(APP)
    loops.saw(KEY)
    assert loops.oldest() is not None
    loops.close(5.0)
    loops.saw(Key("ns", "late"))
    oldest = loops.oldest()
    assert oldest is not None
    assert oldest[0] == KEY


def test_an_application_that_is_nested_too_deeply_is_refused_by_name(stage: Stage) -> None:
    spec = {**APP["spec"], "podTemplate": read_json(('{"a":' * 3_000 + "1" + "}" * 3_000).encode())}
    stage.api.objects["StreamsApp", "app"]["spec"] = spec
    assert stage.reconcile() == PERIOD
    invalid = stage.asked[0]
    assert isinstance(invalid, InvalidSpec)
    assert invalid.faults[0].startswith("spec.podTemplate.a.a")


def test_a_turn_that_fails_for_a_reason_of_the_applications_own_is_told_in_its_condition(stage: Stage) -> None:
    stage.planned = RecursionError("maximum recursion depth exceeded")
    stage.reconcile()
    conditions = {it["type"]: it for it in stage.api.objects["StreamsApp", "app"]["status"]["conditions"]}
    told = conditions["Degraded"]
    assert conditions["Reconciling"]["status"] == "True"
    assert (told["type"], told["status"], told["reason"]) == ("Degraded", "True", "OperatorError")
    assert "RecursionError" in told["message"]


def test_what_could_not_be_told_ends_no_loop(stage: Stage) -> None:
    stage.planned = KeyError("x")
    stage.api.fails = lambda call: KeyError("as bad") if call.startswith("create Event") else None  # type: ignore[assignment,return-value]
    assert_backs_off([stage.reconcile()])


def test_the_next_plan_knows_what_the_last_turn_could_not_do_and_the_one_after_a_good_turn_does_not(
    stage: Stage,
) -> None:
    stage.planned = ReconcilePlan(AppStatus(), (SetBudget(0),))
    stage.api.fails = lambda call: Rejected("no room") if "Budget" in call and call.startswith("apply") else None
    stage.reconcile()
    stage.api.fails = lambda call: None
    stage.reconcile()
    stage.reconcile()
    troubles = [None if it.trouble is None else it.trouble.reason for it in stage.seen]
    assert troubles == [None, "Rejected", None]


def test_two_applications_with_one_application_id_know_of_each_other_until_one_is_gone(stage: Stage) -> None:
    other = {**APP, "metadata": {**APP["metadata"], "name": "other", "uid": "v"}}
    stage.api.put(
        {**other, "spec": {**APP["spec"], "applicationId": "app", "kafka": {"bootstrapServers": "z:1, k:9092"}}}
    )
    second = Loop(Key("ns", "other"), stage.tools, stage.figures, Pace())
    stage.reconcile()
    second.reconcile()
    stage.reconcile()
    assert [seen.rivals for seen in stage.seen] == [(), ("ns/app",), ("ns/other",)]
    del stage.api.objects["StreamsApp", "other"]
    second.reconcile()
    stage.reconcile()
    assert stage.seen[-1].rivals == ()


def test_applications_on_different_kafkas_are_different_groups(stage: Stage) -> None:
    groups = ConsumerGroups()
    assert groups.rivals("ns/a", "id", "one:9092") == ()
    assert groups.rivals("ns/b", "id", "two:9092") == ()
    assert groups.rivals("ns/c", "other", "one:9092") == ()
    assert groups.rivals("ns/d", "id", None) == ()
    assert groups.rivals("ns/d", "id", "two:9092,one:9092") == ("ns/a", "ns/b")
    assert groups.rivals("ns/a", "id", None) == ("ns/d",), "an invalid spec runs on as it was"


def listed(name: str, made: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "creationTimestamp": made}
    return {"metadata": metadata, "spec": {"applicationId": "id", "kafka": {"bootstrapServers": "one:9092"}, **spec}}


def test_the_older_of_two_applications_of_a_group_is_known_before_its_loop_came_to_it() -> None:
    groups = ConsumerGroups()
    first, second = listed("b", "2026-01-01T00:00:00Z"), listed("a", "2026-01-01T00:00:01Z")
    odd = [{"metadata": first["metadata"] | {"name": "c"}, "spec": spec} for spec in (None, {}, {"kafka": 5})]
    groups.learn(lambda: [second, first, *odd], 100.0)
    groups.learn(lambda: [listed("z", "2000-01-01T00:00:00Z")], 101.0)  # too soon to be asked again
    rivals = groups.rivals("ns/a", "id", "one:9092")
    assert rivals == ("ns/b",)
    assert groups.elder("ns/a", rivals) == "ns/b"
    assert groups.elder("ns/b", ("ns/a",)) is None
    groups.forget("ns/b")
    assert groups.elder("ns/a", groups.rivals("ns/a", "id", "one:9092")) is None


def test_a_new_application_asks_which_others_there_are(stage: Stage) -> None:
    older = {**APP, "metadata": {**APP["metadata"], "name": "older", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    older["spec"] = {**APP["spec"], "applicationId": "app"}
    mine = {**APP, "metadata": {**APP["metadata"], "creationTimestamp": "2026-01-02T00:00:00Z"}}
    tools = dataclasses.replace(stage.tools, list_apps=lambda: [mine, older])
    Loop(KEY, tools, stage.figures, Pace()).reconcile()
    assert [seen.elder for seen in stage.seen] == ["ns/older"]


def test_an_older_resource_is_told_by_an_event_and_the_health_and_nothing_is_written(stage: Stage) -> None:
    managed = [{"manager": "x", "fieldsV1": {"f:spec": {"f:rollout": {"f:soakSeconds": {}}}}}]
    stage.api.put({**APP, "metadata": {**APP["metadata"], "managedFields": managed}})
    tools = dataclasses.replace(stage.tools, known_fields={"rollout": {"soakSeconds": None}})
    stage.loop = Loop(KEY, tools, stage.figures, Pace())
    for _ in range(2):
        stage.reconcile()
    assert stage.events() == ["DefinitionTooOld"]
    assert [call for call in stage.api.written() if "Event" not in call] == []
    assert "leaves 1 StreamsApps as they are: " in stage.figures.left_alone_text
    stage.api.put(APP)
    stage.reconcile()
    assert stage.figures.left_alone_text == ""


def test_a_quiet_application_is_looked_at_without_a_request_and_a_pod_is_taken_by_what_is_there_now(
    stage: Stage,
) -> None:
    asked: list[str] = []

    def note(call: str) -> None:
        asked.append(call)

    stage.api.fails = note
    stage.tools = dataclasses.replace(stage.tools, cache=make_cache(stage.api))
    stage.loop = Loop(KEY, stage.tools, stage.figures, Pace())
    stage.planned = ReconcilePlan(AppStatus(phase="Running"), ())
    stage.reconcile()
    asked.clear()
    assert stage.reconcile() == IDLE_SECONDS
    assert asked == []
    stage.loop.changed()
    stage.reconcile()
    assert asked == ["get StreamsApp/app"]
    asked.clear()
    stage.planned = ReconcilePlan(AppStatus(phase="Running"), (Evict("app-0", "u", "1", "why"),))
    reconciles = len(stage.seen)
    stage.reconcile()
    assert asked == ["get StatefulSet/app", "get PodDisruptionBudget/app", "list Pod", "evict Pod/app-0"]
    assert len(stage.seen) == reconciles + 2


def test_an_application_that_is_left_alone_after_an_error_has_a_budget_that_is_shut(stage: Stage) -> None:
    def budget() -> int:
        return int(stage.api.objects["PodDisruptionBudget", "app"]["spec"]["maxUnavailable"])

    stage.planned = ReconcilePlan(AppStatus(phase="Running"), (SetBudget(1),))
    stage.reconcile()
    assert budget() == 1
    stage.planned = ReconcilePlan(AppStatus(phase="Rolling"), (SetBudget(1),))
    stage.api.fails = lambda call: InternalError("webhook is away") if call.startswith("status") else None
    stage.reconcile()
    assert budget() == 0
    stage.api.written()
    stage.reconcile()
    assert not any("Budget" in call for call in stage.api.written())
    stage.api.fails = lambda call: None
    assert stage.reconcile() == PERIOD
    assert budget() == 1

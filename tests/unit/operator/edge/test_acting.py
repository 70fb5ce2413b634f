"""The requests that go to the API server, the requests that do not, and what happens when it says no."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memory_api import MemoryApi
from streamsapp.clock import SystemClock
from streamsapp_operator.apply import ActionContext, ActionRunner, ChildWriter, NameTakenError
from streamsapp_operator.apply.children import SECRET_SECONDS
from streamsapp_operator.children import RenderSettings
from streamsapp_operator.kube import ApiError, Conflict, Refused, Rejected
from streamsapp_operator.kube.events import Recorder, Subject
from streamsapp_operator.model.actions import (
    Action,
    ApplyChildren,
    DeleteBootstrap,
    DeleteCheck,
    DeleteRevisions,
    Evict,
    PostEvent,
    RemoveFinalizer,
    SetBudget,
    StartBootstrap,
    StartCheck,
)
from streamsapp_operator.model.desired_state import DesiredState
from streamsapp_operator.model.observed_state import ChildrenSeen, ObservedState
from streamsapp_operator.observe import AppObservation
from streamsapp_operator.spec_rendering import rendered_spec
from streamsapp_operator.steady_clock import SteadyClock


class Clock(SteadyClock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.at = 1_000_000.0

    def now(self) -> float:
        return self.at


SPEC: dict[str, Any] = {
    "topology": {"entrypoint": "a:b"},
    "kafka": {"bootstrapServers": "k:9092"},
    "image": "image:1",
    "replicas": 3,
}
APP: dict[str, Any] = {
    "apiVersion": "streamsapp.dev/v1alpha1",
    "kind": "StreamsApp",
    "metadata": {"name": "app", "namespace": "ns", "uid": "u", "finalizers": ["other", "streamsapp.dev/drain"]},
    "spec": SPEC,
}
SETTINGS = RenderSettings(runtime_image=None, operator_namespace="ns")


class Stage:
    """An actor with everything it needs."""

    def __init__(self) -> None:
        self.api, self.clock = MemoryApi(), Clock()
        self.leads = True
        recorder = Recorder(self.api, self.clock, "test")
        self.actor = ActionRunner(self.api, self.clock, recorder, SETTINGS, lambda: self.leads, "u")
        self.document = self.api.put(APP)
        self.asked = rendered_spec(self.document, SETTINGS, lambda name: None)
        self.children: dict[str, Any] = {}
        self.seen = ChildrenSeen()
        self.done: list[str] = []

    @property
    def revision(self) -> str:
        assert isinstance(self.asked.wanted, DesiredState)
        return self.asked.wanted.revision

    def act(self, *actions: Action) -> list[str]:
        observed = ObservedState(at=self.clock.at, children=self.seen, pods=())
        seen = AppObservation(observed, self.children)
        case = ActionContext(self.asked, self.document, seen, Subject("app", "ns", "u"), ("today", "yesterday"))
        self.api.written()
        self.actor.act(actions, case, lambda action: self.done.append(type(action).__name__))
        return list(self.api.written())


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_sends_every_child_once_and_the_pods_last(stage: Stage) -> None:
    wanted = ApplyChildren(stage.revision, 3, 1)
    first = stage.act(wanted)
    assert "create Secret/app-http" in first
    assert first[-1] == "apply StatefulSet/app"
    assert stage.act(wanted) == []


def test_sends_only_what_is_different(stage: Stage) -> None:
    stage.act(ApplyChildren(stage.revision, 3, 1))
    assert stage.act(ApplyChildren(stage.revision, 2, 1)) == ["apply StatefulSet/app"]
    assert stage.act(SetBudget(0)) == ["apply PodDisruptionBudget/app"]
    assert stage.act(ApplyChildren(stage.revision, 2, 0)) == []


def test_a_driver_that_another_revision_left_is_ended(stage: Stage) -> None:
    metadata = {"name": "app-driver", "namespace": "ns"}
    stage.api.put({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": {"replicas": 1}})
    stage.seen = ChildrenSeen(driver_replicas=1)
    assert stage.act(ApplyChildren(stage.revision, 0, 0))[0] == "merge StatefulSet/app-driver"
    stage.seen = ChildrenSeen(driver_replicas=0)
    assert "merge StatefulSet/app-driver" not in stage.act(ApplyChildren(stage.revision, 0, 0))


def test_mends_a_child_of_which_somebody_took_a_field(stage: Stage) -> None:
    wanted = ApplyChildren(stage.revision, 3, 1)
    stage.act(wanted)
    stage.children["StatefulSet/app"]["metadata"]["managedFields"][0]["fieldsV1"] = {}
    assert stage.act(wanted) == ["apply StatefulSet/app"]


def test_a_new_operator_sends_each_child_once_as_it_cannot_know_whose_fields_they_are(stage: Stage) -> None:
    wanted = ApplyChildren(stage.revision, 3, 1)
    stage.act(wanted)
    other = Stage()
    other.api, other.children = stage.api, stage.children
    writer = ChildWriter(other.api, other.clock, "u")
    documents = [it for (kind, _), it in stage.api.objects.items() if kind == "StatefulSet"]
    assert len(documents) == 1
    writer.send_all(documents, other.children)
    writer.send_all(documents, other.children)
    assert other.api.written().count("apply StatefulSet/app") == 1


def test_writes_a_secret_anew_now_and_then_as_it_never_sees_whether_it_is_there(stage: Stage) -> None:
    wanted = ApplyChildren(stage.revision, 3, 1)
    stage.act(wanted)
    stage.clock.at += SECRET_SECONDS - 1
    assert stage.act(wanted) == []
    stage.clock.at += 2
    assert stage.act(wanted) == ["replace Secret/app-http"]
    del stage.api.objects["Secret", "app-http"]
    stage.clock.at += SECRET_SECONDS + 1
    assert stage.act(wanted) == ["replace Secret/app-http", "create Secret/app-http"]


def test_never_takes_what_belongs_to_somebody_else(stage: Stage) -> None:
    theirs = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "app-query", "namespace": "ns"}}
    stage.api.put(theirs)
    with pytest.raises(NameTakenError, match="there is a Service 'app-query' already"):
        stage.act(ApplyChildren(stage.revision, 3, 1))
    assert "apply StatefulSet/app" not in stage.api.calls
    assert "apply Service/app-query" not in stage.api.calls


def test_writes_nobody_elses_secret_and_says_which(stage: Stage) -> None:
    metadata = {"name": "app-http", "namespace": "ns"}
    stage.api.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": "c2VjcmV0"}})
    with pytest.raises(NameTakenError, match=r"there is a Secret 'app-http' already .* delete it or choose another"):
        stage.act(ApplyChildren(stage.revision, 3, 1))
    assert stage.api.objects["Secret", "app-http"]["data"] == {"password": "c2VjcmV0"}
    assert "apply StatefulSet/app" not in stage.api.calls


def test_a_new_operator_knows_the_secret_of_the_one_before(stage: Stage) -> None:
    stage.act(ApplyChildren(stage.revision, 3, 1))
    other = Stage()
    other.api, other.children = stage.api, stage.children
    other.actor = ActionRunner(
        other.api, other.clock, Recorder(other.api, other.clock, "test"), SETTINGS, lambda: True, "u"
    )
    assert "replace Secret/app-http" in other.act(ApplyChildren(stage.revision, 3, 1))


def test_a_secret_that_became_somebody_elses_while_it_was_looked_at_is_not_written(stage: Stage) -> None:
    stage.act(ApplyChildren(stage.revision, 3, 1))
    stage.clock.at += SECRET_SECONDS + 1
    theirs = {"kind": "Secret", "metadata": {"name": "app-http", "uid": "theirs"}}

    def somebody_is_faster(call: str) -> ApiError | None:
        if call == "replace Secret/app-http":
            stage.api.put(theirs)
        return None

    stage.api.fails = somebody_is_faster
    with pytest.raises(NameTakenError, match="there is a Secret 'app-http' already"):
        stage.act(ApplyChildren(stage.revision, 3, 1))
    assert stage.api.objects["Secret", "app-http"]["metadata"]["uid"] == "theirs"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ServiceAccount", "app-runtime"),
        ("Service", "app"),
        ("PodDisruptionBudget", "app"),
        ("NetworkPolicy", "app"),
        ("StatefulSet", "app"),
    ],
)
def test_never_takes_an_object_that_names_it_as_an_owner_but_not_as_its_controller(
    stage: Stage, kind: str, name: str
) -> None:
    metadata = {"name": name, "namespace": "ns", "ownerReferences": [{"kind": "StreamsApp", "name": "app", "uid": "u"}]}
    theirs = stage.api.put({"apiVersion": "v1", "kind": kind, "metadata": metadata})
    with pytest.raises(NameTakenError, match=f"there is a {kind} '{name}' already"):
        stage.act(ApplyChildren(stage.revision, 3, 1))
    assert stage.api.objects[kind, name] == theirs


def test_a_child_that_was_made_anew_by_somebody_else_meanwhile_is_not_written(stage: Stage) -> None:
    stage.act(ApplyChildren(stage.revision, 3, 1))
    live = stage.api.objects["StatefulSet", "app"]
    stage.api.objects["StatefulSet", "app"] = {**live, "metadata": {**live["metadata"], "uid": "theirs"}}
    with pytest.raises(Conflict, match="Precondition failed"):
        stage.act(ApplyChildren(stage.revision, 2, 1))


def test_goes_back_to_a_revision_by_its_config_map_alone(stage: Stage) -> None:
    stage.act(ApplyChildren(stage.revision, 3, 1))
    old = stage.revision
    stage.asked = rendered_spec({**stage.document, "spec": SPEC | {"image": "image:2"}}, SETTINGS, lambda name: None)
    assert stage.revision != old
    stage.act(ApplyChildren(stage.revision, 3, 1))
    assert stage.act(ApplyChildren(old, 3, 1)) == ["apply StatefulSet/app"]
    template = stage.api.objects["StatefulSet", "app"]["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "image:1"


def test_a_revision_whose_configuration_is_gone_can_still_be_scaled_and_nothing_else(stage: Stage) -> None:
    stage.act(ApplyChildren(stage.revision, 3, 1))
    stage.seen = ChildrenSeen(replicas=3, template_revision="lost")
    assert stage.act(ApplyChildren("lost", 1, 1)) == ["merge StatefulSet/app"]
    assert stage.api.objects["StatefulSet", "app"]["spec"]["replicas"] == 1
    stage.seen = ChildrenSeen(replicas=3, template_revision="another")
    with pytest.raises(Rejected, match="the ConfigMap of revision lost was deleted"):
        stage.act(ApplyChildren("lost", 1, 1))


def test_an_application_that_is_deleted_is_drained_whatever_else_is_wrong(stage: Stage) -> None:
    stage.act(ApplyChildren(stage.revision, 3, 1))
    stage.asked = replace(stage.asked, wanted=replace(stage.asked.wanted, deleting=True), revision=None)
    stage.seen = ChildrenSeen(replicas=3, template_revision="lost")
    assert stage.act(ApplyChildren("lost", 0, 0)) == ["merge StatefulSet/app"]


def test_stops_at_the_first_action_that_fails_but_tells_what_the_status_says(stage: Stage) -> None:
    stage.api.fails = lambda call: Refused("a budget") if call.startswith("evict") else None
    with pytest.raises(Refused):
        stage.act(Evict("app-0", "x", "1", "why"), SetBudget(1), PostEvent("Normal", "RolloutStarted", "it starts"))
    assert [call.partition(".")[0] for call in stage.api.written()] == ["evict Pod/app-0", "create Event/app"]
    assert stage.done == []


def test_does_nothing_that_was_decided_by_what_is_too_old_now(stage: Stage) -> None:
    until = stage.clock.at + 1
    stage.clock.at += 2
    assert stage.act(Evict("app-0", "x", "1", "why", until), SetBudget(1)) == []


@pytest.mark.parametrize("fails", [None, Refused("it is ready by now")])
def test_the_budget_lets_a_pod_go_that_is_not_ready_for_as_long_as_that_takes(
    stage: Stage, fails: ApiError | None
) -> None:
    policies: list[tuple[int, str]] = []

    def note(call: str) -> ApiError | None:
        if not call.startswith("evict"):
            return None
        spec = stage.api.objects["PodDisruptionBudget", "app"]["spec"]
        policies.append((spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]))
        return fails

    stage.act(ApplyChildren(stage.revision, 1, 1))
    stage.api.fails = note
    evict = Evict("app-0", "x", "1", "why", unready=True)
    if fails is None:
        assert stage.act(evict) == ["apply PodDisruptionBudget/app", "evict Pod/app-0", "apply PodDisruptionBudget/app"]
    else:
        with pytest.raises(Refused):
            stage.act(evict)

    spec = stage.api.objects["PodDisruptionBudget", "app"]["spec"]
    assert policies == [(0, "AlwaysAllow")]
    assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == (0, "IfHealthyBudget")


def test_does_nothing_when_it_does_not_lead(stage: Stage) -> None:
    stage.leads = False
    assert stage.act(ApplyChildren(stage.revision, 3, 1), Evict("app-0", "x", "1", "why")) == []


def test_starts_a_check_with_nothing_but_what_it_needs(stage: Stage) -> None:
    calls = stage.act(StartCheck(stage.revision))
    assert calls[-1] == f"create Pod/app-check-{stage.revision}"
    assert not any("StatefulSet" in call or "Budget" in call for call in calls)
    assert stage.act(StartCheck(stage.revision)) == [calls[-1]]
    check = stage.api.objects["Pod", f"app-check-{stage.revision}"]
    check["status"] = {"phase": "Failed"}
    assert stage.act(StartCheck(stage.revision)) == [calls[-1], f"evict Pod/app-check-{stage.revision}"]


@pytest.mark.parametrize(("said", "remembered"), [("spec.x: Invalid value", True), ("exceeded quota: pods", False)])
def test_remembers_that_a_check_pod_is_refused_for_good(stage: Stage, said: str, remembered: bool) -> None:
    def fails(call: str) -> ApiError | None:
        return Rejected(said) if call.startswith("create Pod") else None

    stage.api.fails = fails
    with pytest.raises(Rejected):
        stage.act(StartCheck(stage.revision))
    assert stage.actor.rejected == ({stage.revision: said} if remembered else {})


def test_drops_a_check_and_the_configurations_that_nothing_needs(stage: Stage) -> None:
    stage.act(StartCheck(stage.revision))
    assert stage.act(DeleteCheck(stage.revision)) == [f"evict Pod/app-check-{stage.revision}"]
    assert stage.act(DeleteCheck(stage.revision)) == []
    assert stage.act(DeleteRevisions(frozenset({stage.revision}))) == []
    assert stage.act(DeleteRevisions(frozenset())) == [f"delete ConfigMap/app-{stage.revision}"]


def test_lets_an_application_go_and_keeps_the_finalizers_of_others(stage: Stage) -> None:
    assert stage.act(RemoveFinalizer()) == ["merge StreamsApp/app"]
    assert stage.api.objects["StreamsApp", "app"]["metadata"]["finalizers"] == ["other"]


def test_an_event_is_told_once_by_a_crashed_operator_and_counted_by_one_that_lives() -> None:
    api, clock = MemoryApi(), Clock()
    subject = Subject("app", "ns", "u", "1/rollout")
    for _ in range(2):
        Recorder(api, clock, "new process").tell(subject, "Warning", "Blocked", "why")
    (event,) = api.list_events()
    assert event["count"] == 1
    living = Recorder(api, clock, "process")
    for _ in range(3):
        living.tell(subject, "Warning", "Blocked", "why")
    (event,) = api.list_events()
    assert event["count"] == 3
    living.tell(replace(subject, occasion="2/rollout"), "Warning", "Blocked", "why")
    assert len(api.list_events()) == 2


def test_an_event_that_the_cluster_has_forgotten_is_made_anew() -> None:
    api = MemoryApi()
    recorder = Recorder(api, Clock(), "process")
    recorder.tell(Subject("app", "ns", "u"), "Normal", "Done", "it is")
    api.objects.clear()
    recorder.tell(Subject("app", "ns", "u"), "Normal", "Done", "it is")
    assert [event["count"] for event in api.list_events()] == [1]


def test_an_event_that_cannot_be_posted_stops_nothing() -> None:
    api = MemoryApi()
    api.fails = lambda call: Rejected("no")
    Recorder(api, Clock(), "process").tell(Subject("app", "ns", "u"), "Normal", "Done", "x" * 5000)
    assert len(api.calls) == 1


BOOTSTRAPS = SPEC | {"remoteState": {"url": "s3://bucket/prefix"}, "bootstrap": {"image": "spark:1"}}


@pytest.fixture
def bootstraps(stage: Stage) -> Stage:
    """With an application that asks for a bootstrap."""
    stage.document = stage.api.put({**APP, "spec": BOOTSTRAPS})
    stage.asked = rendered_spec(stage.document, SETTINGS, lambda name: None)
    return stage


def attempt(stage: Stage) -> StartBootstrap:
    assert isinstance(stage.asked.wanted, DesiredState)
    assert stage.asked.wanted.bootstrap is not None
    return StartBootstrap(stage.asked.wanted.bootstrap)


def test_starts_a_bootstrap_with_what_its_pod_needs_and_no_child_that_takes_it_for_the_applications(
    bootstraps: Stage,
) -> None:
    sent = bootstraps.act(attempt(bootstraps))
    assert sent == [
        "apply ServiceAccount/app-runtime",
        f"apply ConfigMap/app-{bootstraps.revision}",
        "create Secret/app-http",
        "create Job/app-bootstrap",
    ]


def test_starts_no_bootstrap_that_is_not_asked_for_any_more(bootstraps: Stage) -> None:
    assert bootstraps.act(StartBootstrap("another")) == []


def test_looks_again_where_there_is_a_job_already(bootstraps: Stage) -> None:
    bootstraps.act(attempt(bootstraps))
    with pytest.raises(Conflict):
        bootstraps.act(attempt(bootstraps))


def test_deletes_its_own_job_only(bootstraps: Stage) -> None:
    assert bootstraps.act(DeleteBootstrap()) == []
    bootstraps.act(attempt(bootstraps))
    assert bootstraps.act(DeleteBootstrap()) == ["delete Job/app-bootstrap"]
    theirs = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "app-bootstrap", "namespace": "ns"}}
    bootstraps.api.put(theirs)
    for action in (attempt(bootstraps), DeleteBootstrap()):
        with pytest.raises(NameTakenError, match="Job 'app-bootstrap'"):
            bootstraps.act(action)


def test_takes_no_pod_by_what_became_too_old_while_the_api_server_answered(stage: Stage) -> None:
    version = stage.api.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app-0"}})["metadata"]
    evict = Evict("app-0", "u", version["resourceVersion"], "why", stage.clock.at + 1)
    slow_at(stage, "get Pod/app-0")
    with pytest.raises(Conflict, match="too old by now"):
        stage.act(evict)
    assert list(stage.api.written()) == []
    assert stage.act(replace(evict, until=stage.clock.at + 3)) == ["evict Pod/app-0"]
    with pytest.raises(Conflict, match="has changed since it was observed"):
        stage.act(replace(evict, until=stage.clock.at + 3))


def test_sends_no_fewer_replicas_by_what_became_too_old_while_other_children_were_sent(stage: Stage) -> None:
    stage.act(ApplyChildren(stage.revision, 3, 1))
    slow_at(stage, "apply PodDisruptionBudget/app")
    with pytest.raises(Conflict, match="too old by now"):
        stage.act(ApplyChildren(stage.revision, 2, 0, stage.clock.at + 1))
    assert stage.api.objects["StatefulSet", "app"]["spec"]["replicas"] == 3
    assert stage.act(ApplyChildren(stage.revision, 2, 0, stage.clock.at + 1)) == ["apply StatefulSet/app"]
    stage.seen = ChildrenSeen(replicas=2, template_revision="lost")
    with pytest.raises(Conflict, match="too old by now"):
        stage.act(ApplyChildren("lost", 1, 1, stage.clock.at + 1))
    assert stage.api.objects["StatefulSet", "app"]["spec"]["replicas"] == 2


def slow_at(stage: Stage, slow: str) -> None:
    """The API server takes two seconds for such a call."""

    def fails(call: str) -> None:
        stage.clock.at += 2 if call == slow else 0

    stage.api.fails = fails

"""Watches that break, are too old or miss something leave the cache as the API server is. The cache decides which
application is looked at, and when."""

from __future__ import annotations

import queue
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from memory_api import MemoryApi
from streamsapp.clock import SystemClock
from streamsapp_operator.children.names import NAME_LABEL
from streamsapp_operator.kube import Gone, Object, ResourceKind, Unavailable
from streamsapp_operator.kube.cache import Cache, ObjectPlace
from streamsapp_operator.kube.informer import Informer, Watched
from streamsapp_operator.kube.kinds import CONFIG_MAP, POD, STATEFUL_SET
from streamsapp_operator.loop import Key
from streamsapp_operator.model.actions import ApplyChildren, Evict, SetBudget
from streamsapp_operator.model.observed_state import ChildrenSeen
from streamsapp_operator.model.status import AppStatus, RolloutStatus, Tasks
from streamsapp_operator.reconcile import begins_pods, takes_pods
from streamsapp_operator.reconcile_interval import IDLE_SECONDS, LONGEST_QUIET, PERIOD, Pace, WriteLimit, motion
from streamsapp_operator.shared_informers import make_cache, waking
from streamsapp_operator.steady_clock import SteadyClock


def pod(name: str, version: int, app: str = "a", **more: Any) -> Object:
    managers = ("kubelet", "streamsapp-operator")
    fields: list[Object] = [{"manager": it, "operation": "Apply", "fieldsV1": {}} for it in managers]
    metadata = {"name": name, "namespace": "ns", "resourceVersion": str(version), "labels": {NAME_LABEL: app}}
    return {"metadata": {**metadata, "managedFields": fields}, **more}


class ScriptedClient(MemoryApi):
    """Lists return ``listed``; watches return what a test puts into ``told``, or fail with it."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[Object] = []
        self.version = "1"
        self.told: queue.Queue[tuple[str, Object] | Exception | None] = queue.Queue()
        self.watched_from: list[str] = []

    def list_at(
        self, kind: ResourceKind, namespace: str | None, labels: str | None, *, metadata_only: bool = False
    ) -> Any:
        return self.listed, self.version

    def watch(
        self, kind: ResourceKind, namespace: str | None, labels: str | None, version: str, seconds: int,
        *, metadata_only: bool = False, fields: str | None = None,
    ) -> Generator[tuple[str, Object], None, None]:  # fmt: skip
        self.watched_from.append(version)
        while (said := self.told.get(timeout=100)) is not None:
            if isinstance(said, Exception):
                raise said
            yield said


class Stage:
    def __init__(self) -> None:
        self.client, self.cache = ScriptedClient(), Cache([NAME_LABEL])
        self.changed: queue.Queue[str] = queue.Queue()
        tell = lambda kind, document: self.changed.put(document["metadata"]["name"])  # noqa: E731
        watched = Watched(POD)
        self.informer = Informer(self.client, watched, "ns", self.cache, tell, SteadyClock(SystemClock()))

    def names(self) -> list[str]:
        return [it["metadata"]["name"] for it in self.cache.list(POD, "ns", f"{NAME_LABEL}=a")]

    def until_changed(self, *names: str) -> None:
        assert [self.changed.get(timeout=100) for _ in names] == list(names)


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.informer.stop()
    made.client.told.put(Unavailable("ends"))
    made.informer.join(100)
    assert not made.informer.is_alive()


def test_follows_what_the_watch_tells(stage: Stage) -> None:
    stage.client.listed = [pod("a-0", 1)]
    stage.informer.start()
    stage.until_changed("a-0")
    stage.client.told.put(("ADDED", pod("a-1", 2)))
    stage.client.told.put(("DELETED", pod("a-0", 3)))
    stage.until_changed("a-1", "a-0")
    assert stage.names() == ["a-1"]


def test_a_watch_that_ends_goes_on_where_it_was(stage: Stage) -> None:
    stage.informer.start()
    stage.client.told.put(("BOOKMARK", pod("", 7)))
    stage.client.told.put(None)
    stage.client.told.put(("ADDED", pod("a-1", 8)))
    stage.until_changed("a-1")
    assert stage.client.watched_from == ["1", "7"]
    assert stage.informer.lists == 1


@pytest.mark.parametrize("error", [Gone("too old"), Unavailable("broken"), KeyError("a bug")])
def test_what_a_watch_could_not_tell_is_listed(stage: Stage, error: Exception) -> None:
    stage.client.listed = [pod("a-0", 1), pod("a-1", 1)]
    stage.informer.start()
    stage.until_changed("a-0", "a-1")
    stage.client.listed, stage.client.version = [pod("a-1", 5), pod("a-2", 4)], "5"
    stage.client.told.put(error)
    stage.until_changed("a-1", "a-2", "a-0")
    assert stage.names() == ["a-1", "a-2"]


def test_a_list_that_is_older_than_what_was_written_since_takes_nothing_back() -> None:
    cache = Cache([NAME_LABEL])
    cache.put(POD, pod("a-0", 9, spec={"new": True}))
    assert not cache.put(POD, pod("a-0", 8, spec={"new": False}))
    assert cache.keep(POD, "ns", set(), 8) == []
    assert [it["metadata"]["name"] for it in cache.keep(POD, None, set(), 9)] == ["a-0"]
    assert cache.get(POD, "ns", "a-0") is None


def test_readers_have_copies_without_the_managers_of_others() -> None:
    cache = Cache([NAME_LABEL])
    cache.put(POD, pod("a-0", 1, spec={"x": 1}))
    found = cache.get(POD, "ns", "a-0")
    assert found is not None
    assert [it["manager"] for it in found["metadata"]["managedFields"]] == ["streamsapp-operator"]
    found["spec"]["x"] = 2
    again = cache.get(POD, "ns", "a-0")
    assert again is not None
    assert again["spec"] == {"x": 1}


def test_of_a_config_map_that_is_nobodys_child_only_its_version_is_kept() -> None:
    cache = Cache([NAME_LABEL])
    metadata = {"namespace": "ns", "name": "theirs", "uid": "u", "resourceVersion": "3"}
    cache.put(CONFIG_MAP, {"metadata": {**metadata, "annotations": {"long": "x" * 1000}, "labels": {"some": "label"}}})
    assert cache.get(CONFIG_MAP, "ns", "theirs") == {"metadata": metadata}
    ours = pod("ours", 4)
    ours["metadata"]["annotations"] = {"streamsapp.dev/applied": "hash"}
    cache.put(CONFIG_MAP, ours)
    found = cache.list(CONFIG_MAP, "ns", f"{NAME_LABEL}=a")
    assert [it["metadata"]["annotations"] for it in found] == [{"streamsapp.dev/applied": "hash"}]


def test_an_object_that_changes_its_application_is_listed_under_the_new_one() -> None:
    cache = Cache([NAME_LABEL])
    cache.put(POD, pod("a-0", 1))
    cache.put(POD, pod("a-0", 2, app="b"))
    assert cache.list(POD, "ns", f"{NAME_LABEL}=a") == []
    assert len(cache.list(POD, "ns", f"{NAME_LABEL}=b")) == 1
    cache.drop(POD, ObjectPlace("ns", "a-0"))
    assert cache.list(POD, "ns", f"{NAME_LABEL}=b") == []


def test_what_the_operator_writes_is_known_before_a_watch_tells_it() -> None:
    client = MemoryApi()
    cache = make_cache(client)
    written = {**pod("a", 3), "apiVersion": "apps/v1", "kind": "StatefulSet"}
    client.learned(written)
    client.learned({**pod("a-code", 4), "apiVersion": "v1", "kind": "ConfigMap", "data": {"big": "x"}})
    client.learned({**pod("event", 5), "apiVersion": "v1", "kind": "Event"})
    assert cache.get(STATEFUL_SET, "ns", "a") is not None
    found = cache.get(CONFIG_MAP, "ns", "a-code")
    assert found is not None
    assert "data" not in found


class Woken:
    def __init__(self) -> None:
        self.told: list[object] = []

    def nudge(self, key: Key) -> None:
        self.told.append(key)

    def code_changed(self, namespace: str, name: str) -> None:
        self.told.append((namespace, name))


def test_an_object_wakes_its_application_and_a_users_config_map_those_that_may_use_it() -> None:
    loops = Woken()
    changed = waking(loops)
    changed(POD, pod("a-0", 1))
    changed(CONFIG_MAP, {"metadata": {"name": "code", "namespace": "ns"}})
    changed(STATEFUL_SET, {"metadata": {"name": "x", "namespace": "ns"}})
    assert loops.told == [Key("ns", "a"), ("ns", "code")]


RUNS = AppStatus(
    replicas=2, ready_replicas=2, target_replicas=2, rollout=RolloutStatus(revision="r", phase="Complete")
)  # fmt: skip


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (RUNS, "quiet"),
        (AppStatus(phase="Invalid spec"), "idle"),
        (AppStatus(target_replicas=0, rollout=RolloutStatus(revision="r", phase="Rolling")), "idle"),
        (AppStatus(target_replicas=0, rollout=RolloutStatus(revision="r", phase="Checking")), "moving"),
        (AppStatus(target_replicas=2, rollout=RolloutStatus(revision="r", phase="Rolling")), "moving"),
    ],
)
def test_what_may_change_without_a_watch_telling_is_in_motion(status: AppStatus, expected: str) -> None:
    assert motion(status) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"ready_replicas": 1},
        {"target_replicas": 3},
        {"tasks": Tasks(restoring=1)},
        {"rollout": RolloutStatus(revision="r", phase="Blocked")},
    ],
)
def test_pods_that_come_or_go_are_motion(changes: dict[str, Any]) -> None:
    fields = {name: getattr(RUNS, name) for name in RUNS.__struct_fields__}
    assert motion(AppStatus(**{**fields, **changes})) == "moving"


def test_few_applications_at_rest_are_looked_at_every_second_and_many_more_seldom() -> None:
    pace = Pace()
    assert pace.next_reconcile(0, "quiet", 0.01) == PERIOD
    for number in range(1, 100):
        last = pace.next_reconcile(number, "quiet", 0.01)
    assert PERIOD < last < LONGEST_QUIET
    for number in range(100, 1000):
        last = pace.next_reconcile(number, "quiet", 0.01)
    assert last == LONGEST_QUIET
    assert pace.next_reconcile(5, "moving", 0.01) == PERIOD
    assert pace.next_reconcile(6, "idle", 0.01) == IDLE_SECONDS
    for number in range(1, 1000):
        pace.forget(number)
    assert pace.next_reconcile(0, "quiet", 0.01) == PERIOD


def test_writes_that_are_not_urgent_are_so_many_a_second() -> None:
    spare = WriteLimit(5.0)
    admitted = sum(spare.admits(100.0 + tick / 100) for tick in range(1000))
    assert 50 <= admitted <= 56


def test_only_what_takes_a_pod_is_decided_anew() -> None:
    assert takes_pods([Evict("a-0", "u", "1", "why")])
    assert takes_pods([ApplyChildren("r", 1, 0, until=5.0)])
    assert not takes_pods([ApplyChildren("r", 1, 0), SetBudget(0)])


def test_what_makes_the_first_pods_or_those_of_another_revision_is_decided_anew() -> None:
    runs = ChildrenSeen(replicas=3, template_revision="one")
    stopped = ChildrenSeen(replicas=0, template_revision="one")
    for children in (runs, stopped, ChildrenSeen()):
        assert begins_pods([ApplyChildren("two", 3, 0)], children)
        assert not begins_pods([ApplyChildren("two", 0, 0), SetBudget(0)], children), "pods end"
    assert begins_pods([ApplyChildren("one", 3, 0)], stopped)
    assert not begins_pods([ApplyChildren("one", 4, 0)], runs)

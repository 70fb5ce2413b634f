"""The console of the cluster in a real browser, on a real API server: its pages and actions, by a user's rights."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from api_server import ApiServer
from chromium import Page
from operator_process import LONG_LEASE, OperatorProcess, until
from operator_world import APP, World, running
from streamsapp_operator.kube.kinds import STREAMS_APP
from streamsapp_operator.plugin.text import gap

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"> " + "x" * 5000
STRICT = {"maxStandbyLag": 1000}
_GROUP = "rbac.authorization.k8s.io"
LOOKS = [{"apiGroups": ["streamsapp.dev"], "resources": ["streamsapps"], "verbs": ["get", "list", "watch"]}]
CHANGES = [
    *LOOKS,
    {"apiGroups": ["streamsapp.dev"], "resources": ["streamsapps"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
]


@pytest.fixture
def world(api_server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("operator_world.OperatorProcess", partial(OperatorProcess, lease_seconds=LONG_LEASE))
    yield from running(api_server, tmp_path)


def token_of(world: World, name: str, rules: list[dict[str, list[str]]]) -> str:
    """A token of a user with these rights in the namespace."""
    metadata = {"name": name, "namespace": world.namespace}
    role = {"apiVersion": f"{_GROUP}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    binding = {
        "apiVersion": f"{_GROUP}/v1", "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": world.namespace}],
    }  # fmt: skip
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    world.api.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([account, role, binding]))
    return world.api.kubectl("create", "token", name, "-n", world.namespace).strip()


def post_event(world: World, message: str) -> None:
    """As anybody with the right to it might."""
    app = world.app()["metadata"]
    about = {"apiVersion": STREAMS_APP.api_version, "kind": "StreamsApp", "name": APP, "namespace": world.namespace}
    metadata = {"name": "hostile", "namespace": world.namespace}
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": {**about, "uid": app["uid"]},
        "type": "Warning", "reason": "Hostile", "message": message[:1000], "lastTimestamp": "2126-01-01T00:00:00Z",
    }  # fmt: skip
    world.client.create(event)


def log_in(page: Page, token: str) -> None:
    page.until("document.querySelector('#token-dialog').open")
    page.fill("#token", token)
    page.click("#token-form button")


@pytest.mark.long
def test_everybody_sees_and_does_what_their_own_rights_allow(world: World, page: Page, shots: Path) -> None:
    world.apply(rollout=STRICT)
    world.until_ready()
    changes, looks = token_of(world, "dora", CHANGES), token_of(world, "vera", LOOKS)
    page.look()
    url = f"http://127.0.0.1:{world.operator.port}/console/"
    page.open(url)
    refuses_a_wrong_token(page)
    shows_all_applications(world, page, changes, shots)
    shows_one_application(world, page, shots)
    comes_back_when_the_connection_was_lost(page)
    shows_a_task_that_does_not_run(world, page, shots)
    follows_a_rollout_that_is_blocked(world, page, shots)
    goes_on_when_the_rollout_does(world, page, shots)
    takes_events_for_texts(world, page, shots)
    shows_a_revision_that_cannot_run(world, page, shots)
    goes_by_keyboard_at_200_percent(page, shots)
    page.open("about:blank")
    page.open(url)
    shows_less_to_who_may_less(world, page, looks, shots)
    assert page.value("document.title") == "streamsapp · cluster"
    assert page.complaints == []


def refuses_a_wrong_token(page: Page) -> None:
    log_in(page, "wrong")
    page.until("document.querySelector('#token-dialog').open && document.querySelector('#token').value === ''")


def shows_all_applications(world: World, page: Page, token: str, shots: Path) -> None:
    log_in(page, token)
    page.until(f"/{APP}/.test(document.querySelector('#applications').innerText)")
    assert page.value("document.querySelector('#namespace').value") == world.namespace
    for told in ("3 of 3", "safe"):  # the page shows neither while a pod is late with its answer
        page.until(f"document.querySelector('#applications tbody tr').innerText.includes('{told}')")
    world.apply("other", replicas=0)
    page.until("document.querySelectorAll('#applications tbody tr').length === 2")
    page.screenshot(shots / "cluster-applications.png")


def shows_one_application(world: World, page: Page, shots: Path) -> None:
    page.click(f"a[href='#app/{world.namespace}/{APP}']")
    page.until("/goes on after about 1.0s/.test(document.querySelector('#part-matrix')?.innerText)")
    page.until("/standby · 0 behind, seen/.test(document.querySelector('#part-matrix').innerText)")
    page.until("/safe: its tasks run again after about 1.0s/.test(document.querySelector('#part-pods').innerText)")
    draws_the_last_hour(page)
    assert "CheckStarted" in page.text("#part-events")
    assert "Complete" in page.text("#part-history")
    page.screenshot(shots / "cluster-application.png")
    page.look(dark=True)
    page.screenshot(shots / "cluster-dark.png")
    page.look()


def draws_the_last_hour(page: Page) -> None:
    """A line for each pod, and a chart for each kind of figure."""
    page.until("document.querySelectorAll('#hour canvas').length >= 7")
    names = "[...document.querySelectorAll('#hour .legend li')].map((each) => each.innerText)"
    assert page.value(names) == [f"{APP}-{number}" for number in range(3)]
    told = page.value("document.querySelector('#hour .plot').getAttribute('aria-label')")
    assert "Processed records, records a second" in told
    assert "/s, lowest" in told


def comes_back_when_the_connection_was_lost(page: Page) -> None:
    page.offline(True)
    page.value("document.dispatchEvent(new Event('visibilitychange'))")  # a stream that is open stays; begin another
    page.until("/trying again/.test(document.querySelector('#connection').innerText)")
    assert page.value("document.body.classList.contains('lost')")
    page.offline(False)
    page.until("document.querySelector('#connection').innerText === 'live'")
    assert not page.value("document.body.classList.contains('lost')")


def shows_a_task_that_does_not_run(world: World, page: Page, shots: Path) -> None:
    world.node.behaviour.states["0_1"] = "RESTORING"
    page.until("/active · RESTORING/.test(document.querySelector('#part-matrix').innerText)")
    page.until("/the task is RESTORING/.test(document.querySelector('#part-blockers').innerText)")
    page.screenshot(shots / "cluster-restoring.png")
    world.node.behaviour.states.clear()
    until(world.ready, "the task runs")


def follows_a_rollout_that_is_blocked(world: World, page: Page, shots: Path) -> None:
    """Asked for with the viewer's own rights; standbys that are too far behind hold it."""
    world.node.behaviour.standby_lag = 4000
    page.until("/StandbyBehind/.test(document.querySelector('#part-blockers').innerText)")
    page.click("button[data-order=restart]")
    page.until("/is restarted, pod after pod/.test(document.querySelector('#told').innerText)")
    page.until("/Blocked/.test(document.querySelector('#part-rollout').innerText)")
    page.until("/StandbyBehind: the standby on/.test(document.querySelector('#part-matrix').innerText)")
    page.until("/not safe: 0_/.test(document.querySelector('#part-pods').innerText)")
    page.screenshot(shots / "cluster-blocked.png")
    page.click("button[data-order=pause]")
    page.until("document.querySelector('button[data-order=pause]').hidden")
    page.until("!document.querySelector('button[data-order=approve]').hidden")


def goes_on_when_the_rollout_does(world: World, page: Page, shots: Path) -> None:
    world.node.behaviour.standby_lag = 0
    page.click("button[data-order=approve]")
    page.until("/the rollout goes on/.test(document.querySelector('#told').innerText)")
    until(world.ready, "the rollout is complete")
    page.until("/Complete: 3 of 3 pods/.test(document.querySelector('#part-rollout').innerText)")
    record = world.status()["history"][0]
    assert sorted(step["pod"] for step in record["steps"]) == [f"{APP}-{number}" for number in range(3)]
    assert any(step["observedSeconds"] is not None for step in record["steps"])
    told = page.value("[...document.querySelectorAll('#part-rollout tbody tr')].map((row) => row.innerText)")
    predicted = {step["pod"]: gap(step["predictedSeconds"]) for step in record["steps"]}
    assert {each.split("\t")[0]: each.split("\t")[1:3] for each in told} == {
        pod: ["has the revision", seconds] for pod, seconds in predicted.items()
    }
    assert page.value("document.querySelector('#part-history tbody tr').children[4].innerText") == "3"
    page.until("document.querySelectorAll('.timeline .bar.predicted').length === 3")
    words = "[...document.querySelectorAll('.timeline .told')].map((each) => each.innerText)"
    assert all("predicted" in each and "observed" in each for each in page.value(words))
    page.look(height=1150)
    page.screenshot(shots / "cluster.png")
    page.value("document.querySelector('#part-timeline').scrollIntoView()")
    page.screenshot(shots / "cluster-timeline.png")
    fits_a_phone(page, shots)
    page.value("scrollTo(0, 0)")
    page.look()


def fits_a_phone(page: Page, shots: Path) -> None:
    for dark in (False, True):
        page.look(width=390, height=844, dark=dark)
        assert page.value("document.documentElement.scrollWidth <= innerWidth")
        for name, part in (
            ("top", "body"),
            ("hour", "#part-hour"),
            ("timeline", "#part-timeline"),
            ("matrix", "#part-matrix"),
        ):
            page.value(f"document.querySelector('{part}').scrollIntoView()")
            page.value("new Promise((go) => setTimeout(go, 300))")
            page.screenshot(shots / f"cluster-phone-{name}-{'dark' if dark else 'light'}.png")


def takes_events_for_texts(world: World, page: Page, shots: Path) -> None:
    post_event(world, HOSTILE)
    page.until("/<script>/.test(document.querySelector('#part-events').innerText)")
    page.value("document.querySelector('#part-events').scrollIntoView()")
    page.screenshot(shots / "cluster-events.png")
    page.value("scrollTo(0, 0)")


def shows_a_revision_that_cannot_run(world: World, page: Page, shots: Path) -> None:
    """Its pod is waiting for an image; its place in the matrix is empty, and said to be."""
    world.apply(rollout=STRICT, podTemplate={"metadata": {"annotations": {"example.com/image": "wrong"}}})
    until(lambda: world.status()["rollout"]["phase"] in {"Checking", "Rolling"} or None, "a rollout begins")
    world.node.behaviour.broken[world.status()["rollout"]["revision"]] = "ImagePullBackOff"
    page.until("/ImagePullBackOff/.test(document.querySelector('#part-pods').innerText)")
    page.screenshot(shots / "cluster-broken.png")


def goes_by_keyboard_at_200_percent(page: Page, shots: Path) -> None:
    page.look(zoom=2)
    assert page.value("document.documentElement.scrollWidth <= innerWidth")
    page.screenshot(shots / "cluster-200.png")
    page.value("document.querySelector('#home').focus()")
    page.press("Enter", 13)
    page.until("!document.querySelector('#apps').hidden && document.querySelector('#app').hidden")
    page.look()


def shows_less_to_who_may_less(world: World, page: Page, token: str, shots: Path) -> None:
    """A viewer who reads StreamsApps and nothing else sees what their status says, and no order."""
    log_in(page, token)
    page.until(f"/{APP}/.test(document.querySelector('#applications').innerText)")
    page.click(f"a[href='#app/{world.namespace}/{APP}']")
    page.until("/You may not see pods.*cannot list resource/.test(document.querySelector('#notes').innerText)")
    assert "of 3 ready, says the operator" in page.text("#facts")
    assert page.value("document.querySelector('#requests').hidden")
    conditions = "[...document.querySelectorAll('#part-conditions tbody tr')].map((row) => row.children[0].innerText)"
    assert page.value(conditions) == [each["type"] for each in world.status()["conditions"]]
    page.screenshot(shots / "cluster-viewer.png")

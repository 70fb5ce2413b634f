"""StreamsApps as the operator leaves them, each in another state: for tests of the tools that read their conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from observed_builders import NOW, ROLLOUT, broken, observed, passed, pod, pods, wanted
from planned_reconciles import Reconciles, three
from streamsapp.manifest.model import MaintenanceWindow
from streamsapp_operator.model.desired_state import AnnotationRequests, DesiredState, InvalidSpec
from streamsapp_operator.model.observed_state import ChildrenSeen, Outage, Trouble
from streamsapp_operator.model.resource_status import to_document
from streamsapp_operator.model.status import AppStatus
from streamsapp_operator.plan import plan

#: An application that never had a good revision.
NEW = AppStatus()


def app_of(reconciles: Reconciles) -> dict[str, Any]:
    """Returns the object as the API server has it then."""
    app = reconciles.app
    replicas = app.replicas if isinstance(app, DesiredState) else 3
    metadata = {"name": "app", "namespace": "ns", "generation": app.generation}
    return {"metadata": metadata, "spec": {"replicas": replicas}, "status": to_document(reconciles.status)}


def running() -> Reconciles:
    made = Reconciles(wanted(generation=4))
    made.plan(three())
    return made


def rolling() -> Reconciles:
    made = running()
    made.app = wanted("two", generation=5)
    made.plan(three())
    return made


def suspended() -> Reconciles:
    made = running()
    made.app = wanted(replicas=0, generation=5)
    made.plan([], replicas=0)
    return made


def suspending() -> Reconciles:
    made = running()
    made.app = wanted(replicas=0, generation=5)
    made.plan(three(), replicas=0)
    return made


def paused() -> Reconciles:
    made = rolling()
    assert isinstance(made.app, DesiredState)
    made.app = replace(made.app, requests=AnnotationRequests(paused=True))
    _approve_check(made)
    return made


def refused() -> Reconciles:
    made = running()
    made.app = InvalidSpec("app", "ns", "u", 5, ("spec.replicas: expected an integer",))
    made.plan(three())
    return made


def crashing() -> Reconciles:
    """The only revision there is cannot run."""
    made = running()
    made.plan([*pods("one", "one"), broken(2, "CrashLoopBackOff", "one", restarts=5, last_exit="exit 2: no brokers")])
    return made


def first_crashing() -> Reconciles:
    """The first revision cannot run, and there is none to go back to."""
    made = Reconciles(wanted(generation=4), NEW)
    for _ in range(3):
        failing = [broken(it, "CrashLoopBackOff", "one", restarts=5, last_exit="exit 2: no brokers") for it in range(3)]
        made.plan(failing, checks=passed("one"))
    return made


def starting() -> Reconciles:
    """A pod that has not been made ready yet, and was not started again."""
    made = running()
    made.plan([*pods("one", "one"), pod(2, ready=False)])
    return made


def without_image() -> Reconciles:
    made = running()
    made.plan([*pods("one", "one"), broken(2, "ImagePullBackOff", "one", waiting_message="not found")])
    return made


def name_taken() -> Reconciles:
    made = running()
    seen = replace(observed(three()), trouble=Trouble("NameTaken", "Service app is somebody else's"))
    made.status = plan(made.app, seen, made.status, seen.at).status
    return made


def write_failed() -> Reconciles:
    made = running()
    seen = replace(observed(three()), trouble=Trouble("WriteFailed", "an admission webhook is away"))
    made.status = plan(made.app, seen, made.status, seen.at).status
    return made


def without_kafka() -> Reconciles:
    made = running()
    outage = Outage("kafka", "kafka:9092", NOW, "no route to host")
    made.plan([replace(it, report=it.report and replace(it.report, outages=(outage,))) for it in three()])
    return made


def rival() -> Reconciles:
    made = Reconciles(wanted(generation=4), NEW)
    seen = replace(observed([]), children=ChildrenSeen(), rivals=("ns/first",), elder="ns/first")
    made.status = plan(made.app, seen, made.status, seen.at).status
    return made


def between_windows() -> Reconciles:
    made = rolling()
    assert isinstance(made.app, DesiredState)
    shut = MaintenanceWindow(days=["Sunday"], start="01:00", end="02:00")  # NOW is a Tuesday
    made.app = replace(made.app, rollout=msgspec.structs.replace(ROLLOUT, maintenance_windows=[shut]))
    _approve_check(made)
    return made


def _approve_check(made: Reconciles) -> None:
    for _ in range(3):
        made.plan(three(), checks=passed("two"), template_revision="one")


#: State → how it comes about, kstatus' word for it, and Argo CD's.
STATES: dict[str, tuple[Callable[[], Reconciles], str, str]] = {
    "running": (running, "Current", "Healthy"),
    "rolling": (rolling, "InProgress", "Progressing"),
    "suspended": (suspended, "Current", "Suspended"),
    "suspending": (suspending, "InProgress", "Progressing"),
    "paused": (paused, "Failed", "Suspended"),
    "between windows": (between_windows, "InProgress", "Progressing"),
    "refused": (refused, "Failed", "Degraded"),
    "crashing": (crashing, "Failed", "Degraded"),
    "first crashing": (first_crashing, "Failed", "Degraded"),
    "starting": (starting, "InProgress", "Progressing"),
    "without image": (without_image, "Failed", "Degraded"),
    "name taken": (name_taken, "Failed", "Degraded"),
    "write failed": (write_failed, "InProgress", "Progressing"),
    "without Kafka": (without_kafka, "Current", "Degraded"),
    "rival": (rival, "Failed", "Degraded"),
}

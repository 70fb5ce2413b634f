"""Observes an application: its children, its pods and their reports, its checks.

There is one observer for each application, called on the thread of its loop. Objects are the ones that the watches
reported. Only before a pod is taken away, or the first of a revision is made, the objects that decide are read anew:
StatefulSet, budget and pods. Pods themselves are asked each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from streamsapp.manifest.model import Engine
from streamsapp_operator.children.names import (
    BOOTSTRAP_LABEL,
    CHECK_LABEL,
    EXECUTOR,
    NAME_LABEL,
    PREVIEW_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    RUN_LABEL,
    cron_job_name,
    driver_name,
    preview_job_name,
)
from streamsapp_operator.kube import Client
from streamsapp_operator.kube.kinds import (
    BUDGET,
    CONFIG_MAP,
    CRON_JOB,
    JOB,
    NETWORK_POLICY,
    POD,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Object,
    ResourceKind,
    annotation,
    label,
)
from streamsapp_operator.model.observed_state import (
    ChildrenSeen,
    JobSeen,
    ObservedState,
    PodSeen,
    PreviewSeen,
    ReportedRole,
    RunSeen,
)
from streamsapp_operator.observe.checks import check_seen
from streamsapp_operator.observe.exchange import Address
from streamsapp_operator.observe.input_rates import RateObserver
from streamsapp_operator.observe.jobs import job_seen, preview_seen, run_seen
from streamsapp_operator.observe.pod_observer import PodObserver
from streamsapp_operator.observe.pod_status import PodAsker
from streamsapp_operator.observe.pods import ended_members, ordinal_of
from streamsapp_operator.spec_rendering import RenderedSpec
from streamsapp_operator.steady_clock import SteadyClock

APPLIED = "streamsapp.dev/applied"
_STILL_KINDS = (SERVICE_ACCOUNT, CONFIG_MAP, SERVICE, NETWORK_POLICY)


class ObjectReader(Protocol):
    """Reads objects; the client and the cache do."""

    def get(self, kind: ResourceKind, namespace: str, name: str, *, metadata_only: bool = False) -> Object | None: ...

    def list(
        self, kind: ResourceKind, namespace: str | None, labels: str | None = None, *, metadata_only: bool = False
    ) -> list[Object]: ...


@dataclass(frozen=True, slots=True)
class AppObservation:
    """The observed state, and the children as documents."""

    observed: ObservedState
    #: ``Kind/name`` → the child; of some only the metadata. ``apply`` writes what it got back into it.
    children: dict[str, Object]
    #: Members of the group whose containers have ended, and where the pods that are ready are asked.
    ended_members: tuple[str, ...] = ()
    ready_at: tuple[Address, ...] = ()


class Observer:
    """Observes one application, again and again."""

    def __init__(self, client: Client, cache: ObjectReader, asker: PodAsker, clock: SteadyClock) -> None:
        self._client = client
        self._cache = cache
        self._clock = clock
        self._pods = PodObserver(asker)
        self._rates = RateObserver()

    def observe(
        self, spec: RenderedSpec, tokens: Sequence[str], job: str | None = None, *, fresh: bool = False
    ) -> AppObservation:
        """Returns an observation. ``job`` is that of a bootstrap, if there may be one; ``fresh`` reads the deciding
        objects from the API server. Raises ``ApiError``: half an observation is none."""
        at, owner = self._clock.now(), spec.owner
        reader: ObjectReader = self._client if fresh else self._cache
        children = self._list_still(owner.namespace, owner.name)
        driver_set = STATEFUL_SET, driver_name(owner.name), self._cache
        runs = CRON_JOB, cron_job_name(owner.name), self._cache
        for kind, name, source in ((STATEFUL_SET, owner.name, reader), (BUDGET, owner.name, reader), driver_set, runs):
            found = source.get(kind, owner.namespace, name)
            if found is not None and is_owned(found, owner.uid):
                children[f"{kind.name}/{name}"] = found
        listed = reader.list(POD, owner.namespace, f"{NAME_LABEL}={owner.name}")
        driver, pods = self._pods.observe(listed, owner.name, spec.application_id, tokens)
        checked = self._cache.list(POD, owner.namespace, f"{CHECK_LABEL}={owner.name}")
        checks = [check_seen(pod, at) for pod in checked if is_owned(pod, owner.uid)]
        total = tasks_total(pods)
        observed = ObservedState(
            at=at,
            children=children_seen(children, owner.name),
            pods=pods,
            checks={check.revision: check for check in checks},
            tasks_total=total,
            flow=self._rates.flow(pods, settled=total is not None),
            driver=driver,
            bootstrap=None if job is None else self._bootstrap(spec, job),
            preview=self._preview(spec),
            run=self._run(spec, children),
        )
        places = self._pods.addresses(listed, owner.name)
        ready_at = tuple(places[pod.name] for pod in pods if pod.ready and not pod.terminating and pod.name in places)
        ended = tuple(each for pod in listed if ordinal_of(pod, owner.name) is not None for each in ended_members(pod))
        return AppObservation(observed, children, ended, ready_at)

    def _bootstrap(self, spec: RenderedSpec, name: str) -> JobSeen | None:
        found = self._job(spec, name, BOOTSTRAP_LABEL)
        return None if found is None else job_seen(*found)

    def _preview(self, spec: RenderedSpec) -> PreviewSeen | None:
        found = self._job(spec, preview_job_name(spec.owner.name), PREVIEW_LABEL)
        return None if found is None else preview_seen(*found)

    def _run(self, spec: RenderedSpec, children: dict[str, Object]) -> RunSeen | None:
        """Returns the newest of the CronJob's runs."""
        owner, of = spec.owner, children.get(f"{CRON_JOB.name}/{cron_job_name(spec.owner.name)}")
        if of is None:
            return None
        listed = self._cache.list(JOB, owner.namespace, f"{RUN_LABEL}={owner.name}")
        mine = [job for job in listed if is_owned(job, of["metadata"]["uid"])]
        if not mine:
            return None
        newest = max(mine, key=_made)
        pods = self._cache.list(POD, owner.namespace, f"{RUN_LABEL}={owner.name}")
        return run_seen(newest, [pod for pod in pods if is_owned(pod, newest["metadata"]["uid"])])

    def _job(self, spec: RenderedSpec, name: str, of: str) -> tuple[Object, list[Object]] | None:
        """Returns a Job of the application with its pods, which have the label ``of``."""
        owner = spec.owner
        job = self._cache.get(JOB, owner.namespace, name)
        if job is None or not is_owned(job, owner.uid):
            return None
        pods = self._cache.list(POD, owner.namespace, f"{of}={owner.name}")
        return job, [pod for pod in pods if is_owned(pod, job["metadata"]["uid"])]

    def _list_still(self, namespace: str, app: str) -> dict[str, Object]:
        return {
            f"{kind.name}/{found['metadata']['name']}": found
            for kind in _STILL_KINDS
            for found in self._cache.list(kind, namespace, f"{NAME_LABEL}={app}", metadata_only=True)
        }


def _made(job: Object) -> tuple[str, str]:
    """Returns what is larger for a Job that was made later. CronJobs number theirs by the minute."""
    return str(job["metadata"]["creationTimestamp"]), job["metadata"]["name"]


def is_owned(document: Object, uid: str) -> bool:
    """Says whether an object belongs to the application, or other owner, with this uid: whether that is its
    controller."""
    owners = document["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == uid and owner.get("controller") for owner in owners)


def children_seen(children: dict[str, Object], app: str) -> ChildrenSeen:
    """Returns the facts about the children that ``plan`` needs."""
    stateful_set = children.get(f"{STATEFUL_SET.name}/{app}")
    driver, budget = children.get(f"{STATEFUL_SET.name}/{driver_name(app)}"), children.get(f"{BUDGET.name}/{app}")
    runs = children.get(f"{CRON_JOB.name}/{cron_job_name(app)}")
    applied = {key: text for key, child in children.items() if (text := annotation(child, APPLIED)) is not None}
    maps = (child for key, child in children.items() if key.startswith(f"{CONFIG_MAP.name}/"))
    revisions = frozenset(text for child in maps if (text := label(child, REVISION_LABEL)) is not None)
    return ChildrenSeen(
        replicas=None if stateful_set is None else stateful_set["spec"]["replicas"],
        template_revision=None if stateful_set is None else label(stateful_set["spec"]["template"], REVISION_LABEL),
        template_seen=stateful_set is not None and _is_seen(stateful_set),
        engine=None if stateful_set is None else "spark" if runs is not None else _engine_of(stateful_set),
        schedule_revision=None if runs is None else label(runs, REVISION_LABEL),
        driver_replicas=None if driver is None else driver["spec"]["replicas"],
        driver_revision=None if driver is None else label(driver["spec"]["template"], REVISION_LABEL),
        max_unavailable=None if budget is None else _max_unavailable(budget),
        applied=applied,
        revisions=revisions,
    )


def _engine_of(stateful_set: Object) -> Engine:
    return "spark" if label(stateful_set["spec"]["template"], ROLE_LABEL) == EXECUTOR else "threads"


def _is_seen(stateful_set: Object) -> bool:
    """Says whether the controller has seen the StatefulSet as it is. It may lag behind, most of all after the API
    server was away."""
    seen: int = (stateful_set.get("status") or {}).get("observedGeneration") or 0
    return seen >= (stateful_set["metadata"].get("generation") or 0)


def tasks_total(pods: Sequence[PodSeen]) -> int | None:
    """Returns the number of distinct active tasks; it is known while every pod answers and all agree on which pod has
    which task."""
    reports = [pod.report for pod in pods if pod.report is not None]
    settled = {(report.state, report.generation) for report in reports}
    if len(reports) < len(pods) or len(settled) != 1 or next(iter(settled))[0] != "RUNNING":
        return None
    return len({task.id for report in reports for task in report.tasks if task.role is ReportedRole.ACTIVE})


def _max_unavailable(budget: Object) -> int:
    """Returns the budget. A user may have made it a percentage, or something else: then it is not shut."""
    found = budget["spec"].get("maxUnavailable")
    return found if isinstance(found, int) else 1

"""Carries out actions in order, and stops at the first that fails: the next reconcile plans anew, from the state of the
cluster then.

There is one runner for each application, called on the thread of its loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from streamsapp_operator.apply.children import ChildWriter, NameTakenError
from streamsapp_operator.apply.revisions import Revisions
from streamsapp_operator.children import Children, Owner, RenderSettings, Revision, render
from streamsapp_operator.children.names import (
    REVISION_LABEL,
    bootstrap_job_name,
    check_pod_name,
    cron_job_name,
    driver_name,
    preview_job_name,
)
from streamsapp_operator.children.policies import disruption_budget
from streamsapp_operator.children.preview_job import preview_job
from streamsapp_operator.children.spark_job import attempt_of
from streamsapp_operator.kube import Client, Conflict, Object, Rejected
from streamsapp_operator.kube.events import Recorder, Subject
from streamsapp_operator.kube.kinds import BUDGET, CONFIG_MAP, CRON_JOB, JOB, POD, STATEFUL_SET, STREAMS_APP, label
from streamsapp_operator.model.actions import (
    Action,
    ApplyChildren,
    DeleteBootstrap,
    DeleteCheck,
    DeletePreview,
    DeleteRevisions,
    EndSchedule,
    Evict,
    PostEvent,
    RemoveFinalizer,
    SetBudget,
    StartBootstrap,
    StartCheck,
    StartPreview,
)
from streamsapp_operator.model.desired_state import DesiredState
from streamsapp_operator.observe.observer import AppObservation, is_owned
from streamsapp_operator.spec_rendering import RenderedSpec
from streamsapp_operator.steady_clock import SteadyClock

log = logging.getLogger(__name__)

FINALIZER = "streamsapp.dev/drain"


@dataclass(frozen=True, slots=True)
class ActionContext:
    """The application that actions are about."""

    spec: RenderedSpec
    #: The application as it was read.
    document: Object
    observation: AppObservation
    subject: Subject
    tokens: Sequence[str]
    #: By which pods of ``engine: spark`` know each other.
    spark_word: str = ""


class ActionRunner:
    """Carries out the actions of one application."""

    def __init__(
        self,
        client: Client,
        clock: SteadyClock,
        recorder: Recorder,
        settings: RenderSettings,
        may_act: Callable[[], bool],
        uid: str,
    ) -> None:
        """Takes ``may_act``, which is asked before each action: it says whether this operator still leads."""
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._settings = settings
        self._may_act = may_act
        self._writer = ChildWriter(client, clock, uid)
        self.revisions = Revisions(client)
        #: Revisions whose check pod the API server does not take, and its answers.
        self.rejected: dict[str, str] = {}

    def act(self, actions: Iterable[Action], case: ActionContext, done: Callable[[Action], None]) -> None:
        """Carries out the actions. Raises the ``ApiError`` of the first that fails; of the others only events are still
        posted, as the status that they are about is written. ``done`` hears of each that was carried out."""
        left = list(actions)
        try:
            while left:
                if not self._may_act():
                    return
                if self._is_too_late(left[0]):
                    break
                action = left.pop(0)
                self._one(action, case)
                done(action)
        finally:
            for action in left:
                if isinstance(action, PostEvent):
                    self._one(action, case)

    def shut_budget(self, owner: Owner, children: dict[str, Object]) -> None:
        """Shuts the budget if there is one and it is open: the operator does not judge meanwhile whether a pod may
        go."""
        if f"{BUDGET.name}/{owner.name}" in children and self._may_act():
            self._writer.send(disruption_budget(owner, 0), children)

    def _is_good(self, until: float | None) -> bool:
        return until is None or self._clock.now() <= until

    def _is_too_late(self, action: Action) -> bool:
        if self._is_good(getattr(action, "until", None)):
            return False
        log.info("%s: its observations are too old now", type(action).__name__)
        return True

    def _one(self, action: Action, case: ActionContext) -> None:
        owner, observation = case.spec.owner, case.observation
        match action:
            case ApplyChildren():
                self._apply(action, case)
            case SetBudget(max_unavailable=most):
                self._writer.send(disruption_budget(owner, most), observation.children)
            case Evict(unready=False):
                self._evict(action, owner)
            case Evict():
                self._evict_unready(action, owner, observation.children)
            case StartCheck(revision=revision):
                self._start_check(revision, case)
            case DeleteCheck(revision=revision):
                self._delete_check(owner, revision)
            case StartBootstrap(attempt=attempt):
                self._start_bootstrap(attempt, case)
            case DeleteBootstrap():
                self._delete_job(owner, bootstrap_job_name(owner.name))
            case StartPreview():
                self._start_preview(action, case)
            case DeletePreview():
                self._delete_job(owner, preview_job_name(owner.name))
            case EndSchedule():
                self._client.delete(CRON_JOB, owner.namespace, cron_job_name(owner.name), dependents_first=True)
            case DeleteRevisions(keep=keep):
                self._delete_revisions(owner, keep, observation)
            case PostEvent(kind=kind, reason=reason, message=message):
                self._recorder.tell(case.subject, kind, reason, message)
            case RemoveFinalizer():
                set_finalizer(self._client, case.document, present=False)

    def _evict(self, action: Evict, owner: Owner) -> None:
        pod = owner.namespace, action.pod, action.uid, action.resource_version
        if action.until is None:
            self._client.evict(*pod)
        else:
            self._client.evict_while(lambda: self._is_good(action.until), *pod)

    def _evict_unready(self, action: Evict, owner: Owner, children: dict[str, Object]) -> None:
        """The budget lets such pods go for as long as that takes, and no other one."""
        self._writer.send(disruption_budget(owner, 0, unready_may_go=True), children)
        try:
            self._evict(action, owner)
        finally:
            self._writer.send(disruption_budget(owner, 0), children)

    def _apply(self, action: ApplyChildren, case: ActionContext) -> None:
        owner, observation = case.spec.owner, case.observation
        if case.spec.wanted.deleting:
            self._set_replicas(action, case)  # whatever else may be wrong
            return
        revision = self.revisions.find(action.revision, case.spec)
        if revision is not None:
            if revision.driver is None:
                self._set_drivers(0, case)  # nothing else is said of a driver that an earlier revision left
            going_on = action.driver_revision
            children = self._render(
                revision,
                case,
                action.replicas,
                action.max_unavailable,
                going_on=None if going_on is None else self.revisions.find(going_on, case.spec),
                runs_driver=action.runs_driver,
                begins_runs=action.begins_runs,
                replaces_run=action.replaces_run,
            )
            self._writer.send_all(children.objects, observation.children, lambda: self._is_good(action.until))
            return
        if observation.observed.children.template_revision != action.revision:
            raise Rejected(
                f"the ConfigMap of revision {action.revision} was deleted, and its pods need it; change the spec, which"
                " makes a new revision"
            )
        # The running pods can go on: only their number is kept, and how many others may take.
        self._writer.send(disruption_budget(owner, action.max_unavailable), observation.children)
        self._set_replicas(action, case)

    def _set_replicas(self, action: ApplyChildren, case: ActionContext) -> None:
        self._set_drivers(int(action.runs_driver and action.replicas > 0), case)
        if not self._is_good(action.until):
            raise Conflict("the observations for the number of pods are too old by now")
        self._scale(case.spec.owner.name, case.observation.observed.children.replicas, action.replicas, case)

    def _set_drivers(self, replicas: int, case: ActionContext) -> None:
        self._scale(
            driver_name(case.spec.owner.name), case.observation.observed.children.driver_replicas, replicas, case
        )

    def _scale(self, name: str, seen: int | None, replicas: int, case: ActionContext) -> None:
        if seen not in {None, replicas}:
            self._client.merge(STATEFUL_SET, case.spec.owner.namespace, name, {"spec": {"replicas": replicas}})

    def _render(
        self,
        revision: Revision,
        case: ActionContext,
        replicas: int,
        max_unavailable: int,
        *,
        going_on: Revision | None = None,
        runs_driver: bool = True,
        begins_runs: bool = False,
        replaces_run: bool = False,
    ) -> Children:
        return render(
            case.spec.owner,
            revision,
            self._settings,
            replicas=replicas,
            max_unavailable=max_unavailable,
            token_lines=case.tokens,
            spark_word=case.spark_word,
            going_on=going_on,
            runs_driver=runs_driver,
            begins_runs=begins_runs,
            replaces_run=replaces_run,
        )

    def _start_check(self, name: str, case: ActionContext) -> None:
        revision = self.revisions.find(name, case.spec)
        if revision is None:
            return  # the spec has changed since: the next plan asks for another one
        *needed, pod = self._render(revision, case, 0, 0).check
        try:
            self._writer.send_all(needed, case.observation.children)
            self._client.create(pod)
        except Conflict:
            self._replace_check(case.spec.owner, name)
        except NameTakenError:
            raise
        except Rejected as error:
            # A quota may have room in a moment; anything else stays as it is until a user changes something.
            self.rejected = {} if "exceeded quota" in str(error) else {name: str(error)}
            raise

    def _replace_check(self, owner: Owner, revision: str) -> None:
        """Replaces a check pod that is there already: of an earlier attempt that its node ended, or one that was just
        started."""
        found = self._client.get(POD, owner.namespace, check_pod_name(owner.name, revision))
        if found is not None and not is_owned(found, owner.uid):
            raise NameTakenError(f"there is a pod {found['metadata']['name']!r} already that is not this StreamsApp's")
        if found is not None and found["status"].get("phase") in ("Failed", "Succeeded"):
            self._client.evict(owner.namespace, found["metadata"]["name"], found["metadata"]["uid"])

    def _delete_check(self, owner: Owner, revision: str) -> None:
        name = check_pod_name(owner.name, revision)
        found = self._client.get(POD, owner.namespace, name, metadata_only=True)
        if found is not None and is_owned(found, owner.uid) and "deletionTimestamp" not in found["metadata"]:
            self._client.evict(owner.namespace, name, found["metadata"]["uid"])

    def _start_bootstrap(self, attempt: str, case: ActionContext) -> None:
        spec = case.spec
        if spec.bootstrap is None or spec.revision is None or attempt_of(spec.bootstrap) != attempt:
            return  # the spec has changed since: the next plan asks for another one
        self._start_job(spec.bootstrap, spec.revision, case)

    def _start_preview(self, action: StartPreview, case: ActionContext) -> None:
        spec = case.spec
        asked = spec.wanted.rollout.preview if isinstance(spec.wanted, DesiredState) else None
        today, tomorrow = (self.revisions.find(each, spec) for each in (action.against, action.revision))
        if asked is None or spec.spark_image is None or tomorrow is None:
            return  # the spec has changed since
        if today is None:
            raise Rejected(
                f"the preview needs the ConfigMap of revision {action.against}, which was deleted; `kubectl streamsapp"
                " approve` lets the rollout go on without a preview"
            )
        self._start_job(
            preview_job(spec.owner, asked, today, tomorrow, spec.spark_image, action.attempt), tomorrow, case
        )

    def _start_job(self, job: Object, revision: Revision, case: ActionContext) -> None:
        """Starts a Job whose pod is one of the revision."""
        *needed, _ = self._render(revision, case, 0, 0).check
        self._writer.send_all(needed, case.observation.children)
        try:
            self._client.create(job)
        except Conflict:
            self._find_job(case.spec.owner, job["metadata"]["name"])
            raise

    def _delete_job(self, owner: Owner, name: str) -> None:
        if self._find_job(owner, name) is not None:
            self._client.delete(JOB, owner.namespace, name, dependents_first=True)

    def _find_job(self, owner: Owner, name: str) -> Object | None:
        found = self._client.get(JOB, owner.namespace, name, metadata_only=True)
        if found is not None and not is_owned(found, owner.uid):
            raise NameTakenError(
                f"there is a Job {name!r} already that is not this StreamsApp's: delete it (one of a StreamsApp that "
                "was just deleted goes by itself)"
            )
        return found

    def _delete_revisions(self, owner: Owner, keep: frozenset[str], observation: AppObservation) -> None:
        for key, child in list(observation.children.items()):
            revision = label(child, REVISION_LABEL)
            if not key.startswith(f"{CONFIG_MAP.name}/") or revision is None or revision in keep:
                continue
            if is_owned(child, owner.uid):
                self._client.delete(CONFIG_MAP, owner.namespace, child["metadata"]["name"])
            del observation.children[key]


def set_finalizer(client: Client, document: Object, *, present: bool) -> Object:
    """Makes the application wait for being drained when it is deleted, or lets it go."""
    metadata = document["metadata"]
    others = [name for name in metadata.get("finalizers") or () if name != FINALIZER]
    changes = {
        "metadata": {
            "finalizers": [*others, FINALIZER] if present else others,
            "resourceVersion": metadata["resourceVersion"],
        }
    }
    return client.merge(STREAMS_APP, metadata["namespace"], metadata["name"], changes)

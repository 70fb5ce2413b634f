"""Reconciles an application once: observe → plan → write the status → act.

Called on the thread of the loop, which owns it and handles errors: ``ApiError`` when the API server says no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from streamsapp_operator.apply import FINALIZER, ActionContext, ActionRunner, EndedContainers, set_finalizer
from streamsapp_operator.children import Owner, RenderSettings
from streamsapp_operator.consumer_groups import ConsumerGroups
from streamsapp_operator.kube import Client, Object
from streamsapp_operator.kube.cache import Cache
from streamsapp_operator.kube.definition import require_whole
from streamsapp_operator.kube.events import Recorder, Subject
from streamsapp_operator.kube.kinds import CONFIG_MAP, STREAMS_APP
from streamsapp_operator.model.actions import Action, ApplyChildren, Evict
from streamsapp_operator.model.desired_state import DesiredState, InvalidSpec
from streamsapp_operator.model.observed_state import CheckSeen, CheckState, ChildrenSeen, ObservedState, Trouble
from streamsapp_operator.model.resource_status import from_document, to_document
from streamsapp_operator.model.status import AppStatus
from streamsapp_operator.observe import AppObservation, Observer, PodAsker
from streamsapp_operator.observe.observer import ObjectReader
from streamsapp_operator.plan import ReconcilePlan
from streamsapp_operator.plan.conditions import with_trouble
from streamsapp_operator.pod_tokens import spark_word, tokens
from streamsapp_operator.reconcile_interval import WriteLimit
from streamsapp_operator.spec_reader import owner_of
from streamsapp_operator.spec_rendering import RenderedSpec, rendered_spec
from streamsapp_operator.status_comparison import without_figures
from streamsapp_operator.steady_clock import SteadyClock

#: Seconds between two writes of a status if only its figures changed.
FIGURES_SECONDS = 5.0
#: Such writes a second, of all applications together.
FIGURE_WRITES_PER_SECOND = 5.0


class Planner(Protocol):
    """``plan`` of ``streamsapp_operator.plan``."""

    def __call__(
        self, app: DesiredState | InvalidSpec, observed: ObservedState, status: AppStatus, now: float
    ) -> ReconcilePlan: ...


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """The parts of the operator that all applications share."""

    client: Client
    asker: PodAsker
    clock: SteadyClock
    settings: RenderSettings
    #: The operator's own key; tokens are derived from it.
    key: bytes
    #: The name under which events are posted.
    reporter: str
    #: Says whether this operator may act: whether it leads.
    may_act: Callable[[], bool]
    plan: Planner
    groups: ConsumerGroups = field(default_factory=ConsumerGroups)
    #: All applications that this operator runs, as they are now.
    list_apps: Callable[[], Iterable[Object]] = tuple
    #: The objects that the watches reported; ``None`` if everything is read from the API server each time.
    cache: Cache | None = None
    #: Says whether all objects of a namespace are in the cache; before, nothing is planned there.
    is_watched: Callable[[str], bool] = lambda namespace: True
    #: A spec with every field that this operator knows: a cluster that does not is not written to.
    known_fields: Object | None = None
    figure_writes: WriteLimit = field(default_factory=lambda: WriteLimit(FIGURE_WRITES_PER_SECOND))

    @property
    def reader(self) -> ObjectReader:
        return self.client if self.cache is None else self.cache


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of a reconcile."""

    #: The application, as it was written last.
    document: Object
    status: AppStatus
    wanted_replicas: int | None


class AppReconciler:
    """Reconciles one application, from when it is seen until it is gone; an application made anew under its name is
    another."""

    def __init__(self, tools: OperatorContext, uid: str) -> None:
        self.uid = uid
        self._tools = tools
        self._observer = Observer(tools.client, tools.reader, tools.asker, tools.clock)
        self.recorder = Recorder(tools.client, tools.clock, tools.reporter)
        self._ended = EndedContainers(tools.asker)
        self._runner = ActionRunner(tools.client, tools.clock, self.recorder, tools.settings, tools.may_act, uid)
        self.code = _CodeMap(tools.client, tools.reader)
        self._spec: tuple[object, RenderedSpec] | None = None
        #: The parts that the spec was made of when a status was written the last time.
        self._proved_spec: object = None
        self._written_at = float("-inf")
        #: The application and its children as they were seen last.
        self._seen: tuple[Owner, dict[str, Object]] | None = None
        #: The error of the last reconcile, until one does all it wants.
        self.trouble: Trouble | None = None

    def reconcile(self, document: Object, progress: Callable[[], None]) -> ReconcileResult | None:
        """Reconciles once. ``document`` is the application as it was read a moment ago; ``None`` is returned if it is
        being deleted, and was let go. ``progress`` is called after every part."""
        finalizers = document["metadata"].get("finalizers") or ()
        if FINALIZER not in finalizers and "deletionTimestamp" in document["metadata"]:
            return None
        require_whole(document, self._tools.known_fields)
        namespace = document["metadata"]["namespace"]
        spec = self._read(document, namespace)
        known = tokens(self._tools.key, self.uid, self._tools.clock.now())
        before = from_document(document.get("status"))
        job = None if before.bootstrap is None else before.bootstrap.job
        observation, planned = self._plan(spec, known, job, before, fresh=False)
        if self._tools.may_act():
            self._ended.take_out(observation, known)
        progress()
        children = observation.observed.children
        if self._tools.cache is not None and (takes_pods(planned.actions) or begins_pods(planned.actions, children)):
            observation, planned = self._plan(spec, known, job, before, fresh=True)
            progress()
        document = self._write(document, before, planned.status)
        if FINALIZER not in finalizers:  # after the status, which an older resource refuses, and before any child
            document = set_finalizer(self._tools.client, document, present=True)
        progress()
        word = spark_word(self._tools.key, self.uid)
        case = ActionContext(spec, document, observation, subject(document, planned.status), known, word)
        self._runner.act(planned.actions, case, lambda _: progress())
        return ReconcileResult(
            document, planned.status, spec.wanted.replicas if isinstance(spec.wanted, DesiredState) else None
        )

    def shut_budget(self) -> None:
        """Shuts the budget, for the time in which the operator does not look: an open one lets drains take pods by what
        was safe when it was opened."""
        if self._seen is not None:
            self._runner.shut_budget(*self._seen)

    def _read(self, document: Object, namespace: str) -> RenderedSpec:
        """Reads the spec anew only if something that it is made of has changed: it is most of the work of a
        reconcile."""
        metadata = document["metadata"]
        reference = ((document.get("spec") or {}).get("code") or {}).get("configMapRef") or {}
        code = self.code.read(namespace, reference["name"]) if isinstance(reference.get("name"), str) else None
        made_of = (
            metadata.get("generation"),
            metadata.get("annotations"),
            metadata.get("deletionTimestamp"),
            None if code is None else _version(code),
        )
        if self._tools.cache is None or self._spec is None or self._spec[0] != made_of:
            owner = owner_of(document)
            self._spec = (
                made_of,
                rendered_spec(
                    document,
                    self._tools.settings,
                    lambda name: code,
                    lambda revision: self._runner.revisions.recorded(owner, revision),
                ),
            )
        return self._spec[1]

    def _plan(
        self, spec: RenderedSpec, known: tuple[str, str], job: str | None, before: AppStatus, *, fresh: bool
    ) -> tuple[AppObservation, ReconcilePlan]:
        observation = self._with_rejection(self._observer.observe(spec, known, job, fresh=fresh), spec)
        self._seen = spec.owner, observation.children
        app = f"{spec.owner.namespace}/{spec.owner.name}"
        groups, children = self._tools.groups, observation.observed.children
        if children.replicas is None and children.schedule_revision is None:
            # It may be about to start, and the loops of others may not have come to them yet.
            groups.learn(self._tools.list_apps, self._tools.clock.now())
        rivals = groups.rivals(app, spec.application_id, spec.bootstrap_servers)
        elder = groups.elder(app, rivals)
        seen = replace(observation.observed, trouble=self.trouble, rivals=rivals, elder=elder)
        observation = replace(observation, observed=seen)
        return observation, self._tools.plan(spec.wanted, observation.observed, before, self._tools.clock.now())

    def _with_rejection(self, observation: AppObservation, spec: RenderedSpec) -> AppObservation:
        """Adds a check that failed for a check pod that the API server does not take."""
        revision = spec.wanted.revision if isinstance(spec.wanted, DesiredState) else ""
        said = self._runner.rejected.get(revision)
        if said is None:
            return observation
        failed = CheckSeen(revision, CheckState.FAILED, (said,), None, observation.observed.at)
        checks = {**observation.observed.checks, revision: failed}
        return replace(observation, observed=replace(observation.observed, checks=checks))

    def _write(self, document: Object, before: AppStatus, after: AppStatus) -> Object:
        """Writes the status, before anything is done. ``Conflict`` says that the application changed, so the plan may
        be wrong; ``OlderDefinition`` that the spec may lack something. Nothing else shows that, so a spec that was read
        anew is not acted on before a status was written, be it the same."""
        old, new = to_document(before), to_document(after)
        now = self._tools.clock.now()
        made_of = None if self._spec is None else self._spec[0]
        if made_of == self._proved_spec:
            if new == old:
                return document
            if without_figures(new) == without_figures(old):
                due = now - self._written_at >= FIGURES_SECONDS
                if not due or not self._tools.figure_writes.admits(now):
                    return document
        written = self._tools.client.write_status(document, new, self._tools.known_fields)
        self._written_at, self._proved_spec = now, made_of
        return written


class _CodeMap:
    """Reads the ConfigMap that code comes from, again when it has changed."""

    def __init__(self, client: Client, reader: ObjectReader) -> None:
        self._client = client
        self._reader = reader
        #: Of the one that was looked for last.
        self.name = ""
        self._found: Object | None = None

    def read(self, namespace: str, name: str) -> Object | None:
        """Returns the ConfigMap as it is now."""
        newest = self._reader.get(CONFIG_MAP, namespace, name, metadata_only=True)
        known = self._found if self.name == name else None
        if newest is None or known is None or _version(newest) != _version(known):
            known = None if newest is None else self._client.get(CONFIG_MAP, namespace, name)
        self.name, self._found = name, known
        return known


def takes_pods(actions: Iterable[Action]) -> bool:
    """Says whether the actions take a pod away: that is decided by the objects that the API server has at this
    moment."""
    return any(isinstance(it, Evict) or (isinstance(it, ApplyChildren) and it.until is not None) for it in actions)


def begins_pods(actions: Iterable[Action], children: ChildrenSeen) -> bool:
    """Says whether the actions make the first pods, or have the StatefulSet make pods of another revision. A watch that
    lags may not report pods that still end, beside which these must not run. So that is decided by the objects that the
    API server has at this moment."""
    made = (it for it in actions if isinstance(it, ApplyChildren) and it.replicas)
    return any(not children.replicas or it.revision != children.template_revision for it in made)


def _version(document: Object) -> tuple[str, str]:
    return document["metadata"]["uid"], document["metadata"]["resourceVersion"]


def write_trouble(tools: OperatorContext, namespace: str, name: str, trouble: Trouble) -> None:
    """Writes into the status that a reconcile failed, which wrote nothing itself, or could not do everything."""
    document = read_app(tools.client, namespace, name)
    if document is None or "deletionTimestamp" in document["metadata"]:
        return
    before = from_document(document.get("status"))
    require_whole(document, tools.known_fields)
    after = with_trouble(before, trouble, int(document["metadata"].get("generation") or 0), tools.clock.now())
    if without_figures(to_document(after)) != without_figures(to_document(before)):
        tools.client.write_status(document, to_document(after), tools.known_fields)


def subject(document: Object, status: AppStatus | None = None) -> Subject:
    """Returns the application that events are about. An event that happens again in another rollout is posted again."""
    metadata = document["metadata"]
    rollout = None if status is None else status.rollout
    occasion = "" if rollout is None else f"{rollout.revision}/{rollout.started_at}"
    return Subject(metadata["name"], metadata["namespace"], metadata["uid"], f"{metadata.get('generation')}/{occasion}")


def read_app(client: Client, namespace: str, name: str) -> Object | None:
    """Returns the application as it is now."""
    return client.get(STREAMS_APP, namespace, name)

"""One turn of an application's loop: observe → plan → write the status → act.

Called on the thread of the loop, which owns it and sees to what is raised: ``ApiError`` when the API server says no.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from streamsapp_operator.apply import FINALIZER, Actor, Case, set_finalizer
from streamsapp_operator.asked import Asked, read
from streamsapp_operator.children import RenderSettings
from streamsapp_operator.groups import Groups
from streamsapp_operator.kube import Client, Object
from streamsapp_operator.kube.events import Recorder, Subject
from streamsapp_operator.kube.kinds import CONFIG_MAP, STREAMS_APP
from streamsapp_operator.model.observed import CheckSeen, CheckState, Observed, Trouble
from streamsapp_operator.model.status import AppStatus, from_document, to_document
from streamsapp_operator.model.wanted import Invalid, Wanted
from streamsapp_operator.observe import Look, Observer, PodAsker
from streamsapp_operator.plan import Plan
from streamsapp_operator.plan.conditions import with_trouble
from streamsapp_operator.times import SteadyClock
from streamsapp_operator.tokens import tokens
from streamsapp_operator.volatile import stable

#: Seconds between two writes of a status of which only figures changed.
FIGURES_SECONDS = 5.0
#: Seconds between two looks at the ConfigMap that code comes from.
CODE_SECONDS = 10.0


class Planner(Protocol):
    """``plan`` of ``streamsapp_operator.plan``."""

    def __call__(self, app: Wanted | Invalid, observed: Observed, status: AppStatus, now: float) -> Plan: ...


@dataclass(frozen=True, slots=True)
class Tools:
    """What all applications share."""

    client: Client
    asker: PodAsker
    clock: SteadyClock
    settings: RenderSettings
    #: The operator's own key, of which tokens are derived.
    key: bytes
    #: Who posts events.
    reporter: str
    #: Whether this operator may act: whether it leads.
    may_act: Callable[[], bool]
    plan: Planner
    groups: Groups = field(default_factory=Groups)


@dataclass(frozen=True, slots=True)
class Turned:
    """What a turn came to."""

    status: AppStatus
    wanted_replicas: int | None


class App:
    """One application, from when it is seen until it is gone; one that is made anew under its name is another."""

    def __init__(self, tools: Tools, uid: str) -> None:
        self.uid = uid
        self._tools = tools
        self._observer = Observer(tools.client, tools.asker, tools.clock)
        self.recorder = Recorder(tools.client, tools.clock, tools.reporter)
        self._actor = Actor(tools.client, tools.clock, self.recorder, tools.settings, tools.may_act, uid)
        self._code = _CodeMap(tools.client, tools.clock)
        self._written_at = float("-inf")
        #: Of the last turn, until one does all it wants.
        self.trouble: Trouble | None = None

    def turn(self, document: Object, progress: Callable[[], None]) -> Turned | None:
        """``document`` is the application as it was read a moment ago; ``None``: it is being deleted, and was let go.
        ``progress`` is called after every part."""
        finalizers = document["metadata"].get("finalizers") or ()
        if FINALIZER not in finalizers:
            if "deletionTimestamp" in document["metadata"]:
                return None
            document = set_finalizer(self._tools.client, document, present=True)
        namespace = document["metadata"]["namespace"]
        asked = read(document, self._tools.settings, lambda name: self._code.read(namespace, name))
        known = tokens(self._tools.key, self.uid, self._tools.clock.now())
        before = from_document(document.get("status"))
        job = None if before.bootstrap is None else before.bootstrap.job
        look = self._with_rejection(self._observer.look(asked, known, job), asked)
        app = f"{namespace}/{asked.owner.name}"
        rivals = self._tools.groups.rivals(app, asked.application_id, asked.bootstrap_servers)
        look = replace(look, observed=replace(look.observed, trouble=self.trouble, rivals=rivals))
        progress()
        planned = self._tools.plan(asked.wanted, look.observed, before, self._tools.clock.now())
        document = self._write(document, before, planned.status)
        progress()
        case = Case(asked, document, look, subject(document, planned.status), known)
        self._actor.act(planned.actions, case, lambda _: progress())
        return Turned(planned.status, asked.wanted.replicas if isinstance(asked.wanted, Wanted) else None)

    def _with_rejection(self, look: Look, asked: Asked) -> Look:
        """A check pod that the API server does not take is a check that failed."""
        revision = "" if asked.revision is None else asked.revision.id
        said = self._actor.rejected.get(revision)
        if said is None:
            return look
        failed = CheckSeen(revision, CheckState.FAILED, (said,), None, look.observed.at)
        checks = {**look.observed.checks, revision: failed}
        return replace(look, observed=replace(look.observed, checks=checks))

    def _write(self, document: Object, before: AppStatus, after: AppStatus) -> Object:
        """The status, before anything is done. ``Conflict``: the application changed, so the plan may be wrong."""
        old, new = to_document(before), to_document(after)
        now = self._tools.clock.now()
        due = now - self._written_at >= FIGURES_SECONDS
        if new == old or (stable(new) == stable(old) and not due):
            return document
        written = self._tools.client.write_status(document, new)
        self._written_at = now
        return written


class _CodeMap:
    """The ConfigMap that code comes from, read again when it has changed, and looked at now and then."""

    def __init__(self, client: Client, clock: SteadyClock) -> None:
        self._client = client
        self._clock = clock
        self._name = ""
        self._found: Object | None = None
        self._looked_at = 0.0

    def read(self, namespace: str, name: str) -> Object | None:
        """One that is not there is looked for each time, as somebody is waiting for it."""
        now = self._clock.now()
        if self._found is not None and self._name == name and now - self._looked_at < CODE_SECONDS:
            return self._found
        newest = self._client.get(CONFIG_MAP, namespace, name, metadata_only=True)
        if newest is None or self._found is None or _version(newest) != _version(self._found):
            self._found = None if newest is None else self._client.get(CONFIG_MAP, namespace, name)
        self._name, self._looked_at = name, now
        return self._found


def _version(document: Object) -> tuple[str, str]:
    return document["metadata"]["uid"], document["metadata"]["resourceVersion"]


def told_of(client: Client, namespace: str, name: str, trouble: Trouble, now: float) -> None:
    """Write into the status that a turn failed, which wrote nothing itself, or what it then could not do."""
    document = read_app(client, namespace, name)
    if document is None or "deletionTimestamp" in document["metadata"]:
        return
    before = from_document(document.get("status"))
    after = with_trouble(before, trouble, int(document["metadata"].get("generation") or 0), now)
    if stable(to_document(after)) != stable(to_document(before)):
        client.write_status(document, to_document(after))


def subject(document: Object, status: AppStatus | None = None) -> Subject:
    """Who events are about. What happens again in another rollout is told again."""
    metadata = document["metadata"]
    rollout = None if status is None else status.rollout
    occasion = "" if rollout is None else f"{rollout.revision}/{rollout.started_at}"
    return Subject(metadata["name"], metadata["namespace"], metadata["uid"], f"{metadata.get('generation')}/{occasion}")


def read_app(client: Client, namespace: str, name: str) -> Object | None:
    """The application as it is now."""
    return client.get(STREAMS_APP, namespace, name)

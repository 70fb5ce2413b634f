"""The actions that ``plan`` orders. ``apply`` carries them out on the thread of the application's loop; nothing else
changes the cluster. Plain data.

An action that fails is not retried here: the next reconcile plans anew, from the state of the cluster then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class ApplyChildren:
    """Applies every child (server-side apply) as ``revision`` has it, with so many replicas. It is idempotent, and part
    of almost every plan: a child that is so already (``ChildrenSeen.applied``) needs no call."""

    revision: str
    replicas: int
    max_unavailable: int
    #: Not to be done after this moment of the operator's clock: fewer replicas take a healthy pod away, by observations
    #: that are too old from then on. ``None``: at any time.
    until: float | None = None
    #: False: the driver of ``engine: spark`` is to end. Without that engine there is none.
    runs_driver: bool = True
    #: The revision of that driver, which is replaced after its executors; ``None``: ``revision``.
    driver_revision: str | None = None
    #: True: runs of ``spec.spark.schedule`` may begin.
    begins_runs: bool = False
    #: True: the next of them takes the place of the one that is there, whose pod cannot run.
    replaces_run: bool = False


@dataclass(frozen=True, slots=True)
class SetBudget:
    """Sets ``maxUnavailable`` of the PodDisruptionBudget: 1 while the gate says safe, else 0. Closing it comes before
    everything else; ``ApplyChildren`` opens it."""

    max_unavailable: int


@dataclass(frozen=True, slots=True)
class Evict:
    """Evicts a pod through the Eviction API, with the uid and resource version that it was judged by: a pod that
    changed since is not touched. The pod drains itself when it is asked to end."""

    pod: str
    uid: str
    resource_version: str
    reason: str
    #: Not to be done after this moment of the operator's clock: the observations it was judged by are too old then.
    until: float | None = None
    #: True: the pod is not ready, and goes whatever the budget says.
    unready: bool = False


@dataclass(frozen=True, slots=True)
class StartCheck:
    """Starts the pod that loads the topology of ``revision``."""

    revision: str


@dataclass(frozen=True, slots=True)
class DeleteCheck:
    """Deletes the check pod, whose result is in the status."""

    revision: str


@dataclass(frozen=True, slots=True)
class StartBootstrap:
    """Starts the Job that builds state from history."""

    attempt: str


@dataclass(frozen=True, slots=True)
class DeleteBootstrap:
    """Deletes the Job; it is gone when its pods are."""


@dataclass(frozen=True, slots=True)
class StartPreview:
    """Starts the Job that runs ``revision`` beside ``against``, the one that is there."""

    attempt: str
    revision: str
    against: str


@dataclass(frozen=True, slots=True)
class DeletePreview:
    """Deletes that Job, whose result is in the status."""


@dataclass(frozen=True, slots=True)
class EndSchedule:
    """Deletes the CronJob; it is gone when its runs and their pods are, and begins none from now on."""


@dataclass(frozen=True, slots=True)
class DeleteRevisions:
    """Deletes the ConfigMaps of revisions that nothing refers to any more; ``keep`` stay."""

    keep: frozenset[str]


@dataclass(frozen=True, slots=True)
class PostEvent:
    """Posts an event on the application; ``reason`` is stable, as tools match it."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Removes the finalizer, after everything is drained."""


Action: TypeAlias = (
    ApplyChildren
    | SetBudget
    | Evict
    | StartCheck
    | DeleteCheck
    | StartBootstrap
    | DeleteBootstrap
    | StartPreview
    | DeletePreview
    | EndSchedule
    | DeleteRevisions
    | PostEvent
    | RemoveFinalizer
)

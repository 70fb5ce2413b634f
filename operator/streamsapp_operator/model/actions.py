"""The actions that ``plan`` orders. ``apply`` does it; nothing else changes the cluster.

An action that fails is not retried here: the next look plans anew, from what is then true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class ApplyChildren:
    """Server-side apply of every child as ``revision`` has it, with so many replicas. Idempotent, and part of almost
    every plan: what is already so (``ChildrenSeen.applied``) needs no call."""

    revision: str
    replicas: int
    max_unavailable: int
    #: Not to be done after this moment of the operator's clock: fewer replicas take a healthy pod away, by observations
    #: that are too old from then on. ``None``: at any time.
    until: float | None = None


@dataclass(frozen=True, slots=True)
class SetBudget:
    """``maxUnavailable`` of the PodDisruptionBudget: 1 while the gate says safe, else 0 (more while one of several
    pods that are not ready is evicted). Closing it comes before everything else; ``ApplyChildren`` opens it."""

    max_unavailable: int


@dataclass(frozen=True, slots=True)
class Evict:
    """Through the Eviction API, with the uid and resource version it was judged by: a pod that changed since is not
    touched. The pod drains itself when it is told to end."""

    pod: str
    uid: str
    resource_version: str
    reason: str
    #: Not to be done after this moment of the operator's clock: the observations it was judged by are too old then.
    until: float | None = None


@dataclass(frozen=True, slots=True)
class StartCheck:
    """Start the pod that loads the topology of ``revision``."""

    revision: str


@dataclass(frozen=True, slots=True)
class DeleteCheck:
    """Its result is in the status: the pod may go."""

    revision: str


@dataclass(frozen=True, slots=True)
class StartBootstrap:
    """Start the Job that makes state of history."""

    attempt: str


@dataclass(frozen=True, slots=True)
class DeleteBootstrap:
    """Delete the Job: it is gone when its pods are."""


@dataclass(frozen=True, slots=True)
class DeleteRevisions:
    """Delete configurations that nothing refers to any more; ``keep`` stay."""

    keep: frozenset[str]


@dataclass(frozen=True, slots=True)
class PostEvent:
    """An event on the application; ``reason`` is stable, tools match it."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Everything is drained: the finalizer may go."""


Action: TypeAlias = (
    ApplyChildren
    | SetBudget
    | Evict
    | StartCheck
    | DeleteCheck
    | StartBootstrap
    | DeleteBootstrap
    | DeleteRevisions
    | PostEvent
    | RemoveFinalizer
)

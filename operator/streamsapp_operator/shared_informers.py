"""Makes the cache and the informers that all applications share; a change wakes the application it belongs to.

Made by ``__main__``; the watches' threads call ``Waking``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from streamsapp_operator.children.names import BOOTSTRAP_LABEL, CHECK_LABEL, NAME_LABEL, PREVIEW_LABEL, RUN_LABEL
from streamsapp_operator.kube import Client, Object, ResourceKind
from streamsapp_operator.kube.cache import Cache
from streamsapp_operator.kube.informer import Changed, Informers, Watched
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
    kind_of,
    label,
)
from streamsapp_operator.loop import Key
from streamsapp_operator.steady_clock import SteadyClock

_MANAGED = "app.kubernetes.io/managed-by=streamsapp-operator"
_LOOKUPS = (NAME_LABEL, CHECK_LABEL, BOOTSTRAP_LABEL, PREVIEW_LABEL, RUN_LABEL)
WATCHED = (
    *(Watched(kind, _MANAGED) for kind in (POD, STATEFUL_SET, BUDGET, JOB, CRON_JOB)),
    *(Watched(kind, _MANAGED, metadata_only=True) for kind in (SERVICE, SERVICE_ACCOUNT, NETWORK_POLICY)),
    # Users' code too, which has no label of ours.
    Watched(CONFIG_MAP, metadata_only=True),
)


class Woken(Protocol):
    """The part of the loops that watches wake."""

    def nudge(self, key: Key) -> None: ...

    def code_changed(self, namespace: str, name: str) -> None: ...


def make_cache(client: Client) -> Cache:
    """Makes the cache, which also learns what the client writes, before a watch reports it."""
    cache = Cache(_LOOKUPS)
    whole = {each.kind: not each.metadata_only for each in WATCHED}

    def learned(document: Object) -> None:
        kind = kind_of(document)
        if kind in whole:
            cache.put(kind, document if whole[kind] else {"metadata": document["metadata"]})

    client.learned = learned
    return cache


def make_informers(
    client: Client, cache: Cache, namespaces: Sequence[str], loops: Woken, clock: SteadyClock
) -> Informers:
    return Informers(client, WATCHED, namespaces, cache, waking(loops), clock)


def waking(loops: Woken) -> Changed:
    """Wakes the application that an object belongs to."""

    def changed(kind: ResourceKind, document: Object) -> None:
        metadata = document["metadata"]
        app = next((name for each in _LOOKUPS if (name := label(document, each)) is not None), None)
        if app is not None:
            loops.nudge(Key(metadata["namespace"], app))
        elif kind is CONFIG_MAP:
            loops.code_changed(metadata["namespace"], metadata["name"])

    return changed

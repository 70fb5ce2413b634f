"""Checks that the watchers still report changes, by comparing their reports with a list.

A watcher can die or hang while its operator lives on. ``WatchAge`` judges, and is pure; ``Lister`` is the thread that
asks, every few seconds, for metadata alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from streamsapp_operator.kube import ApiError, Client, Forbidden, Object, ResourceKind
from streamsapp_operator.kube.kinds import STREAMS_APP
from streamsapp_operator.steady_clock import SteadyClock

log = logging.getLogger(__name__)

#: Seconds between two lists.
LIST_SECONDS = 15.0

#: Plural, namespace, name.
ObjectKey: TypeAlias = tuple[str, str, str]


class WatchAge:
    """Knows for how long a watcher has owed something. Called on the watcher's thread and on the lister's."""

    def __init__(self, now: float) -> None:
        self._lock = threading.Lock()
        #: The time when a list was asked for, the last time.
        self._looked_at = now
        #: Resource version last reported of each object, and when.
        self._told: dict[ObjectKey, tuple[str, float]] = {}
        #: Objects whose listed version was not reported by the watch, and since when.
        self._owed: dict[ObjectKey, float] = {}

    def told(self, key: ObjectKey, version: str, now: float) -> None:
        """Notes that a watcher reported an object: it owes nothing more about it, as events come in order."""
        with self._lock:
            self._told[key] = (version, now)
            self._owed.pop(key, None)

    def gone(self, key: ObjectKey) -> None:
        """Notes that a watcher reported that an object is gone."""
        with self._lock:
            self._told.pop(key, None)
            self._owed.pop(key, None)

    def listed(self, versions: Mapping[ObjectKey, str], began: float) -> None:
        """Compares a list that was asked for at ``began``. Deletions are not compared: loops observe for themselves."""
        with self._lock:
            self._looked_at = began
            for key, version in versions.items():
                known, at = self._told.get(key, ("", float("-inf")))
                if known == version or at > began:
                    self._owed.pop(key, None)
                else:
                    self._owed.setdefault(key, began)
            for key in [key for key in self._owed if key not in versions]:
                del self._owed[key]

    def owed(self) -> Sequence[ObjectKey]:
        """Returns the objects that a watcher did not report."""
        with self._lock:
            return list(self._owed)

    def not_listed(self, began: float) -> None:
        """Notes that the API server could not be asked, and neither could the watchers: their debts count anew."""
        with self._lock:
            self._looked_at = began
            self._owed.clear()

    def behind(self, now: float) -> float:
        """Returns the seconds since the oldest object that is owed was there; 0 if none is. While no list is read, all
        are owed."""
        with self._lock:
            idle = now - self._looked_at
            return max([now - since for since in self._owed.values()] + [idle if idle > 3 * LIST_SECONDS else 0.0])


class Lister(threading.Thread):
    """Lists the objects that are watched."""

    def __init__(
        self,
        client: Client,
        namespaces: Sequence[str],
        age: WatchAge,
        clock: SteadyClock,
        missed: Callable[[str, str], None] = lambda namespace, name: None,
    ) -> None:
        """Takes ``missed``, which is called with the namespace and name of an application whose events the watcher
        owes."""
        super().__init__(name="lister", daemon=True)
        self._missed = missed
        self._client = client
        self._namespaces: Sequence[str | None] = namespaces or [None]
        self._age = age
        self._clock = clock
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(LIST_SECONDS):
            began = self._clock.now()
            try:
                self._age.listed(self._versions(STREAMS_APP), began)
                for _, namespace, name in self._age.owed():
                    self._missed(namespace, name)
            except ApiError as error:
                log.debug("nothing was listed: %s", error)
                self._age.not_listed(began)

    def stop(self) -> None:
        self._stopping.set()

    def _versions(self, kind: ResourceKind) -> dict[ObjectKey, str]:
        return {
            key_of(kind, found["metadata"]): found["metadata"]["resourceVersion"]
            for namespace in self._namespaces
            for found in self._list(kind, namespace)
        }

    def _list(self, kind: ResourceKind, namespace: str | None) -> Sequence[Object]:
        """Lists one namespace. One that is gone, and the operator's Role with it, has nothing to be watched; the others
        are compared all the same."""
        try:
            return self._client.list(kind, namespace, metadata_only=True)
        except Forbidden as error:
            log.debug("nothing was listed in namespace %s: %s", namespace, error)
            return ()


def key_of(kind: ResourceKind, metadata: Mapping[str, str]) -> ObjectKey:
    """Returns the key of an object with this metadata."""
    return kind.plural, metadata["namespace"], metadata["name"]

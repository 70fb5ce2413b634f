"""Keeps the cache as the API server is: one list and one watch per kind and namespace, shared by all applications.

A thread each, which never ends of an error. A watch that breaks goes on where it was; a watch that is too old for that,
or silent for longer than the API server lets a watch be, is listed anew; and every few minutes a list shows whatever a
watch may have missed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from streamsapp_operator.kube.cache import Cache, ObjectPlace
from streamsapp_operator.kube.client import Client
from streamsapp_operator.kube.errors import Gone
from streamsapp_operator.kube.kinds import Object, ResourceKind
from streamsapp_operator.steady_clock import SteadyClock

log = logging.getLogger(__name__)

#: So long the API server keeps a watch open; a bookmark, or its end, comes by then. Seconds.
WATCH_SECONDS = 60
#: Seconds between two lists of a watch that never broke.
RESYNC_SECONDS = 600.0
#: Seconds after an error; then twice as long, up to the second.
_BACKOFF, _LONGEST_BACKOFF = 0.5, 5.0

#: Told of an object that is new, changed or gone.
Changed = Callable[[ResourceKind, Object], None]


@dataclass(frozen=True, slots=True)
class Watched:
    """A kind that is watched."""

    kind: ResourceKind
    labels: str | None = None
    metadata_only: bool = False


class Informer(threading.Thread):
    """Follows one kind in one namespace, or in all."""

    def __init__(
        self,
        client: Client,
        watched: Watched,
        namespace: str | None,
        cache: Cache,
        changed: Changed,
        clock: SteadyClock,
        watch_seconds: int = WATCH_SECONDS,
    ) -> None:
        super().__init__(name=f"watch-{watched.kind.plural}", daemon=True)
        self._client = client
        self._watched = watched
        self.namespace = namespace
        self._cache = cache
        self._changed = changed
        self._clock = clock
        self._watch_seconds = watch_seconds
        self._stopping = threading.Event()
        #: Set once all that there is has been listed.
        self.synced = threading.Event()
        self.lists = 0

    def stop(self) -> None:
        """Ends with the next event that the watch reports."""
        self._stopping.set()

    def run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                self._follow(self._list())
                failures = 0
            except Gone:
                log.debug("the watch of %s is too old and begins anew", self._watched.kind.plural)
            except Exception as error:  # whatever it is, the next list begins anew
                level = logging.DEBUG if failures else logging.WARNING
                log.log(level, "watching %s: %s", self._watched.kind.plural, error)
                failures += 1
                self._stopping.wait(min(_LONGEST_BACKOFF, _BACKOFF * 2 ** min(failures, 10)))

    def _list(self) -> str:
        """Lists all objects, and returns the resource version that the list is of."""
        kind = self._watched.kind
        found, version = self._client.list_at(
            kind, self.namespace, self._watched.labels, metadata_only=self._watched.metadata_only
        )
        listed = {_place(document) for document in found}
        for document in [*found, *self._cache.keep(kind, self.namespace, listed, int(version))]:
            if _place(document) not in listed or self._cache.put(kind, document):
                self._changed(kind, document)
        self.lists += 1
        self.synced.set()
        return version

    def _follow(self, version: str) -> None:
        """Follows the watch until it is time for another list; raises ``ApiError`` if the watch cannot go on."""
        end = self._clock.now() + RESYNC_SECONDS
        while not self._stopping.is_set() and self._clock.now() < end:
            for kind_of_event, document in self._client.watch(
                self._watched.kind,
                self.namespace,
                self._watched.labels,
                version,
                self._watch_seconds,
                metadata_only=self._watched.metadata_only,
            ):
                version = document["metadata"]["resourceVersion"]
                if kind_of_event != "BOOKMARK":
                    self._take(kind_of_event, document)
                if self._stopping.is_set():
                    return

    def _take(self, event: str, document: Object) -> None:
        kind = self._watched.kind
        if event == "DELETED":
            self._cache.drop(kind, _place(document))
            self._changed(kind, document)
        elif self._cache.put(kind, document):
            self._changed(kind, document)


class Informers:
    """Holds all informers."""

    def __init__(
        self,
        client: Client,
        watched: Sequence[Watched],
        namespaces: Sequence[str],
        cache: Cache,
        changed: Changed,
        clock: SteadyClock,
    ) -> None:
        """Takes ``namespaces``; none stands for all."""
        self._all = [
            Informer(client, each, namespace, cache, changed, clock)
            for each in watched
            for namespace in namespaces or (None,)
        ]

    def start(self) -> None:
        for each in self._all:
            each.start()

    def wait_synced(self, stop: threading.Event, passed_over: Collection[str] = ()) -> bool:
        """Waits until everything was listed once, but for the namespaces that are passed over; returns ``False`` when
        asked to end before."""
        for each in (it for it in self._all if it.namespace not in passed_over):
            while not each.synced.wait(0.1):
                if stop.is_set():
                    return False
        return True

    def have_synced(self, namespace: str) -> bool:
        """Says whether everything of this namespace was listed once."""
        return all(it.synced.is_set() for it in self._all if it.namespace in {None, namespace})

    def stop(self) -> None:
        for each in self._all:
            each.stop()


def _place(document: Object) -> ObjectPlace:
    return ObjectPlace(document["metadata"]["namespace"], document["metadata"]["name"])

"""Keeps objects as the watches reported them last, so that quiet applications are observed without asking the API
server.

Filled by informers, each on its thread, and by the client with what it wrote; read on the loops' threads. Each object
is kept as compact JSON, without the fields' managers that are not ours: a tenth of what it would take as a document,
and each reader has a copy of its own. A ConfigMap that is no application's child has only its version kept: all
ConfigMaps of the cluster may be watched, as any may have an application's code, and their annotations may be as long as
their data.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from streamsapp_operator.kube.kinds import CONFIG_MAP, Object, ResourceKind

FIELD_MANAGER = "streamsapp-operator"
_OF_VERSION = ("namespace", "name", "uid", "resourceVersion")


class ObjectPlace(NamedTuple):
    """The place of an object among those of its kind."""

    namespace: str
    name: str


class _Kept(NamedTuple):
    #: The API server counts resource versions up, over all objects of a kind.
    version: int
    #: Of its labels, those by which objects are looked up.
    labels: tuple[str, ...]
    data: bytes


class Cache:
    """The cache of all objects. It has the reading methods of the client."""

    def __init__(self, lookups: Iterable[str]) -> None:
        """Takes in ``lookups`` the labels by whose value objects are listed."""
        self._lookups = tuple(lookups)
        self._lock = threading.Lock()
        self._kept: dict[str, dict[ObjectPlace, _Kept]] = defaultdict(dict)
        #: Kind, namespace and ``label=value`` → names.
        self._names: dict[tuple[str, str, str], set[str]] = defaultdict(set)

    def get(self, kind: ResourceKind, namespace: str, name: str, *, metadata_only: bool = False) -> Object | None:
        """Returns one object; ``None`` if there is none."""
        with self._lock:
            found = self._kept[kind.name].get(ObjectPlace(namespace, name))
        return None if found is None else _document(found)

    def list(
        self, kind: ResourceKind, namespace: str | None, labels: str | None = None, *, metadata_only: bool = False
    ) -> list[Object]:
        """Returns all objects of a kind and namespace with this label."""
        if namespace is None or labels is None:
            raise ValueError("objects are looked up by namespace and label")
        with self._lock:
            names = sorted(self._names.get((kind.name, namespace, labels), ()))
            found = [self._kept[kind.name][ObjectPlace(namespace, name)] for name in names]
        return [_document(each) for each in found]

    def put(self, kind: ResourceKind, document: Object) -> bool:
        """Puts an object as it is now; returns ``False`` if a newer one is known."""
        metadata = document["metadata"]
        place, version = ObjectPlace(metadata["namespace"], metadata["name"]), int(metadata["resourceVersion"])
        labels = tuple(self._labels_of(metadata))
        slim = _slim(document) if labels or kind is not CONFIG_MAP else _bare(document)
        made = _Kept(version, labels, msgspec.json.encode(slim))
        with self._lock:
            known = self._kept[kind.name].get(place)
            if known is not None and known.version >= version:
                return False
            self._drop(kind, place)
            self._kept[kind.name][place] = made
            for label in made.labels:
                self._names[kind.name, place.namespace, label].add(place.name)
        return True

    def drop(self, kind: ResourceKind, place: ObjectPlace) -> None:
        """Forgets an object that is gone."""
        with self._lock:
            self._drop(kind, place)

    def keep(
        self, kind: ResourceKind, namespace: str | None, listed: set[ObjectPlace], version: int
    ) -> Sequence[Object]:
        """Takes a list that is as of ``version``: objects that it does not show are gone. Returns the objects that
        went."""
        with self._lock:
            gone = [
                place
                for place, kept in self._kept[kind.name].items()
                if namespace in {None, place.namespace} and place not in listed and kept.version <= version
            ]
            documents = [_document(self._kept[kind.name][place]) for place in gone]
            for place in gone:
                self._drop(kind, place)
        return documents

    def _drop(self, kind: ResourceKind, place: ObjectPlace) -> None:
        known = self._kept[kind.name].pop(place, None)
        for label in () if known is None else known.labels:
            key = (kind.name, place.namespace, label)
            self._names[key].discard(place.name)
            if not self._names[key]:
                del self._names[key]

    def _labels_of(self, metadata: Object) -> Iterable[str]:
        labels = metadata.get("labels") or {}
        return (f"{name}={labels[name]}" for name in self._lookups if name in labels)


def _document(kept: _Kept) -> Object:
    found: Object = msgspec.json.decode(kept.data)
    return found


def _slim(document: Object) -> Object:
    entries = document["metadata"].get("managedFields") or ()
    mine = [each for each in entries if each.get("manager") == FIELD_MANAGER and each.get("operation") == "Apply"]
    return {**document, "metadata": {**document["metadata"], "managedFields": mine}}


def _bare(document: Object) -> Object:
    """Returns only the fields that say which object it is, and whether it has changed."""
    return {"metadata": {name: document["metadata"].get(name) for name in _OF_VERSION}}

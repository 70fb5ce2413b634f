"""An API server in memory, as far as the operator's client goes: for tests of what the operator sends and does not."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from streamsapp_operator.kube import ApiError, Client, Conflict, Gone, Object, ResourceKind
from streamsapp_operator.kube.kinds import kind_of


class MemoryApi(Client):
    """Keeps objects by kind and name; every call is written down, and can be made to fail."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        #: ``verb Kind/name`` of every call that could change something.
        self.calls: list[str] = []
        #: Asked before each call: the error that it shall fail with.
        self.fails: Callable[[str], ApiError | None] = lambda call: None
        self.learned = lambda document: None
        self._versions = itertools.count(1)

    def put(self, document: Object) -> Object:
        """As another client would."""
        found = copy.deepcopy(document)
        found.setdefault("status", {})
        found["metadata"] = {"namespace": "ns", "uid": "u", "generation": 1} | found["metadata"]
        found["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[found["kind"], found["metadata"]["name"]] = found
        return found

    def get(
        self, kind: ResourceKind, namespace: str, name: str, *, metadata_only: bool = False, timeout: float = 0
    ) -> Object | None:
        self._may_fail(f"get {kind.name}/{name}")
        return copy.deepcopy(self.objects.get((kind.name, name)))

    def list(
        self,
        kind: ResourceKind,
        namespace: str | None,
        labels: str | None = None,
        *,
        metadata_only: bool = False,
        fields: str | None = None,
        most: int | None = None,
    ) -> list[Object]:
        self._may_fail(f"list {kind.name}")
        wanted = dict([labels.split("=")]) if labels and "=" in labels else {}
        found = [it for (name, _), it in self.objects.items() if name == kind.name]
        labelled = [it for it in found if wanted.items() <= (it["metadata"].get("labels") or {}).items()]
        return copy.deepcopy(labelled[:most])

    def create(self, document: Object, timeout: float = 0) -> Object:
        self._called("create", document)
        if (document["kind"], document["metadata"]["name"]) in self.objects:
            raise Conflict("exists")
        return self.put(_held(document, "streamsapp-operator"))

    def replace(self, document: Object, timeout: float = 0) -> Object:
        self._called("replace", document)
        self._check_uid(document)
        return self.put(_held(document, "streamsapp-operator"))

    def try_replace(self, document: Object) -> Object:
        live = self.objects[document["kind"], document["metadata"]["name"]]["metadata"]
        kept = {key: live[key] for key in ("uid", "managedFields") if key in live}
        return {**document, "metadata": {**document["metadata"], **kept}}

    def apply(self, document: Object) -> Object:
        self._called("apply", document)
        self._check_uid(document)
        fields = {"f": json.dumps(document, sort_keys=True)}
        managed = [{"manager": "streamsapp-operator", "operation": "Apply", "fieldsV1": fields}]
        return self.put({**document, "metadata": {**document["metadata"], "managedFields": managed}})

    def merge(self, kind: ResourceKind, namespace: str, name: str, changes: Object) -> Object:
        self._may_fail(f"merge {kind.name}/{name}")
        found = self.objects.get((kind.name, name))
        if found is None:
            raise Gone("not there")
        return self.put(_merged(found, changes))

    def write_status(self, document: Object, status: Object, known: Object | None = None) -> Object:
        self._called("status", document)
        kind, name = kind_of(document), document["metadata"]["name"]
        found = self.objects[kind.name, name]
        if found["metadata"]["resourceVersion"] != document["metadata"]["resourceVersion"]:
            raise Conflict("changed")
        return self.put({**found, "status": status})

    def evict(self, namespace: str, pod: str, uid: str, resource_version: str | None = None) -> None:
        self._may_fail(f"evict Pod/{pod}")
        self.objects.pop(("Pod", pod), None)

    def delete(self, kind: ResourceKind, namespace: str, name: str, *, dependents_first: bool = False) -> None:
        self._may_fail(f"delete {kind.name}/{name}")
        self.objects.pop((kind.name, name), None)

    def list_events(self) -> Sequence[Object]:
        """All events."""
        return [it for (kind, _), it in self.objects.items() if kind == "Event"]

    def written(self) -> Sequence[str]:
        """The calls since the last time this was asked."""
        calls, self.calls = self.calls, []
        return calls

    def _check_uid(self, document: Object) -> None:
        """A document with a uid is for the object that has it."""
        uid, live = document["metadata"].get("uid"), self.objects.get((document["kind"], document["metadata"]["name"]))
        if uid is not None and (live is None or live["metadata"]["uid"] != uid):
            raise Conflict("Precondition failed: UID in precondition")

    def _called(self, verb: str, document: Object) -> None:
        self._may_fail(f"{verb} {document['kind']}/{document['metadata']['name']}")

    def _may_fail(self, call: str) -> None:
        if not call.startswith(("get", "list")):
            self.calls.append(call)
        error = self.fails(call)
        if error is not None:
            raise error


def _held(document: Object, manager: str) -> Object:
    """With who wrote its owners, as the API server remembers it."""
    owners: Object = {f'k:{{"uid":"{it["uid"]}"}}': {} for it in document["metadata"].get("ownerReferences", ())}
    fields = {"f:metadata": {"f:ownerReferences": owners}}
    managed = [{"manager": manager, "operation": "Update", "fieldsV1": fields}]
    return {**document, "metadata": {**document["metadata"], "managedFields": managed}}


def _merged(base: Any, changes: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    return {**base, **{key: _merged(base.get(key), value) for key, value in changes.items()}}

"""Sends children to the API server, unless they are so already.

One writer for each application, called on the thread of its loop. A hash in its annotation says what a child should be;
the fields that the API server says are still ours show whether another writer changed it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from streamsapp_operator.kube import Client, Conflict, Gone, Object, Rejected
from streamsapp_operator.kube.client import FIELD_MANAGER
from streamsapp_operator.kube.kinds import SECRET, STATEFUL_SET, annotation, kind_of
from streamsapp_operator.observe.observer import APPLIED, is_owned
from streamsapp_operator.steady_clock import SteadyClock

#: Secrets are never read, so a deleted one is not missed: each is written again after so many seconds.
SECRET_SECONDS = 300.0


class NameTakenError(Rejected):
    """Raised if another owner's object has the name of a child."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A Secret as it was written last: the hash of its content, and when."""

    uid: str
    digest: str
    at: float


class ChildWriter:
    """Writes the children of one application."""

    def __init__(self, client: Client, clock: SteadyClock, uid: str) -> None:
        self._client = client
        self._clock = clock
        self._uid = uid
        #: ``Kind/name`` → which of its fields were ours when it was written. Empty at first: each child is sent once.
        self._ours: dict[str, str] = {}
        self._secrets: dict[str, _Sent] = {}

    def send_all(
        self, documents: Iterable[Object], children: dict[str, Object], still_good: Callable[[], bool] = lambda: True
    ) -> None:
        """Sends all in order; ``children`` are the live ones, and learn what they became. ``still_good`` is asked right
        before a StatefulSet is written: the others may have taken a while."""
        for document in documents:
            self.send(document, children, still_good)

    def send(
        self, document: Object, children: dict[str, Object], still_good: Callable[[], bool] = lambda: True
    ) -> None:
        """Sends one child, unless it is so already."""
        digest = hash_of(document)
        if document["kind"] == SECRET.name:
            self._send_secret(document, digest)
            return
        key = f"{document['kind']}/{document['metadata']['name']}"
        live = children.get(key)
        if live is not None and annotation(live, APPLIED) == digest and self._ours.get(key) == ours(live):
            return
        uid = self._uid_of_ours(document, live)
        if document["kind"] == STATEFUL_SET.name and not still_good():
            raise Conflict(f"the observations for {key} are too old by now")
        written = self._client.apply(with_uid(annotated(document, digest), uid))
        children[key] = written
        self._ours[key] = ours(written)

    def _uid_of_ours(self, document: Object, live: Object | None) -> str | None:
        """Returns the uid of the child as it is, ``None`` if there is none: a document that is written with it is
        written to nothing else."""
        metadata = document["metadata"]
        if live is None:
            kind = kind_of(document)
            live = self._client.get(kind, metadata["namespace"], metadata["name"], metadata_only=True)
        if live is not None and not is_owned(live, self._uid):
            raise _taken(document)
        return None if live is None else str(live["metadata"]["uid"])

    def _send_secret(self, document: Object, digest: str) -> None:
        name, now = document["metadata"]["name"], self._clock.now()
        known = self._secrets.get(name)
        if known is not None and known.digest == digest and now - known.at < SECRET_SECONDS:
            return
        self._secrets[name] = _Sent(self._write_secret(document, known), digest, now)

    def _write_secret(self, document: Object, known: _Sent | None) -> str:
        """Writes the Secret, and returns its uid."""
        if known is not None:
            try:
                self._client.replace(with_uid(document, known.uid))
            except (Conflict, Gone):
                pass  # it was deleted, and may have another owner by now
            else:
                return known.uid
        try:
            return str(self._client.create(document)["metadata"]["uid"])
        except Conflict:
            uid = self._uid_of_our_secret(document)
            self._client.replace(with_uid(document, uid))
            return uid

    def _uid_of_our_secret(self, document: Object) -> str:
        """Returns the uid of the Secret that is there, which may not be read. A dry run of a write shows who owned it
        before: the API server answers with the owner of each field beside the document that was sent."""
        answer = self._client.try_replace(document)
        owner = f'k:{{"uid":"{self._uid}"}}'
        if not any(owner in fields.get("f:metadata", {}).get("f:ownerReferences", {}) for fields in _held(answer)):
            raise _taken(document)
        return str(answer["metadata"]["uid"])


def hash_of(document: Object) -> str:
    """Returns the hash of what a child should be."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


def annotated(document: Object, digest: str) -> Object:
    metadata = document["metadata"]
    annotations = {**(metadata.get("annotations") or {}), APPLIED: digest}
    return {**document, "metadata": {**metadata, "annotations": annotations}}


def with_uid(document: Object, uid: str | None) -> Object:
    """Returns a document that is written to the object with this uid, and to no other that has its name."""
    return document if uid is None else {**document, "metadata": {**document["metadata"], "uid": uid}}


def _taken(document: Object) -> NameTakenError:
    kind, name = document["kind"], document["metadata"]["name"]
    return NameTakenError(
        f"there is a {kind} {name!r} already that does not belong to this StreamsApp: "
        "delete it or choose another metadata.name (one of a StreamsApp that was just deleted goes by itself)"
    )


def _held(live: Object) -> list[Object]:
    """Returns the fields that this operator wrote, as the API server has them."""
    entries = live["metadata"].get("managedFields") or ()
    return [it.get("fieldsV1") or {} for it in entries if it.get("manager") == FIELD_MANAGER]


def ours(live: Object) -> str:
    """Returns the fields that server-side apply holds for us. Another writer's change takes a field away from us."""
    entries = live["metadata"].get("managedFields") or ()
    mine = [it.get("fieldsV1") for it in entries if it["manager"] == FIELD_MANAGER and it["operation"] == "Apply"]
    return json.dumps(mine, sort_keys=True)

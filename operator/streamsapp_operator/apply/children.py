"""Sends children to the API server, where they are not so already.

One writer for each application, called on the thread of its loop. What a child should be is known by the hash in its
annotation; that somebody else changed it, by the fields that the API server says are still ours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from streamsapp_operator.kube import Client, Conflict, Object, Rejected
from streamsapp_operator.kube.client import FIELD_MANAGER
from streamsapp_operator.kube.kinds import SECRET, annotation, kind_of
from streamsapp_operator.observe.look import APPLIED, is_owned
from streamsapp_operator.times import SteadyClock

#: Secrets are never read, so one that was deleted is not missed: each is written again after so many seconds.
SECRET_SECONDS = 300.0


class NameTakenError(Rejected):
    """An object of somebody else has the name of a child."""


class ChildWriter:
    """Writes the children of one application."""

    def __init__(self, client: Client, clock: SteadyClock, uid: str) -> None:
        self._client = client
        self._clock = clock
        self._uid = uid
        #: ``Kind/name`` → which of its fields were ours when it was written. Empty at first: each child is sent once.
        self._ours: dict[str, str] = {}
        #: Secret → hash of its content, and when it was written.
        self._secrets: dict[str, tuple[str, float]] = {}

    def send_all(self, documents: Iterable[Object], children: dict[str, Object]) -> None:
        """In order; ``children`` are the live ones, and learn what they became."""
        for document in documents:
            self.send(document, children)

    def send(self, document: Object, children: dict[str, Object]) -> None:
        """One child, if it is not so already."""
        digest = hash_of(document)
        if document["kind"] == SECRET.name:
            self._send_secret(document, digest)
            return
        key = f"{document['kind']}/{document['metadata']['name']}"
        live = children.get(key)
        if live is not None and annotation(live, APPLIED) == digest and self._ours.get(key) == ours(live):
            return
        self._check_owner(document, live)
        written = self._client.apply(annotated(document, digest))
        children[key] = written
        self._ours[key] = ours(written)

    def _check_owner(self, document: Object, live: Object | None) -> None:
        metadata = document["metadata"]
        if live is None:
            kind = kind_of(document)
            live = self._client.get(kind, metadata["namespace"], metadata["name"], metadata_only=True)
        if live is not None and not is_owned(live, self._uid):
            raise NameTakenError(
                f"there is a {document['kind']} {metadata['name']!r} already that does not belong to this StreamsApp: "
                "delete it or choose another metadata.name (one of a StreamsApp that was just deleted goes by itself)"
            )

    def _send_secret(self, document: Object, digest: str) -> None:
        name, now = document["metadata"]["name"], self._clock.now()
        written, at = self._secrets.get(name, ("", 0.0))
        if written == digest and now - at < SECRET_SECONDS:
            return
        try:
            self._client.create(document)
        except Conflict:
            self._client.replace(document)
        self._secrets[name] = (digest, now)


def hash_of(document: Object) -> str:
    """Of what a child should be."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


def annotated(document: Object, digest: str) -> Object:
    metadata = document["metadata"]
    annotations = {**(metadata.get("annotations") or {}), APPLIED: digest}
    return {**document, "metadata": {**metadata, "annotations": annotations}}


def ours(live: Object) -> str:
    """Which fields server-side apply holds for us. Somebody else's change takes a field away from us."""
    entries = live["metadata"].get("managedFields") or ()
    mine = [it.get("fieldsV1") for it in entries if it["manager"] == FIELD_MANAGER and it["operation"] == "Apply"]
    return json.dumps(mine, sort_keys=True)

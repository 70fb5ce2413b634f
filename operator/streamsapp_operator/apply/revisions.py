"""Finds the content of a revision: the one that the spec asks for, or an earlier one by its ConfigMap.

One for each application, called on the thread of its loop.
"""

from __future__ import annotations

from streamsapp_operator.children import Revision, recorded_revision
from streamsapp_operator.children.names import Owner, config_map_name
from streamsapp_operator.kube import Client
from streamsapp_operator.kube.kinds import CONFIG_MAP
from streamsapp_operator.observe.observer import is_owned
from streamsapp_operator.spec_rendering import RenderedSpec


class Revisions:
    """Reads revisions; they never change, so each is read once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._read: dict[str, Revision] = {}

    def find(self, revision: str, spec: RenderedSpec) -> Revision | None:
        """Returns the revision, or ``None`` if its ConfigMap is gone and it is not the one that the spec asks for."""
        if spec.revision is not None and spec.revision.id == revision:
            return spec.revision
        if revision not in self._read:
            found = self.recorded(spec.owner, revision)
            if found is None:
                return None
            # Two matter at a time: the running one, and the one that it may go back to.
            self._read = {key: self._read[key] for key in list(self._read)[-2:]} | {revision: found}
        return self._read[revision]

    def recorded(self, owner: Owner, revision: str) -> Revision | None:
        """Returns an earlier revision of the application by its ConfigMap; ``None`` if that is gone."""
        found = self._client.get(CONFIG_MAP, owner.namespace, config_map_name(owner.name, revision))
        return None if found is None or not is_owned(found, owner.uid) else recorded_revision(found)

"""Builds the StatefulSet. It makes pods, and takes none away for a new template: the gate decides which pod goes when.
Pure."""

from __future__ import annotations

from typing import Any

from streamsapp_operator.children.names import Owner, selector
from streamsapp_operator.children.revision import Revision


def stateful_set(owner: Owner, revision: Revision, replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": owner.metadata(owner.name),
        "spec": {
            "replicas": replicas,
            "serviceName": owner.name,
            "selector": {"matchLabels": selector(owner.name)},
            "updateStrategy": {"type": "OnDelete"},
            # All at once: no pod waits for the state of another.
            "podManagementPolicy": "Parallel",
            # Revisions are ours; one of the StatefulSet's own is what it needs.
            "revisionHistoryLimit": 1,
            "template": revision.template,
        },
    }

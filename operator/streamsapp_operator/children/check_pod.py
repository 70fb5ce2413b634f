"""The pod that loads the user's topology before any pod of the application is touched. Pure.

It is a pod of the application in all that can go wrong (image, secrets, security, limits) and runs
``streamsapp check``, whose report is its termination message.
"""

from __future__ import annotations

from typing import Any

from streamsapp.manifest.quantity import parse_quantity
from streamsapp_operator.children.names import (
    CONTAINER,
    OWN_PREFIXES,
    RESTARTED_AT,
    Owner,
    check_labels,
    check_pod_name,
)
from streamsapp_operator.children.pod_template import MANIFEST_PATH, REPORT_PATH
from streamsapp_operator.children.revision import Revision

#: A check that is forgotten ends by itself.
_DEADLINE_SECONDS = 600
#: What loading a topology needs: a full pod's share may not be free while all of them run.
_REQUESTS = {"cpu": "50m", "memory": "128Mi"}
#: Limits of what can be overcommitted; devices are left to the pods that use them.
_LIMITS = ("cpu", "memory", "ephemeral-storage")
#: Of the pod, what spreads pods or takes devices.
_NOT_FOR_ONE = ("topologySpreadConstraints", "resourceClaims")
#: Of its container.
_NOT_CHECKED = ("startupProbe", "livenessProbe", "readinessProbe", "lifecycle", "ports")


def check_pod(owner: Owner, revision: Revision) -> dict[str, Any]:
    template = revision.template
    given = template["metadata"]
    labels = {key: value for key, value in given["labels"].items() if not key.startswith(OWN_PREFIXES)}
    labels |= check_labels(owner.name, revision.id)
    metadata = owner.metadata(check_pod_name(owner.name, revision.id), labels)
    metadata["annotations"] = {key: text for key, text in given["annotations"].items() if key != RESTARTED_AT}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(template["spec"])}


def _spec(pod: dict[str, Any]) -> dict[str, Any]:
    """Without the user's other containers, with which it would never end."""
    runtime = next(container for container in pod["containers"] if container["name"] == CONTAINER)
    # It may run beside the application's pods, however these are kept apart.
    affinity = {kind: terms for kind, terms in (pod.get("affinity") or {}).items() if kind != "podAntiAffinity"}
    return {name: value for name, value in pod.items() if name not in _NOT_FOR_ONE} | {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": _DEADLINE_SECONDS,
        "affinity": affinity,
        "containers": [_container(runtime)],
    }


def _container(runtime: dict[str, Any]) -> dict[str, Any]:
    resources = runtime.get("resources", {})
    limits = {name: quantity for name, quantity in resources.get("limits", {}).items() if name in _LIMITS}
    requests = {name: _least(quantity, limits.get(name, quantity)) for name, quantity in _REQUESTS.items()}
    return {name: value for name, value in runtime.items() if name not in _NOT_CHECKED} | {
        "args": ["check", "-f", MANIFEST_PATH, "--report", REPORT_PATH],
        "resources": {"requests": requests} | ({"limits": limits} if limits else {}),
    }


def _least(request: str, limit: str) -> str:
    """A request above its limit would be refused."""
    return min(request, limit, key=lambda quantity: parse_quantity(quantity) or 0)

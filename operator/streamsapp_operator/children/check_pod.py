"""Builds the pod that loads the user's topology before any pod of the application is touched. Pure.

It is a pod of the application in all that can go wrong (image, secrets, security, limits) and runs
``streamsapp check``, whose report is its termination message.
"""

from __future__ import annotations

from typing import Any

from streamsapp_operator.children.names import Owner, check_labels, check_pod_name
from streamsapp_operator.children.pod_template import MANIFEST_PATH, REPORT_PATH
from streamsapp_operator.children.revision import Revision
from streamsapp_operator.children.run_to_completion import requests_within, run_to_completion, runtime_container

#: A check that is forgotten ends by itself.
_DEADLINE_SECONDS = 600
#: The resources that loading a topology needs: a full pod's share may not be free while all of them run.
_REQUESTS = {"cpu": "50m", "memory": "128Mi"}
#: Limits of what can be overcommitted; devices are left to the pods that use them.
_LIMITS = ("cpu", "memory", "ephemeral-storage")


def check_pod(owner: Owner, revision: Revision) -> dict[str, Any]:
    template = revision.template
    changes = {
        "args": ["check", "-f", MANIFEST_PATH, "--report", REPORT_PATH],
        "resources": _resources(runtime_container(template).get("resources", {})),
    }
    pod = run_to_completion(template, check_labels(owner.name, revision.id), changes)
    metadata = owner.metadata(check_pod_name(owner.name, revision.id)) | pod["metadata"]
    spec = pod["spec"] | {"activeDeadlineSeconds": _DEADLINE_SECONDS}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _resources(given: dict[str, Any]) -> dict[str, Any]:
    limits = {name: quantity for name, quantity in given.get("limits", {}).items() if name in _LIMITS}
    return {"requests": requests_within(_REQUESTS, limits)} | ({"limits": limits} if limits else {})

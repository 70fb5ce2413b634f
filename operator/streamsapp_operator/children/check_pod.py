"""Builds the pod that loads the user's topology before any pod of the application is touched. Pure.

It is a pod of the application in all that can go wrong (image, secrets, security, limits) and runs
``streamsapp check``, whose report is its termination message.
"""

from __future__ import annotations

from typing import Any

from streamsapp_operator.children.names import Owner, check_labels, check_pod_name
from streamsapp_operator.children.pod_template import MANIFEST_PATH, REPORT_PATH
from streamsapp_operator.children.revision import Revision
from streamsapp_operator.children.run_to_completion import run_to_completion, small_share

#: A check that is forgotten ends by itself.
_DEADLINE_SECONDS = 600


def check_pod(owner: Owner, revision: Revision) -> dict[str, Any]:
    template = revision.template
    changes = {
        "args": ["check", "-f", MANIFEST_PATH, "--report", REPORT_PATH],
        "resources": small_share(template),
    }
    pod = run_to_completion(template, check_labels(owner.name, revision.id), changes)
    metadata = owner.metadata(check_pod_name(owner.name, revision.id)) | pod["metadata"]
    spec = pod["spec"] | {"activeDeadlineSeconds": _DEADLINE_SECONDS}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

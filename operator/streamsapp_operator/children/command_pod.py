"""Builds the pod in which a user's command runs beside an application: ``kubectl streamsapp produce``, say. Pure.

It is a pod of the application in image, manifest, code, secrets and security, and does nothing by itself: the plugin
starts the command in it, and deletes it. One that is forgotten ends by itself, and with the application.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamsapp_operator.children.names import Owner, command_labels
from streamsapp_operator.children.run_to_completion import run_to_completion, small_share

#: The seconds that a command may take.
DEADLINE_SECONDS = 3600
#: A program that sleeps has nothing to end.
_GRACE_SECONDS = 1


def template_of(stateful_set: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the pod template of the application's StatefulSet as the API server has it, which leaves empty fields
    out."""
    given = stateful_set["spec"]["template"]
    return {"metadata": {"annotations": {}, **given["metadata"]}, "spec": given["spec"]}


def command_pod(owner: Owner, template: dict[str, Any], name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the pod; ``changes`` are fields of its container that are not as those of the application's."""
    own = {
        # Every image of an application has Python; it need not have a shell.
        "command": ["python3", "-c", f"import time; time.sleep({DEADLINE_SECONDS})"],
        "args": [],
        "resources": small_share(template),
        **changes,
    }
    labels = command_labels(owner.name)
    pod = run_to_completion(template, labels, own)
    spec = pod["spec"] | {
        "activeDeadlineSeconds": DEADLINE_SECONDS,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
    }
    metadata = owner.metadata(name, labels) | pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

"""Builds the Job that makes state of history before an application's first pods start. Pure.

Its pod is one of the application's in secrets, security, code and place, in an image with Spark, and runs ``streamsapp
bootstrap``. What that has to say when it fails is its termination message.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from streamsapp.errors import ManifestError
from streamsapp.manifest.history_end import until_text
from streamsapp.manifest.model import BootstrapSpec, Quantities
from streamsapp.manifest.quantity import parse_quantity
from streamsapp_operator.children.names import ATTEMPT, CONTAINER, Owner, bootstrap_job_name, bootstrap_labels
from streamsapp_operator.children.pod_template import MANIFEST_PATH, REPORT_PATH, STATE_DIR
from streamsapp_operator.children.revision import Revision
from streamsapp_operator.children.run_to_completion import requests_within, run_to_completion, runtime_container
from streamsapp_operator.children.settings import RenderSettings

#: A lost node or a full one is no reason to give up; what is finished is not done again.
_RETRIES = 3
#: The command says so when trying again would end the same.
_WRONG_INPUT = 2
#: Where nothing is asked for: enough for the scheduler to find a place that is not full.
_REQUESTS = {"cpu": "500m", "memory": "1Gi"}
_DIGITS = 10


def bootstrap_job(
    owner: Owner, bootstrap: BootstrapSpec, revision: Revision, settings: RenderSettings
) -> dict[str, Any]:
    """Builds the Job; raises ``ManifestError`` if no image is known."""
    image = bootstrap.image or settings.spark_image
    if image is None:
        fault = "is required, as this operator was given no image with Spark; name one"
        raise ManifestError([f"spec.bootstrap.image: {fault}"])
    labels = bootstrap_labels(owner.name, revision.id)
    spec = {
        "backoffLimit": _RETRIES,
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [_WRONG_INPUT]},
                }
            ]
        },
        "template": _pod(bootstrap, revision.template, labels, image),
    }
    metadata = owner.metadata(bootstrap_job_name(owner.name), labels) | {"annotations": {ATTEMPT: _hash(spec)}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def attempt_of(job: dict[str, Any]) -> str:
    """Returns a hash of everything that the Job is made of."""
    return str(job["metadata"]["annotations"][ATTEMPT])


def _pod(bootstrap: BootstrapSpec, template: dict[str, Any], labels: dict[str, str], image: str) -> dict[str, Any]:
    resources = _resources(bootstrap.resources)
    arguments = {
        "-f": MANIFEST_PATH,
        "--until": until_text(bootstrap.until),
        "--master": f"local[{_cores(resources)}]",
        "--report": REPORT_PATH,
    }
    environment = [each for each in runtime_container(template)["env"] if each["name"] not in _ENVIRONMENT]
    changes = {
        "image": image,
        "args": ["bootstrap", *(part for argument in arguments.items() for part in argument)],
        "env": [*environment, *({"name": name, "value": value} for name, value in _ENVIRONMENT.items())],
        "resources": resources,
    }
    pod = run_to_completion(template, labels, changes)
    size = bootstrap.resources.limits.get("ephemeral-storage")
    state = {"name": "state", "emptyDir": {} if size is None else {"sizeLimit": str(size)}}
    pod["spec"]["volumes"] = [state if each["name"] == "state" else each for each in pod["spec"]["volumes"]]
    return pod


#: Stores and shuffles are as large as history is: they lie in the folder that has a limit.
_ENVIRONMENT = {"TMPDIR": STATE_DIR, "SPARK_LOCAL_DIRS": STATE_DIR}


def _resources(asked: Quantities) -> dict[str, Any]:
    limits = {name: str(quantity) for name, quantity in asked.limits.items()}
    requests = {name: str(quantity) for name, quantity in asked.requests.items()}
    requests = requests_within(_REQUESTS, limits) | requests
    return {"requests": requests} | ({"limits": limits} if limits else {})


def _cores(resources: dict[str, dict[str, str]]) -> int:
    """Returns the number of cores. Each takes its part of memory: so it is not that of the node, where there is no
    limit."""
    given = resources["requests"] | resources.get("limits", {})
    return max(1, int(parse_quantity(given["cpu"]) or 0))


def _hash(spec: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode("utf-8")).hexdigest()[:_DIGITS]

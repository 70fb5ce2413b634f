"""Builds the pods and the Jobs that run a command with Spark and end: history, previews. Pure.

Called by ``bootstrap_job``, ``preview_job`` and the plugin's ``preview``. Such a pod is one of the application's in
secrets, security, code and place, in an image with Spark, whose driver and executors are one process each. Its result
is its container's termination message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamsapp.manifest.model import Quantities
from streamsapp.manifest.quantity import parse_quantity
from streamsapp_operator.children.names import ATTEMPT, CONTAINER, Owner
from streamsapp_operator.children.pod_template import REPORT_PATH, STATE_DIR
from streamsapp_operator.children.run_to_completion import requests_within, run_to_completion, runtime_container

#: A lost node or a full one is no reason to give up; finished work is not done again.
_RETRIES = 3
#: The command says so when trying again would end the same.
_WRONG_INPUT = 2
#: If nothing is asked for: enough for the scheduler to find a place that is not full.
_REQUESTS = {"cpu": "500m", "memory": "1Gi"}
#: Stores and shuffles are as large as history is: they lie in the folder that has a limit.
_ENVIRONMENT = {"TMPDIR": STATE_DIR, "SPARK_LOCAL_DIRS": STATE_DIR}


def job_spec(pod: dict[str, Any], deadline_seconds: int | None = None) -> dict[str, Any]:
    """Returns the spec of a Job that has this pod; it has failed when it has not ended by its deadline."""
    wrong_input = {"containerName": CONTAINER, "operator": "In", "values": [_WRONG_INPUT]}
    return ({} if deadline_seconds is None else {"activeDeadlineSeconds": deadline_seconds}) | {
        "backoffLimit": _RETRIES,
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": wrong_input}]},
        "template": pod,
    }


def job(owner: Owner, name: str, attempt: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Returns the Job; its pod has its labels."""
    labels = spec["template"]["metadata"]["labels"]
    metadata = owner.metadata(name, labels) | {"annotations": {ATTEMPT: attempt}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def attempt_of(made: dict[str, Any]) -> str:
    """Returns the value that distinguishes one attempt from another."""
    return str(made["metadata"]["annotations"][ATTEMPT])


def spark_pod(
    template: dict[str, Any], labels: dict[str, str], image: str, asked: Quantities, command: Sequence[str]
) -> dict[str, Any]:
    """Returns the template of a pod that runs a command of ``streamsapp`` with so much of a machine."""
    arguments = {"args": [*command, "--master", local_master(asked), "--report", REPORT_PATH]}
    changes = spark_container(template, image, asked) | arguments
    pod = run_to_completion(template, labels, changes)
    size = asked.limits.get("ephemeral-storage")
    state = {"name": "state", "emptyDir": {} if size is None else {"sizeLimit": str(size)}}
    pod["spec"]["volumes"] = [state if each["name"] == "state" else each for each in pod["spec"]["volumes"]]
    return pod


def spark_container(template: dict[str, Any], image: str, asked: Quantities) -> dict[str, Any]:
    """Returns the fields of the runtime's container in which it differs where it runs Spark."""
    environment = [each for each in runtime_container(template)["env"] if each["name"] not in _ENVIRONMENT]
    return {
        "image": image,
        "env": [*environment, *({"name": name, "value": value} for name, value in _ENVIRONMENT.items())],
        "resources": _resources(asked),
    }


def local_master(asked: Quantities) -> str:
    """Returns the master of a pod that has so much. Each core takes its part of memory: so it is not as many as the
    node has, where there is no limit."""
    resources = _resources(asked)
    given = resources["requests"] | resources.get("limits", {})
    return f"local[{max(1, int(parse_quantity(given['cpu']) or 0))}]"


def _resources(asked: Quantities) -> dict[str, Any]:
    limits = {name: str(quantity) for name, quantity in asked.limits.items()}
    requests = {name: str(quantity) for name, quantity in asked.requests.items()}
    requests = requests_within(_REQUESTS, limits) | requests
    return {"requests": requests} | ({"limits": limits} if limits else {})

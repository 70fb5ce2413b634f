"""Builds a pod that does one thing and ends, as like the application's pods as can be: in its image, secrets, security
and place. Pure; ``check_pod``, ``command_pod`` and ``bootstrap_job`` build theirs of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamsapp.manifest.quantity import parse_quantity
from streamsapp_operator.children.names import CONTAINER, OWN_PREFIXES, RESTARTED_AT, SPARK_WORD_VARIABLE

#: Of the pod, what spreads pods or takes devices.
_NOT_FOR_ONE = ("topologySpreadConstraints", "resourceClaims")
#: Of its container. With ``engine: spark`` it has a command, which is Spark's.
_NOT_WATCHED = ("command", "startupProbe", "livenessProbe", "readinessProbe", "lifecycle", "ports")

#: The resources of a pod that loads a topology and little more: a full pod's share may not be free while all of them
#: run.
_SMALL = {"cpu": "50m", "memory": "128Mi"}
#: Limits of what can be overcommitted; devices are left to the pods that use them.
_LIMITS = ("cpu", "memory", "ephemeral-storage")


def run_to_completion(
    template: dict[str, Any], labels: Mapping[str, str], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the template of such a pod, made of the application's. ``changes`` are fields of its container."""
    given = template["metadata"]
    kept = {key: value for key, value in given["labels"].items() if not key.startswith(OWN_PREFIXES)}
    annotations = {key: text for key, text in given["annotations"].items() if key != RESTARTED_AT}
    return {
        "metadata": {"labels": {**kept, **labels}, "annotations": annotations},
        "spec": _spec(template["spec"], changes),
    }


def runtime_container(template: dict[str, Any]) -> dict[str, Any]:
    """Returns the container that runs the application, without the word of Spark's pods: it talks to none of them, and
    may start before the Secret has it."""
    found: dict[str, Any] = next(each for each in template["spec"]["containers"] if each["name"] == CONTAINER)
    return found | {"env": [each for each in found["env"] if each["name"] != SPARK_WORD_VARIABLE]}


def small_share(template: dict[str, Any]) -> dict[str, Any]:
    """Returns the resources of a pod that takes no application's place, within the limits of the application's pods."""
    given: dict[str, Any] = runtime_container(template).get("resources") or {}
    limits = {name: quantity for name, quantity in (given.get("limits") or {}).items() if name in _LIMITS}
    return {"requests": requests_within(_SMALL, limits)} | ({"limits": limits} if limits else {})


def requests_within(requests: Mapping[str, str], limits: Mapping[str, Any]) -> dict[str, str]:
    """Returns requests that are not above the limits: such a pod would be refused."""
    return {name: _least(quantity, str(limits.get(name, quantity))) for name, quantity in requests.items()}


def _spec(pod: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the pod's spec without the user's other containers, with which the pod would never end."""
    runtime = runtime_container({"spec": pod})
    # It may run beside the application's pods, however these are kept apart.
    affinity = {kind: terms for kind, terms in (pod.get("affinity") or {}).items() if kind != "podAntiAffinity"}
    container = {name: value for name, value in runtime.items() if name not in _NOT_WATCHED}
    return {name: value for name, value in pod.items() if name not in _NOT_FOR_ONE} | {
        "restartPolicy": "Never",
        "affinity": affinity,
        "containers": [{**container, **changes}],
    }


def _least(request: str, limit: str) -> str:
    return min(request, limit, key=lambda quantity: parse_quantity(quantity) or 0)

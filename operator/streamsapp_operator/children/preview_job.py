"""Builds the Job that runs two revisions over the same input, on copies of the same state. Pure.

Called by the runner of actions. Its pod runs ``streamsapp preview``, with the credentials of the application's pods.
Each revision's manifest and code lie in a folder of their own there: modules of both may have the same names.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from streamsapp.manifest.model import PreviewSpec
from streamsapp_operator.children.config_map import MANIFEST_KEY
from streamsapp_operator.children.names import Owner, preview_job_name, preview_labels
from streamsapp_operator.children.revision import Revision
from streamsapp_operator.children.spark_job import job, job_spec, spark_pod

_FOLDER = "/etc/streamsapp"
_TODAY, _TOMORROW = "today", "tomorrow"
#: Volumes of a pod that runs one revision.
_OF_ONE = ("manifest", "code")
_DIGITS = 10


def preview_hash(asked: PreviewSpec, image: str) -> str:
    """Returns a hash of everything in which two previews of a revision may differ: a Job that does not run for want of
    an image, of memory or of time, may run with another one, or with more."""
    made_of = (image, asked.records, asked.deadline_seconds, asked.resources)
    return hashlib.sha256(msgspec.json.encode(made_of, order="deterministic")).hexdigest()[:_DIGITS]


def preview_job(
    owner: Owner, asked: PreviewSpec, today: Revision, tomorrow: Revision, image: str, attempt: str
) -> dict[str, Any]:
    """Builds the Job; ``attempt`` distinguishes one from another."""
    paths = {name: f"{_FOLDER}/{name}/{MANIFEST_KEY}" for name in (_TODAY, _TOMORROW)}
    command = ["preview", "-f", paths[_TOMORROW], "--against", paths[_TODAY], "--records", str(asked.records)]
    pod = spark_pod(tomorrow.template, preview_labels(owner.name, tomorrow.id), image, asked.resources, command)
    spec = with_programs(pod["spec"], today.template, tomorrow.template)
    return job(owner, preview_job_name(owner.name), attempt, job_spec(pod | {"spec": spec}, asked.deadline_seconds))


def with_programs(pod: dict[str, Any], today: dict[str, Any], tomorrow: dict[str, Any]) -> dict[str, Any]:
    """Returns the spec of the pod with the manifests and the code of two templates, instead of those of one."""
    programs = [_program(_TODAY, today), _program(_TOMORROW, tomorrow)]
    volumes = [*(each for each in pod["volumes"] if each["name"] not in _OF_ONE), *programs]
    mounts = [{"name": name, "mountPath": f"{_FOLDER}/{name}", "readOnly": True} for name in (_TODAY, _TOMORROW)]
    (runtime,) = pod["containers"]
    others = [each for each in runtime["volumeMounts"] if each["name"] not in _OF_ONE]
    return pod | {"volumes": volumes, "containers": [runtime | {"volumeMounts": [*others, *mounts]}]}


def _program(name: str, template: dict[str, Any]) -> dict[str, Any]:
    """Returns the volume that has a revision's files side by side."""
    maps = [each["configMap"] for each in template["spec"]["volumes"] if each["name"] in _OF_ONE]
    items = [item for each in maps for item in each["items"]]
    return {"name": name, "configMap": {"name": maps[0]["name"], "items": items}}

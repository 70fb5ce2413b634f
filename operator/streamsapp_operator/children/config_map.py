"""Builds the immutable ConfigMap of a revision, which the application's pods read: pods of an old revision that come
back during a rollout find their own.

Called by ``revision``; pure. The pod template lies in it too, though no pod mounts it: so a revision is whole, and
going back to one needs nothing but its ConfigMap.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from streamsapp.manifest.model import Spec, StreamsApp
from streamsapp_operator.children.user_code import CodeFiles, key_of

MANIFEST_KEY = "streamsapp.yaml"
TEMPLATE_KEY = "pod-template.json"
#: Of the driver, and how many cores an executor has; only with ``engine: spark``.
DRIVER_KEY = "driver.json"
#: Of ``spec.spark.schedule``: when runs begin, and their pods.
SCHEDULE_KEY = "schedule.json"

#: Keys and values together, by the API server.
_MAX_BYTES = 1 << 20
_MAX_KEY = 253
#: The bytes that the template may need of it.
_RESERVE = 64 << 10


def manifest_text(app: StreamsApp) -> str:
    """Returns the manifest as a pod reads it: without fields that are no pod's business, so that changing those
    restarts none."""
    nothing = Spec(topology=app.spec.topology)
    spec = msgspec.structs.replace(
        app.spec,
        kafka=msgspec.structs.replace(app.spec.kafka, restart_on_change=nothing.kafka.restart_on_change),
        replicas=nothing.replicas,
        autoscaling=nothing.autoscaling,
        bootstrap=nothing.bootstrap,
        spark=msgspec.structs.replace(app.spec.spark, image=None, deadline_seconds=nothing.spark.deadline_seconds),
        rollout=nothing.rollout,
        image=nothing.image,
        code=nothing.code,
        pod_template=nothing.pod_template,
    )
    document = {
        "apiVersion": app.api_version,
        "kind": app.kind,
        "metadata": {"name": app.metadata.name},
        "spec": _said(spec),
    }
    return yaml.safe_dump(document, allow_unicode=True, sort_keys=False)


def _said(part: msgspec.Struct) -> dict[str, Any]:
    """Returns the fields that differ from the defaults. The API server fills in the fields that a file leaves out, and
    a server that knows a new field fills in its default, too. None of that is a new revision."""
    said = {}
    for field in msgspec.structs.fields(part):
        value = getattr(part, field.name)
        if value != (field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()):
            said[field.encode_name] = [_part(each) for each in value] if isinstance(value, list) else _part(value)
    return said


def _part(value: Any) -> Any:
    return _said(value) if isinstance(value, msgspec.Struct) else value


def text_files(files: CodeFiles) -> dict[str, str]:
    return {key_of(path): content for path, content in files.items() if isinstance(content, str)}


def binary_files(files: CodeFiles) -> dict[str, str]:
    return {
        key_of(path): base64.b64encode(content).decode("ascii")
        for path, content in files.items()
        if isinstance(content, bytes)
    }


def size_faults(files: CodeFiles) -> Iterator[str]:
    """Returns a fault for each file that does not fit into a ConfigMap."""
    for path in files:
        if len(key_of(path)) > _MAX_KEY:
            yield f"spec.code: the path {path!r} is too long for a key of a ConfigMap; shorten it"
    size = sum(map(_size, files.values()))
    if size > _MAX_BYTES - _RESERVE:
        yield (
            f"spec.code: the files have {size} bytes together, and a ConfigMap takes {_MAX_BYTES - _RESERVE}; "
            "put the code into the image"
        )


def _size(content: str | bytes) -> int:
    return len(content if isinstance(content, bytes) else content.encode("utf-8"))

"""Refuses parts of ``spec.podTemplate`` that would change what operator, gate and runtime rely on. Pure.

Each fault names the field and what to do instead. The other parts are merged, and then held against the restricted
Pod Security Standard.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from streamsapp.declared.faults import faults_of
from streamsapp.manifest.model import StreamsApp
from streamsapp.manifest.settings import NODE_ZONE
from streamsapp.structs import converted
from streamsapp_operator.children.names import CONTAINER, OWN_PREFIXES, PORT, service_account_name
from streamsapp_operator.children.pod_spec import Container, PodMetadata, PodSpec, PodTemplate, Volume

FIELD = "spec.podTemplate"

_OWN = "belongs to the operator; remove it"
_WITHOUT_LOGIN = "pods of an application carry no token of the API server; remove it"
_POD_FIELDS = {
    "automountServiceAccountToken": _WITHOUT_LOGIN,
    "enableServiceLinks": _OWN,
    "ephemeralContainers": "cannot be part of a template; use kubectl debug",
    "hostname": "pods are named by their StatefulSet; remove it",
    "restartPolicy": "pods of a StatefulSet are always restarted; remove it",
    "subdomain": "pods are named by their StatefulSet; remove it",
}
_CONTAINER_FIELDS = {
    "args": _OWN,
    "command": _OWN,
    "image": "set spec.image instead",
    "readinessProbe": "rolling restarts rely on it; remove it",
    "resources": "set spec.resources instead",
    "terminationMessagePath": _OWN,
    "terminationMessagePolicy": _OWN,
    "workingDir": _OWN,
}
_ENVIRONMENT = ("POD_IP", NODE_ZONE)
_VOLUMES = ("state", "tmp", "manifest", "code", "http-token", "kafka", "remote-state", "today", "tomorrow")
#: The sources of a projected volume that may be: no token of the API server, no certificate that logs a pod in.
_SOURCES = frozenset({"clusterTrustBundle", "configMap", "downwardAPI", "secret"})
_FOLDERS = ("/etc/streamsapp", "/var/lib/streamsapp", "/tmp", "/var/run/secrets/streamsapp.dev")  # noqa: S108


def override_faults(app: StreamsApp) -> list[str]:
    """Returns one line for each part that the template of ``app`` may not have."""
    document = app.spec.pod_template
    wrong_shapes = faults_of(document, PodTemplate, FIELD)
    if wrong_shapes:
        return wrong_shapes
    template = converted(document, PodTemplate)
    return [
        *_metadata_faults(template.metadata or PodMetadata()),
        *_pod_faults(template.spec or PodSpec(), document.get("spec") or {}, service_account_name(app.metadata.name)),
    ]


def _metadata_faults(metadata: PodMetadata) -> Iterator[str]:
    for field, given in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        for key in given or {}:
            if key.startswith(OWN_PREFIXES):
                yield f"{FIELD}.metadata.{field}.{key}: {_OWN}"


def _pod_faults(pod: PodSpec, document: dict[str, Any], own_account: str) -> Iterator[str]:
    path = f"{FIELD}.spec"
    for field, remedy in _POD_FIELDS.items():
        if field in document:
            yield f"{path}.{field}: {remedy}"
    if pod.service_account_name == own_account:
        yield f"{path}.serviceAccountName: {own_account!r} is the account that the operator makes; choose another name"
    for volume, fields in zip(pod.volumes or (), document.get("volumes") or (), strict=True):
        yield from _volume_faults(volume, fields, f"{path}.volumes[{volume.name}]")
    for container in (*(pod.init_containers or ()), *(pod.containers or ())):
        for mount in container.volume_mounts or ():
            if ".." in PurePosixPath(mount.mount_path).parts:
                where = f"{path}...[{container.name}].volumeMounts[{mount.mount_path}]"
                yield f"{where}: '..' may lead anywhere; write the folder itself"
    for container, fields in zip(pod.containers or (), document.get("containers") or (), strict=True):
        where = f"{path}.containers[{container.name}]"
        if container.name == CONTAINER:
            yield from _runtime_faults(container, fields, where)
        for port in container.ports or ():
            if port.container_port == PORT or port.name == "http":
                yield f"{where}.ports[{port.container_port}]: {PORT} and the name 'http' are the runtime's; remove it"


def _volume_faults(volume: Volume, document: dict[str, Any], where: str) -> Iterator[str]:
    if volume.name in _VOLUMES:
        yield f"{where}: this name {_OWN}, or rename it"
    kinds = [kind for kind, given in document.items() if kind != "name" and given is not None]
    if len(kinds) > 1:
        yield f"{where}: is of {len(kinds)} kinds, {', '.join(kinds)}; a volume has one: remove the others"
    for source in (volume.projected.sources if volume.projected else None) or ():
        for kind, given in source.items():
            if given is not None and kind not in _SOURCES:
                yield f"{where}.projected: {_WITHOUT_LOGIN} ({kind})"


def _runtime_faults(container: Container, document: dict[str, Any], where: str) -> Iterator[str]:
    for field, remedy in _CONTAINER_FIELDS.items():
        if field in document:
            yield f"{where}.{field}: {remedy}"
    for variable in container.env or ():
        if variable.name in _ENVIRONMENT:
            yield f"{where}.env[{variable.name}]: {_OWN}"
    for mount in container.volume_mounts or ():
        if _is_ours(PurePosixPath(mount.mount_path)):
            yield f"{where}.volumeMounts[{mount.mount_path}]: the runtime's own files lie there; mount it elsewhere"


def _is_ours(path: PurePosixPath) -> bool:
    """Says whether the path lies in a folder of ours, or would hide one."""
    folders = [PurePosixPath(folder) for folder in _FOLDERS]
    return any(path.is_relative_to(folder) or folder.is_relative_to(path) for folder in folders)

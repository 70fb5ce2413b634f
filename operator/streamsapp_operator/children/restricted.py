"""The restricted Pod Security Standard: what pods are given, and what a changed template still has to keep.

Called by ``pod_template``; pure. A namespace that enforces the standard refuses the pod only when it is made: here a
fault is told before anything is touched, by the field that causes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from streamsapp_operator.children.overrides import FIELD
from streamsapp_operator.children.pod_shape import Capabilities, Container, PodSpec, SeccompProfile, SecurityContext

_USER = 65532
_CAPABILITIES = frozenset({"NET_BIND_SERVICE"})
_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_STANDARD = "pods of an application keep to the restricted Pod Security Standard"

POD_SECURITY: dict[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "fsGroup": _USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def restricted_faults(document: dict[str, Any]) -> Iterator[str]:
    """One line for each field of a pod's spec that breaks the standard."""
    pod = msgspec.convert(document, PodSpec)
    path = f"{FIELD}.spec"
    for name, given in (("hostNetwork", pod.host_network), ("hostPID", pod.host_pid), ("hostIPC", pod.host_ipc)):
        if given:
            yield f"{path}.{name}: {_STANDARD}; remove it"
    for volume in document["volumes"]:
        if not _VOLUMES & {kind for kind, given in volume.items() if given is not None}:
            yield f"{path}.volumes[{volume['name']}]: {_STANDARD}; use one of {', '.join(sorted(_VOLUMES))}"
    security = pod.security_context or SecurityContext()
    yield from _identity_faults(security, f"{path}.securityContext")
    for kind, containers in (("initContainers", pod.init_containers), ("containers", pod.containers)):
        for container in containers or ():
            yield from _container_faults(container, f"{path}.{kind}[{container.name}]")


def _identity_faults(security: SecurityContext, where: str, *, inherits: bool = False) -> Iterator[str]:
    if security.run_as_non_root is not True and not (inherits and security.run_as_non_root is None):
        yield f"{where}.runAsNonRoot: {_STANDARD}; it must be true"
    if security.run_as_user == 0:
        yield f"{where}.runAsUser: {_STANDARD}; take any user but 0"
    profile = security.seccomp_profile or SeccompProfile()
    if profile.type not in ("RuntimeDefault", "Localhost") and not (inherits and profile.type is None):
        yield f"{where}.seccompProfile: {_STANDARD}; its type must be RuntimeDefault or Localhost"
    if security.windows_options is not None:
        yield f"{where}.windowsOptions: pods of an application run on Linux; remove it"


def _container_faults(container: Container, path: str) -> Iterator[str]:
    security = container.security_context or SecurityContext()
    where = f"{path}.securityContext"
    yield from _identity_faults(security, where, inherits=True)
    if security.privileged:
        yield f"{where}.privileged: {_STANDARD}; remove it"
    if security.allow_privilege_escalation is not False:
        yield f"{where}.allowPrivilegeEscalation: {_STANDARD}; it must be false"
    if security.proc_mount not in (None, "Default"):
        yield f"{where}.procMount: {_STANDARD}; remove it"
    capabilities = security.capabilities or Capabilities()
    if "ALL" not in (capabilities.drop or ()) or not _CAPABILITIES.issuperset(capabilities.add or ()):
        yield f"{where}.capabilities: {_STANDARD}; drop ALL and add nothing but NET_BIND_SERVICE"
    for port in container.ports or ():
        if port.host_port:
            yield f"{path}.ports[{port.container_port}].hostPort: {_STANDARD}; remove it"

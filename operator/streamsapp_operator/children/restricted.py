"""Applies the restricted Pod Security Standard: what pods are given, and what a changed template still has to keep.

Called by ``pod_template``; pure. A namespace that enforces the standard refuses the pod only when it is made: here a
fault is reported before anything is touched, by the field that causes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamsapp.structs import converted
from streamsapp_operator.children.overrides import FIELD
from streamsapp_operator.children.pod_spec import (
    AppArmorProfile,
    Capabilities,
    Container,
    ContainerLifecycle,
    PodSpec,
    ProbeHandler,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
)

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
#: The ones that are safe by themselves, as Kubernetes 1.32 has them.
_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
#: Annotations by which containers had their AppArmor profile before there was a field for it.
_ARMOR_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_STANDARD = "pods of an application keep to the restricted Pod Security Standard"

#: For a pod whose user the cluster chooses, and for a pod with the images' own user.
POD_SECURITY: dict[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
FIXED_USER: dict[str, Any] = {"runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER}
CONTAINER_SECURITY: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def restricted_faults(document: dict[str, Any]) -> Iterator[str]:
    """Returns one line for each field of a pod's spec that breaks the standard."""
    pod = converted(document, PodSpec)
    path = f"{FIELD}.spec"
    for name, given in (("hostNetwork", pod.host_network), ("hostPID", pod.host_pid), ("hostIPC", pod.host_ipc)):
        if given:
            yield f"{path}.{name}: {_STANDARD}; remove it"
    for volume in document["volumes"]:
        if not _VOLUMES & {kind for kind, given in volume.items() if given is not None}:
            yield f"{path}.volumes[{volume['name']}]: {_STANDARD}; use one of {', '.join(sorted(_VOLUMES))}"
    security = pod.security_context or SecurityContext()
    yield from _identity_faults(security, f"{path}.securityContext")
    for sysctl in security.sysctls or ():
        if sysctl.name not in _SYSCTLS:
            yield f"{path}.securityContext.sysctls[{sysctl.name}]: {_STANDARD}; remove it"
    for kind, containers in (("initContainers", pod.init_containers), ("containers", pod.containers)):
        for container in containers or ():
            yield from _container_faults(container, f"{path}.{kind}[{container.name}]")


def armor_faults(annotations: Mapping[str, str]) -> Iterator[str]:
    """Returns one line for each annotation of a pod that takes a container's AppArmor profile away."""
    for key, profile in annotations.items():
        if key.startswith(_ARMOR_PREFIX) and profile not in ("", "runtime/default") and profile[:10] != "localhost/":
            yield f"{FIELD}.metadata.annotations.{key}: {_STANDARD}; remove it"


def _handlers(container: Container) -> Iterator[tuple[str, ProbeHandler]]:
    """Yields a container's probes and hooks, by the name of their field."""
    hooks = container.lifecycle or ContainerLifecycle()
    found = {
        "startupProbe": container.startup_probe,
        "livenessProbe": container.liveness_probe,
        "readinessProbe": container.readiness_probe,
        "lifecycle.postStart": hooks.post_start,
        "lifecycle.preStop": hooks.pre_stop,
    }
    return ((name, handler) for name, handler in found.items() if handler is not None)


def _identity_faults(security: SecurityContext, where: str, *, inherits: bool = False) -> Iterator[str]:
    if security.run_as_non_root is not True and not (inherits and security.run_as_non_root is None):
        yield f"{where}.runAsNonRoot: {_STANDARD}; it must be true"
    if security.run_as_user == 0:
        yield f"{where}.runAsUser: {_STANDARD}; take any user but 0"
    profile = security.seccomp_profile or SeccompProfile()
    if profile.type not in ("RuntimeDefault", "Localhost") and not (inherits and profile.type is None):
        yield f"{where}.seccompProfile: {_STANDARD}; its type must be RuntimeDefault or Localhost"
    armor, linux = security.app_armor_profile or AppArmorProfile(), security.se_linux_options or SELinuxOptions()
    if armor.type not in (None, "RuntimeDefault", "Localhost"):
        yield f"{where}.appArmorProfile: {_STANDARD}; its type must be RuntimeDefault or Localhost"
    if linux.user or linux.role or (linux.type or "") not in _SELINUX_TYPES:
        yield f"{where}.seLinuxOptions: {_STANDARD}; no user, no role, and a type that containers have; remove it"
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
    for name, handler in _handlers(container):
        for kind, target in (("httpGet", handler.http_get), ("tcpSocket", handler.tcp_socket)):
            if target is not None and target.host:
                yield f"{path}.{name}.{kind}.host: {_STANDARD}; remove it, so that it is the pod itself"
    for port in container.ports or ():
        if port.host_port:
            yield f"{path}.ports[{port.container_port}].hostPort: {_STANDARD}; remove it"

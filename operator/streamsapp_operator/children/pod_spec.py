"""The parts of a pod template that are looked at before it is used, as plain data; the rest is the API server's.

Read by ``overrides`` and ``restricted``. ``null`` means absent, as it does to Kubernetes.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, field

from streamsapp.manifest.types import Text

#: A pod needs a while to hand its work over, and the interpreter to end; more than an int32 is no time.
GraceSeconds: TypeAlias = Annotated[int, Meta(ge=10, le=(1 << 31) - 1)]


class _Part(Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of all parts; fields that are not listed are let pass."""


class Capabilities(_Part, frozen=True, kw_only=True):
    add: list[str] | None = None
    drop: list[str] | None = None


class SeccompProfile(_Part, frozen=True, kw_only=True):
    type: str | None = None


class AppArmorProfile(_Part, frozen=True, kw_only=True):
    type: str | None = None


class SELinuxOptions(_Part, frozen=True, kw_only=True):
    type: str | None = None
    user: str | None = None
    role: str | None = None


class NamedItem(_Part, frozen=True, kw_only=True):
    name: Text


class SecurityContext(_Part, frozen=True, kw_only=True):
    """The security context of a pod or of a container; fields that only one of them has are absent from the other."""

    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_options: SELinuxOptions | None = None
    sysctls: list[NamedItem] | None = None
    privileged: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    capabilities: Capabilities | None = None
    windows_options: dict[str, Any] | None = None


class ProbeTarget(_Part, frozen=True, kw_only=True):
    """The target of a probe or a hook."""

    host: str | None = None


class ProbeHandler(_Part, frozen=True, kw_only=True):
    """A probe, or a hook of a container's life."""

    http_get: ProbeTarget | None = None
    tcp_socket: ProbeTarget | None = None


class ContainerLifecycle(_Part, frozen=True, kw_only=True):
    post_start: ProbeHandler | None = None
    pre_stop: ProbeHandler | None = None


class Projected(_Part, frozen=True, kw_only=True):
    #: Each has one field, named by its kind.
    sources: list[dict[str, Any]] | None = None


class Volume(NamedItem, frozen=True, kw_only=True):
    projected: Projected | None = None


class ContainerPort(_Part, frozen=True, kw_only=True):
    container_port: int
    name: str | None = None
    host_port: int | None = None


class VolumeMount(_Part, frozen=True, kw_only=True):
    mount_path: Text


class SpreadConstraint(_Part, frozen=True, kw_only=True):
    topology_key: Text


class Container(_Part, frozen=True, kw_only=True):
    name: Text
    env: list[NamedItem] | None = None
    ports: list[ContainerPort] | None = None
    volume_mounts: list[VolumeMount] | None = None
    security_context: SecurityContext | None = None
    startup_probe: ProbeHandler | None = None
    liveness_probe: ProbeHandler | None = None
    readiness_probe: ProbeHandler | None = None
    lifecycle: ContainerLifecycle | None = None


class PodSpec(_Part, frozen=True, kw_only=True):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    affinity: dict[str, Any] | None = None
    image_pull_secrets: list[NamedItem] | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    security_context: SecurityContext | None = None
    service_account_name: Text | None = None
    termination_grace_period_seconds: GraceSeconds | None = None
    host_network: bool | None = None
    host_pid: bool | None = field(default=None, name="hostPID")
    host_ipc: bool | None = field(default=None, name="hostIPC")


class PodMetadata(_Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodTemplate(_Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``spec.podTemplate``, or the template it was merged into."""

    metadata: PodMetadata | None = None
    spec: PodSpec | None = None

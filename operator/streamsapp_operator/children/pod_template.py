"""Builds the pod of an application: one container that runs ``streamsapp run``, restricted, with everything that its
manifest names.

Called by ``revision``; pure. ``spec.podTemplate`` is merged over it, as far as ``overrides`` lets it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from streamsapp.errors import ManifestError
from streamsapp.manifest.model import StreamsApp
from streamsapp.manifest.mounts import (
    CODE_DIR,
    HTTP_TOKEN_FILE,
    KAFKA_FOLDER,
    REMOTE_STATE_FOLDER,
    SECRETS_DIR,
    SINKS_FOLDER,
)
from streamsapp.manifest.settings import NODE_ZONE
from streamsapp.structs import converted
from streamsapp_operator.children.config_map import MANIFEST_KEY
from streamsapp_operator.children.merge import merged
from streamsapp_operator.children.names import (
    CONTAINER,
    PORT,
    RESTARTED_AT,
    REVISION_LABEL,
    config_map_name,
    http_secret_name,
    own_labels,
    selector,
    service_account_name,
)
from streamsapp_operator.children.overrides import override_faults
from streamsapp_operator.children.pod_spec import PodSpec, PodTemplate
from streamsapp_operator.children.restricted import (
    CONTAINER_SECURITY,
    FIXED_USER,
    POD_SECURITY,
    armor_faults,
    restricted_faults,
)
from streamsapp_operator.children.settings import RenderSettings
from streamsapp_operator.children.user_code import key_of

MANIFEST_DIR = "/etc/streamsapp/app"
MANIFEST_PATH = f"{MANIFEST_DIR}/{MANIFEST_KEY}"
STATE_DIR = "/var/lib/streamsapp"
#: Of nodes, and of pods where Kubernetes copies it to them.
ZONE_LABEL = "topology.kubernetes.io/zone"
REPORT_PATH = "/dev/termination-log"
DEFAULT_GRACE_SECONDS = 60
_NO_IMAGE = {
    "threads": "spec.image: is required, as this operator was given no image of its own; name one",
    "spark": "spec.spark.image: is required, as this operator was given no image with Spark; name one",
}
#: The part of the grace period that the interpreter has left to end after it has drained.
_ENDING_SECONDS = 5


def pod_template(app: StreamsApp, settings: RenderSettings, code: Collection[str], revision: str) -> dict[str, Any]:
    """Returns the template of the application's StatefulSet; raises ``ManifestError`` for fields that
    ``spec.podTemplate`` may not have.

    ``code`` are the paths of the user's files, which lie in the ConfigMap of ``revision``.
    """
    faults, image = override_faults(app), _image(app, settings)
    if image is None:
        faults.append(_NO_IMAGE[app.spec.engine])
    if faults:
        raise ManifestError(faults)
    template = merged(_template(app, settings, image, code, revision), app.spec.pod_template)
    spec = template["spec"]
    for kind in {"initContainers", "containers"} & spec.keys():
        spec[kind] = [_secured(container) for container in spec[kind]]
    faults = [*armor_faults(template["metadata"]["annotations"]), *restricted_faults(spec)]
    if faults:
        raise ManifestError(faults)
    return template


def _image(app: StreamsApp, settings: RenderSettings) -> str | None:
    if app.spec.engine == "spark":
        return app.spec.spark.image or settings.spark_image
    return app.spec.image or settings.runtime_image


def _template(
    app: StreamsApp, settings: RenderSettings, image: str | None, code: Collection[str], revision: str
) -> dict[str, Any]:
    name = app.metadata.name
    restarted_at = app.metadata.annotations.get(RESTARTED_AT)
    asked = converted(app.spec.pod_template, PodTemplate).spec or PodSpec()
    grace = asked.termination_grace_period_seconds or DEFAULT_GRACE_SECONDS
    volumes = [*_writable(app), *_mounted(app, code, revision)]
    return {
        "metadata": {
            "labels": own_labels(name) | {REVISION_LABEL: revision},
            "annotations": {RESTARTED_AT: restarted_at} if restarted_at else {},
        },
        "spec": {
            "serviceAccountName": service_account_name(name),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            # The first process of a pod is then Kubernetes' own. As the first process, an interpreter that has not set
            # its handlers yet would be deaf to SIGTERM. The pod would end only with its grace period.
            "shareProcessNamespace": True,
            "terminationGracePeriodSeconds": grace,
            "securityContext": POD_SECURITY | (FIXED_USER if settings.fixed_user else {}),
            "topologySpreadConstraints": [_spread(name, over) for over in ("kubernetes.io/hostname", ZONE_LABEL)],
            "containers": [_container(app, settings, image, grace, volumes)],
            "volumes": [volume for volume, _ in volumes],
        }
        | _pull_secrets(settings),
    }


def _pull_secrets(settings: RenderSettings) -> dict[str, Any]:
    names = [{"name": each} for each in settings.image_pull_secrets]
    return {"imagePullSecrets": names} if names else {}


def _container(
    app: StreamsApp, settings: RenderSettings, image: str | None, grace: int, volumes: list[tuple[dict[str, Any], str]]
) -> dict[str, Any]:
    arguments = {
        "-f": MANIFEST_PATH,
        "--state-dir": STATE_DIR,
        "--shutdown-timeout": str(grace - _ENDING_SECONDS),
        "--application-server": f"$(POD_IP):{PORT}",
    }
    return {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": settings.image_pull_policy,
        "args": ["run", *(part for argument in arguments.items() for part in argument)],
        "env": [_of_pod("POD_IP", "status.podIP"), _of_pod(NODE_ZONE, f"metadata.labels['{ZONE_LABEL}']")],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "resources": _resources(app),
        "securityContext": CONTAINER_SECURITY | {"readOnlyRootFilesystem": True},
        # Two minutes for the user's imports. Afterwards a pod that lives is not killed lightly: its state is with it.
        "startupProbe": _probe("/healthz", every=1, failures=120),
        "livenessProbe": _probe("/healthz", every=10, failures=6),
        "readinessProbe": _probe("/readyz", every=1, failures=3),
        "terminationMessagePath": REPORT_PATH,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": volume["name"], "mountPath": path, **({} if "emptyDir" in volume else {"readOnly": True})}
            for volume, path in volumes
        ],
    }


def _writable(app: StreamsApp) -> list[tuple[dict[str, Any], str]]:
    limit = app.spec.resources.limits.get("ephemeral-storage")
    state = {} if limit is None else {"sizeLimit": str(limit)}
    return [({"name": "state", "emptyDir": state}, STATE_DIR), ({"name": "tmp", "emptyDir": {}}, "/tmp")]  # noqa: S108


def _mounted(app: StreamsApp, code: Collection[str], revision: str) -> list[tuple[dict[str, Any], str]]:
    """Returns the volumes that are read only, and their mounts."""
    name, spec = app.metadata.name, app.spec
    config_map = config_map_name(name, revision)
    volumes = [(_of_config_map("manifest", config_map, {MANIFEST_KEY: MANIFEST_KEY}), MANIFEST_DIR)]
    if code:
        volumes.append((_of_config_map("code", config_map, {key_of(path): path for path in code}), str(CODE_DIR)))
    volumes.append((_of_secret("http-token", http_secret_name(name)), str(HTTP_TOKEN_FILE.parent)))
    if spec.kafka.secret_ref is not None:
        volumes.append((_of_secret("kafka", spec.kafka.secret_ref.name), str(SECRETS_DIR / KAFKA_FOLDER)))
    if spec.remote_state is not None and spec.remote_state.secret_ref is not None:
        secret = _of_secret("remote-state", spec.remote_state.secret_ref.name)
        volumes.append((secret, str(SECRETS_DIR / REMOTE_STATE_FOLDER)))
    for number, sink in enumerate(spec.spark.sinks):
        if sink.secret_ref is not None:
            secret = _of_secret(f"sink-{number}", sink.secret_ref.name)
            volumes.append((secret, str(SECRETS_DIR / SINKS_FOLDER / sink.name)))
    return volumes


def _of_config_map(name: str, config_map: str, files: dict[str, str]) -> dict[str, Any]:
    items = [{"key": key, "path": path} for key, path in sorted(files.items())]
    return {"name": name, "configMap": {"name": config_map, "items": items}}


def _of_secret(name: str, secret: str) -> dict[str, Any]:
    # Readable by the pod's group only.
    return {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}


def _resources(app: StreamsApp) -> dict[str, Any]:
    resources = app.spec.resources
    groups = {
        "requests": {name: str(quantity) for name, quantity in resources.requests.items()},
        "limits": {name: str(quantity) for name, quantity in resources.limits.items()},
        "claims": list(resources.claims),
    }
    return {name: group for name, group in groups.items() if group}


def _probe(path: str, *, every: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": every,
        "timeoutSeconds": 5 if every > 1 else 2,
        "failureThreshold": failures,
    }


def _of_pod(variable: str, field: str) -> dict[str, Any]:
    """Returns a variable with a field of the pod; a label that the pod does not have is an empty text."""
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def _spread(app: str, over: str) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": over,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(app)},
    }


def _secured(container: dict[str, Any]) -> dict[str, Any]:
    """Returns a user's own container with our restrictions for every field that it leaves out."""
    return container | {"securityContext": merged(CONTAINER_SECURITY, container.get("securityContext") or {})}

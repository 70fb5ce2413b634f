"""Turns a manifest into a ``StreamsConfig``. Called by the command line, on the main thread, before the runtime
starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from streamsapp.config import RemoteStateConfig, StreamsConfig
from streamsapp.config.memory import cgroup_limit
from streamsapp.declared.resolve import Code
from streamsapp.errors import ConfigError, ManifestError
from streamsapp.manifest.model import RemoteStateSpec, StreamsApp
from streamsapp.manifest.mounts import (
    KAFKA_FOLDER,
    REMOTE_STATE_FOLDER,
    SECRETS_DIR,
    client_properties,
    mounted,
    remote_state_files,
)
from streamsapp.manifest.quantity import parse_quantity
from streamsapp.manifest.settings import as_in_the_manifest, settings_of, text
from streamsapp.manifest.types import Reference


def to_config(
    app: StreamsApp, *, code: Code | None = None, secret_dir: Path | None = SECRETS_DIR, **overrides: Any
) -> StreamsConfig:
    """The configuration a manifest asks for; ``overrides`` are fields of ``StreamsConfig`` and win unless ``None``.

    ``code`` is where serdes, handlers and extractors of the user are looked up: without it they are faults.
    ``secret_dir`` is the folder that secrets are mounted in; ``None`` leaves out all that only a pod has.
    """
    spec = app.spec
    settings: dict[str, Any] = (
        settings_of(app, code, in_place=secret_dir is not None)
        | {
            "application_id": app.application_id,
            "bootstrap_servers": spec.kafka.bootstrap_servers,
            "memory_bytes": _memory_bytes(app),
            "client": spec.kafka.client,
            "kafka": _client_properties(app, secret_dir),
            "remote_state": to_remote_state(app, secret_dir=secret_dir),
        }
        # A batch is a transaction, whatever is asked for: its fencing keeps state right. So is what history is read by.
        | ({"processing_guarantee": "exactly_once", "commit_interval_ms": None} if spec.engine == "spark" else {})
        | {name: value for name, value in overrides.items() if value is not None}
    )
    if settings["bootstrap_servers"] is None:
        raise ManifestError(["spec.kafka.bootstrapServers: is required to run; set it or pass --bootstrap-servers"])
    try:
        return StreamsConfig(**{name: value for name, value in settings.items() if value is not None})
    except ConfigError as error:
        raise ManifestError([_named(as_in_the_manifest(str(error)))]) from error


def to_cluster_config(app: StreamsApp) -> StreamsConfig:
    """The configuration of a command that asks Kafka about an application and runs nothing of it: the user's code is
    not needed. Raises ``ManifestError`` where a client could not be made."""
    try:
        return StreamsConfig(
            application_id=app.application_id,
            bootstrap_servers=app.spec.kafka.bootstrap_servers or "",
            client=app.spec.kafka.client,
            kafka=_client_properties(app, SECRETS_DIR),
        )
    except ConfigError as error:
        raise ManifestError([_named(as_in_the_manifest(str(error)))]) from error


def _named(fault: str) -> str:
    """Client properties are not fields of ``StreamsConfig``: what is said of one says where it is set."""
    named = re.sub(r"^kafka property '([^']+)': ", r"spec.kafka.properties.\1: ", fault)
    return named if named.startswith("spec.") else f"spec: {fault}"


def _memory_bytes(app: StreamsApp) -> int | None:
    """The manifest's limit where no control group enforces it; what is enforced is what counts."""
    limit = app.spec.resources.limits.get("memory")
    amount = None if limit is None or cgroup_limit() is not None else parse_quantity(limit)
    return None if amount is None else int(amount)


def _client_properties(app: StreamsApp, secret_dir: Path | None) -> dict[str, str]:
    """The manifest's properties over those of the mounted secret."""
    properties = {key: text(value) for key, value in app.spec.kafka.properties.items()}
    instead = "put the properties into spec.kafka.properties"
    folder = _mounted(app.spec.kafka.secret_ref, "spec.kafka", secret_dir, KAFKA_FOLDER, instead)
    return properties if folder is None else client_properties(folder, properties)


def to_remote_state(app: StreamsApp, *, secret_dir: Path | None = SECRETS_DIR) -> RemoteStateConfig | None:
    """Returns the place of the application's snapshots: neither a broker nor Kafka's secret is needed to know that."""
    state = app.spec.remote_state
    if state is None:
        return None
    instead = "leave secretRef out and set the usual AWS variables"
    folder = _mounted(state.secret_ref, "spec.remoteState", secret_dir, REMOTE_STATE_FOLDER, instead)
    files = {} if folder is None else remote_state_files(folder)
    if folder is not None and not files:
        fault = f"the secret {folder} has neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY nor ca.crt; add them, or"
        raise ManifestError([f"spec.remoteState.secretRef.name: {fault} leave secretRef out"])
    return remote_state_config(state, files)


def remote_state_config(state: RemoteStateSpec, files: dict[str, Path]) -> RemoteStateConfig:
    """Returns the configuration with the files of its secret; a ``ManifestError`` names the field."""
    settings: dict[str, Any] = msgspec.structs.asdict(state) | files
    settings["snapshot_interval"] = float(settings.pop("snapshot_interval_seconds"))
    del settings["secret_ref"]
    try:
        return RemoteStateConfig(**settings)
    except ConfigError as error:
        raise ManifestError([_as_in_remote_state(str(error))]) from error


def _as_in_remote_state(fault: str) -> str:
    """``remote_state.kms_key_id: ...`` is ``spec.remoteState.kmsKeyId: ...``, also where it is the remedy."""
    named = re.sub(r"remote_state\.", "spec.remoteState.", fault)
    names = {field.name: field.encode_name for field in msgspec.structs.fields(RemoteStateSpec)}
    return re.sub(r"[a-z_]+", lambda found: names.get(found[0], found[0]), named)


def _mounted(secret: Reference | None, where: str, secret_dir: Path | None, name: str, instead: str) -> Path | None:
    """The folder of a secret that the manifest refers to."""
    return None if secret is None or secret_dir is None else mounted(secret, where, secret_dir / name, instead)

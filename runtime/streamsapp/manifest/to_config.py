"""Manifest to ``StreamsConfig``. Called by the command line before the runtime starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamsapp.config import StreamsConfig
from streamsapp.config.memory import cgroup_limit
from streamsapp.errors import ConfigError, ManifestError
from streamsapp.manifest.model import StreamsApp
from streamsapp.manifest.mounts import KAFKA_SECRET_DIR, secret_properties
from streamsapp.manifest.quantity import parse_quantity


def to_config(app: StreamsApp, *, secret_dir: Path | None = KAFKA_SECRET_DIR, **overrides: Any) -> StreamsConfig:
    """The configuration a manifest asks for; ``overrides`` are fields of ``StreamsConfig`` and win unless ``None``.

    ``secret_dir`` is where the Kafka secret is mounted; ``None`` leaves the secret out.
    """
    spec = app.spec
    settings: dict[str, Any] = {
        "application_id": app.application_id,
        "bootstrap_servers": spec.kafka.bootstrap_servers,
        "processing_guarantee": spec.processing.guarantee,
        "threads": spec.processing.threads,
        "commit_interval_ms": spec.processing.commit_interval_ms,
        "standby_replicas": spec.processing.standby_replicas,
        "acceptable_recovery_lag": spec.processing.acceptable_recovery_lag,
        "max_warmup_replicas": spec.processing.max_warmup_replicas,
        "memory_bytes": _memory_bytes(app),
        "kafka": _client_properties(app, secret_dir),
    } | {name: value for name, value in overrides.items() if value is not None}
    if settings["bootstrap_servers"] is None:
        raise ManifestError(["spec.kafka.bootstrapServers: is required to run; set it or pass --bootstrap-servers"])
    try:
        return StreamsConfig(**{name: value for name, value in settings.items() if value is not None})
    except ConfigError as error:
        raise ManifestError([f"spec: {error}"]) from error


def _memory_bytes(app: StreamsApp) -> int | None:
    """The manifest's limit where no control group enforces it; what is enforced is what counts."""
    limit = app.spec.resources.limits.get("memory")
    amount = None if limit is None or cgroup_limit() is not None else parse_quantity(limit)
    return None if amount is None else int(amount)


def _client_properties(app: StreamsApp, secret_dir: Path | None) -> dict[str, str]:
    """The manifest's properties over those of the mounted secret."""
    properties = {key: _text(value) for key, value in app.spec.kafka.properties.items()}
    secret = app.spec.kafka.secret_ref
    if secret is None or secret_dir is None:
        return properties
    if not secret_dir.is_dir():
        fault = (
            f"spec.kafka.secretRef.name: the secret {secret.name!r} is not mounted at {secret_dir}; "
            "mount it there, or put the properties into spec.kafka.properties to run outside Kubernetes"
        )
        raise ManifestError([fault])
    return secret_properties(secret_dir) | properties


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

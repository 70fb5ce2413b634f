"""From a manifest to a configuration, with what is mounted beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamsapp.errors import ManifestError
from streamsapp.manifest import StreamsApp, decode, to_config as module
from streamsapp.manifest.to_config import to_config


def app(**spec: Any) -> StreamsApp:
    return decode({
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "wordcount"},
        "spec": {"topology": {"entrypoint": "a:b"}, "kafka": {"bootstrapServers": "kafka:9092"}} | spec,
    })  # fmt: skip


def test_takes_over_what_the_manifest_says() -> None:
    made = to_config(app(processing={"guarantee": "at_least_once", "threads": 4, "commitIntervalMs": 0}))
    assert (made.application_id, made.bootstrap_servers) == ("wordcount", "kafka:9092")
    assert (made.processing_guarantee, made.threads, made.commit_interval_ms) == ("at_least_once", 4, 0)


def test_replicas_are_as_the_manifest_says_and_one_by_default() -> None:
    asked = {"standbyReplicas": 2, "acceptableRecoveryLag": 5, "maxWarmupReplicas": 3}
    made = to_config(app(processing=asked))
    assert (made.standby_replicas, made.acceptable_recovery_lag, made.max_warmup_replicas) == (2, 5, 3)
    assert to_config(app()).standby_replicas == 1


def test_the_command_line_wins_where_it_says_something() -> None:
    made = to_config(app(), bootstrap_servers="localhost:1", state_dir=None)
    assert made.bootstrap_servers == "localhost:1"


def test_a_broker_must_be_named_somewhere() -> None:
    with pytest.raises(ManifestError, match=r"^spec\.kafka\.bootstrapServers: is required"):
        to_config(app(kafka={}))


def test_the_limit_of_the_manifest_counts_where_no_control_group_enforces_one(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = app(resources={"limits": {"memory": "2Gi"}})
    monkeypatch.setattr(module, "cgroup_limit", lambda: None)
    assert to_config(limited).memory_bytes == 2 << 30
    monkeypatch.setattr(module, "cgroup_limit", lambda: 1 << 30)
    assert to_config(limited).memory_bytes != 2 << 30


def test_a_limit_that_is_too_small_is_told_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cgroup_limit", lambda: None)
    with pytest.raises(ManifestError, match="memory_bytes"):
        to_config(app(resources={"limits": {"memory": "1Mi"}}))


def test_a_mounted_secret_gives_properties_and_certificates(tmp_path: Path) -> None:
    (tmp_path / "sasl.password").write_text("p\n")
    (tmp_path / "ca.crt").write_text("PEM")
    (tmp_path / "user.p12").write_text("binary")
    (tmp_path / "..data").mkdir()
    kafka = {
        "bootstrapServers": "k:1",
        "secretRef": {"name": "s"},
        "properties": {"enable.ssl.certificate.verification": True},
    }
    assert dict(to_config(app(kafka=kafka), secret_dir=tmp_path).kafka) == {
        "sasl.password": "p",
        "ssl.ca.location": str(tmp_path / "ca.crt"),
        "enable.ssl.certificate.verification": "true",
    }


def test_a_secret_that_is_not_mounted_is_told_and_not_passed_over(tmp_path: Path) -> None:
    kafka = {"bootstrapServers": "k:1", "secretRef": {"name": "credentials"}}
    with pytest.raises(ManifestError, match="'credentials' is not mounted"):
        to_config(app(kafka=kafka), secret_dir=tmp_path / "none")

"""From a manifest to a configuration, with what is mounted beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from manifests import app
from streamsapp.config import RemoteStateConfig
from streamsapp.errors import ManifestError
from streamsapp.manifest import to_config as module
from streamsapp.manifest.to_config import to_config


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
    with pytest.raises(ManifestError, match=r"^spec\.resources\.limits\.memory: expected an integer ≥"):
        to_config(app(resources={"limits": {"memory": "1Mi"}}))


def test_a_mounted_secret_gives_properties_and_certificates(tmp_path: Path) -> None:
    folder = tmp_path / "kafka"
    folder.mkdir()
    (folder / "sasl.password").write_text("p\n")
    (folder / "ca.crt").write_text("PEM")
    (folder / "user.p12").write_text("binary")
    (folder / "..data").mkdir()
    kafka = {
        "bootstrapServers": "k:1",
        "secretRef": {"name": "s"},
        "properties": {"enable.ssl.certificate.verification": True},
    }
    assert dict(to_config(app(kafka=kafka), secret_dir=tmp_path).kafka) == {
        "sasl.password": "p",
        "ssl.ca.location": str(folder / "ca.crt"),
        "enable.ssl.certificate.verification": "true",
    }


def test_a_secret_that_is_not_mounted_is_told_and_not_passed_over(tmp_path: Path) -> None:
    kafka = {"bootstrapServers": "k:1", "secretRef": {"name": "credentials"}}
    with pytest.raises(ManifestError, match=r"^spec\.kafka\.secretRef\.name: the secret 'credentials' is not mounted"):
        to_config(app(kafka=kafka), secret_dir=tmp_path)


def test_remote_state_is_taken_over(tmp_path: Path) -> None:
    asked = {
        "url": "s3://bucket/prefix",
        "endpoint": "https://minio:9000",
        "region": "eu-north-1",
        "pathStyle": False,
        "serverSideEncryption": "aws:kms",
        "kmsKeyId": "key",
        "snapshotIntervalSeconds": 20,
        "uploadBytesPerSecond": 1_000_000,
        "retain": 5,
        "maxUnusedBytes": 2_000_000_000,
    }
    assert to_config(app(remoteState=asked)).remote_state == RemoteStateConfig(
        url="s3://bucket/prefix",
        endpoint="https://minio:9000",
        region="eu-north-1",
        path_style=False,
        server_side_encryption="aws:kms",
        kms_key_id="key",
        snapshot_interval=20.0,
        upload_bytes_per_second=1_000_000,
        retain=5,
        max_unused_bytes=2_000_000_000,
    )


def test_remote_state_is_off_unless_asked_for_and_leaves_the_rest_to_its_defaults() -> None:
    assert to_config(app()).remote_state is None
    made = to_config(app(remoteState={"url": "s3://bucket/prefix"})).remote_state
    assert made == RemoteStateConfig(url="s3://bucket/prefix")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"], (True, False)),
        (["ca.crt"], (False, True)),
        (["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "ca.crt"], (True, True)),
    ],
)
def test_the_secret_of_remote_state_is_pointed_at_and_never_read(
    tmp_path: Path, files: list[str], expected: tuple[bool, bool]
) -> None:
    folder = tmp_path / "remote-state"
    folder.mkdir()
    for name in files:
        (folder / name).write_text("hush")
    asked = {"url": "s3://bucket/x", "secretRef": {"name": "s3"}}

    config = to_config(app(remoteState=asked), secret_dir=tmp_path)

    made = config.remote_state
    assert made is not None
    assert (made.credentials_dir == folder, made.ca_file == folder / "ca.crt") == expected
    assert "hush" not in repr(config)


def test_a_secret_of_remote_state_that_is_not_mounted_or_empty_is_told(tmp_path: Path) -> None:
    asked = {"url": "s3://bucket/x", "secretRef": {"name": "s3"}}
    with pytest.raises(ManifestError, match=r"^spec\.remoteState\.secretRef\.name: the secret 's3' is not mounted at "):
        to_config(app(remoteState=asked), secret_dir=tmp_path)
    (tmp_path / "remote-state").mkdir()
    with pytest.raises(ManifestError, match=r"^spec\.remoteState\.secretRef\.name: the secret .* has neither "):
        to_config(app(remoteState=asked), secret_dir=tmp_path)
    made = to_config(app(remoteState=asked), secret_dir=None).remote_state
    assert made == RemoteStateConfig(url="s3://bucket/x")


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ({"url": "s3://B/x"}, r"^spec\.remoteState\.url: 'B' is not a bucket name"),
        ({"url": "s3://bucket/x", "endpoint": "minio"}, r"^spec\.remoteState\.endpoint: expected http://host:port"),
        (
            {"url": "s3://bucket/x", "kmsKeyId": "k"},
            r"^spec\.remoteState\.kmsKeyId: is only used with serverSideEncryption 'aws:kms'",
        ),
    ],
)
def test_a_fault_of_remote_state_has_the_path_of_its_field(asked: dict[str, Any], fault: str) -> None:
    with pytest.raises(ManifestError, match=fault):
        to_config(app(remoteState=asked))


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ({"url": "gs://bucket"}, r"spec\.remoteState\.url: expected s3://bucket/prefix or file:///folder"),
        ({}, r"spec\.remoteState\.url: is required"),
        ({"url": "s3://b/x", "retain": 0}, r"spec\.remoteState\.retain: expected an integer ≥ 1, got 0"),
        ({"url": "s3://b/x", "pathStyle": "yes"}, r"spec\.remoteState\.pathStyle: expected true or false"),
        ({"url": "s3://b/x", "secret": "s"}, r"spec\.remoteState\.secret: unknown field; did you mean 'secretRef'"),
        ({"url": "s3://b/x", "serverSideEncryption": "x"}, r"expected 'AES256' or 'aws:kms', got 'x'"),
    ],
)
def test_a_manifest_whose_remote_state_cannot_be_read_is_refused(asked: dict[str, Any], fault: str) -> None:
    with pytest.raises(ManifestError, match=fault):
        app(remoteState=asked)

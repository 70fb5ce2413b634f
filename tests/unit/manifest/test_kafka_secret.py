"""A mounted Secret that changes while a process runs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from streamsapp.manifest import decode
from streamsapp.manifest.kafka_secret import KafkaSecret, mounted_kafka_secret


def mount(folder: Path, version: str, **files: str) -> None:
    """Puts files there as a kubelet does: behind a link that is pointed elsewhere in one step."""
    content = folder / f"..{version}"
    content.mkdir(parents=True)
    for name, text in files.items():
        (content / name.replace("_", ".")).write_text(text)
    link = folder / "..data_tmp"
    link.symlink_to(content.name)
    link.rename(folder / "..data")
    for name in files:
        visible = folder / name.replace("_", ".")
        if not visible.is_symlink():
            visible.symlink_to(Path("..data") / visible.name)


def test_a_login_that_changes_is_a_change_and_the_same_one_again_is_none(tmp_path: Path) -> None:
    mount(tmp_path, "1", sasl_username="anna", sasl_password="one")
    secret = KafkaSecret(tmp_path)
    assert not secret.has_changed()
    mount(tmp_path, "2", sasl_username="anna", sasl_password="two")
    assert secret.has_changed()
    assert not KafkaSecret(tmp_path).has_changed(), "a process that begins now has read it"
    mount(tmp_path, "3", sasl_username="anna", sasl_password="one")
    assert not secret.has_changed()


def test_certificates_are_read_again_without_a_restart_and_a_file_that_is_new_is_not(tmp_path: Path) -> None:
    mount(tmp_path, "1", ca_crt="an authority", tls_crt="a certificate", tls_key="a key")
    secret = KafkaSecret(tmp_path)
    mount(tmp_path, "2", ca_crt="another one", tls_crt="another certificate", tls_key="another key")
    assert not secret.has_changed()
    mount(tmp_path, "3", ca_crt="another one", tls_crt="another certificate", tls_key="another key", sasl_password="x")
    assert secret.has_changed()


def test_content_that_no_process_could_begin_with_is_logged_once_without_its_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mount(tmp_path, "1", sasl_jaas_config='PlainLoginModule required username="anna" password="one";')
    secret = KafkaSecret(tmp_path)
    mount(tmp_path, "2", sasl_jaas_config="hush")
    with caplog.at_level(logging.WARNING):
        assert [secret.has_changed(), secret.has_changed()] == [False, False]
    (line,) = caplog.messages
    assert "sasl.jaas.config is no login" in line
    assert "hush" not in line


def test_only_a_secret_that_the_manifest_names_and_that_is_there_is_looked_at(tmp_path: Path) -> None:
    mount(tmp_path / "kafka", "1", sasl_password="one")
    plain = {"topology": {"entrypoint": "a:b"}, "kafka": {"bootstrapServers": "kafka:9092"}}
    named = plain | {"kafka": {"bootstrapServers": "kafka:9092", "secretRef": {"name": "login"}}}
    head = {"apiVersion": "streamsapp.dev/v1alpha1", "kind": "StreamsApp", "metadata": {"name": "a"}}
    assert mounted_kafka_secret(decode(head | {"spec": plain}), tmp_path) is None
    assert mounted_kafka_secret(decode(head | {"spec": named}), tmp_path / "other") is None
    found = mounted_kafka_secret(decode(head | {"spec": named}), tmp_path)
    assert found is not None
    assert not found.has_changed()

"""Client properties from a mounted secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsapp.errors import ManifestError
from streamsapp.manifest.mounts import client_properties, secret_properties


def test_stores_of_keys_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "sasl.password").write_text("secret\n")
    for name in ("client.keytab", "user.p12", "client.keystore.jks"):
        (tmp_path / name).write_bytes(b"\xff\xfe\0")
    assert secret_properties(tmp_path) == {"sasl.password": "secret"}


def test_another_file_that_is_no_text_is_told_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "ssl.truststore").write_bytes(b"\xff\xfe\0")
    with pytest.raises(ManifestError) as raised:
        secret_properties(tmp_path)
    (line,) = raised.value.faults
    assert line.startswith("spec.kafka.secretRef: the file ssl.truststore is not UTF-8 text")


JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="my-user" password="{}";'


@pytest.mark.parametrize(("written", "password"), [("abc", "abc"), (r"a\"b\\c; d=\"e", r'a"b\c; d="e'), ("", "")])
def test_the_secret_of_a_strimzi_user_with_scram_is_a_login(tmp_path: Path, written: str, password: str) -> None:
    (tmp_path / "password").write_text(password)
    (tmp_path / "sasl.jaas.config").write_text(JAAS.format(written) + "\n")
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "my-user", "sasl.password": password}
    assert secret_properties(tmp_path) == login
    assert client_properties(tmp_path, {"sasl.mechanism": "SCRAM-SHA-256"})["sasl.mechanism"] == "SCRAM-SHA-256"
    assert "sasl.mechanism" not in client_properties(tmp_path, {"sasl.mechanisms": "SCRAM-SHA-256"})


def test_a_login_by_plain_and_files_of_their_own_win(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    (tmp_path / "sasl.jaas.config").write_text(f"{module}\n  required\n  username=anna\n  password='x';")
    (tmp_path / "sasl.username").write_text("berta")
    found = secret_properties(tmp_path)
    assert found == {"sasl.mechanism": "PLAIN", "sasl.username": "berta", "sasl.password": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hush",
        'com.sun.security.auth.module.Krb5LoginModule required keyTab="/hush";',
        'ScramLoginModule required username="hush";',
        'ScramLoginModule required username="a" password="hush',
        'ScramLoginModule required username="a" password="hush"; Other required hush="x";',
        "ScramLoginModule required " + "hush" * 50_000,
    ],
)
def test_another_login_of_java_is_refused_without_its_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "sasl.jaas.config").write_text(text)
    with pytest.raises(ManifestError, match=r"sasl\.jaas\.config is no login by SCRAM or PLAIN") as raised:
        secret_properties(tmp_path)
    assert "hush" not in str(raised.value)


def test_the_authority_of_clients_is_not_taken_for_that_of_brokers(tmp_path: Path) -> None:
    for name in ("ca.crt", "user.crt", "user.key", "user.p12", "user.password"):
        (tmp_path / name).write_text("x")
    with pytest.raises(ManifestError, match=r"authority of clients and not of brokers.*CLUSTER-cluster-ca-cert"):
        client_properties(tmp_path, {"security.protocol": "SSL"})
    found = client_properties(tmp_path, {"ssl.ca.location": "/cluster/ca.crt"})
    assert found == {
        "ssl.ca.location": "/cluster/ca.crt",
        "ssl.certificate.location": str(tmp_path / "user.crt"),
        "ssl.key.location": str(tmp_path / "user.key"),
    }


def test_the_authority_of_other_secrets_is_the_brokers(tmp_path: Path) -> None:
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (tmp_path / name).write_text("x")
    assert client_properties(tmp_path, {})["ssl.ca.location"] == str(tmp_path / "ca.crt")

"""Client properties from a mounted secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsapp.errors import ManifestError
from streamsapp.manifest.mounts import secret_properties


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

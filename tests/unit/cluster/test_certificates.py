"""A cluster's certificates stay the same when it is brought up again, and only their owner reads the keys."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from cluster.pki import Authority


def test_a_login_handed_out_stays_good(tmp_path: Path) -> None:
    first = Authority(tmp_path / "pki").issue("admin", user="admin")
    issued = first.certificate.read_bytes()
    again = Authority(tmp_path / "pki").issue("admin", user="admin")
    assert again.certificate.read_bytes() == issued


def test_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    issued = authority.issue("admin", user="admin")
    kubeconfig = authority.kubeconfig(tmp_path / "kubeconfig", "https://10.0.0.1:6443", issued)
    assert {path.stat().st_mode & 0o777 for path in (authority.key, issued.key, kubeconfig)} == {0o600}


def test_a_kubeconfig_needs_no_other_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    issued = authority.issue("admin", user="admin")
    content = json.loads(authority.kubeconfig(tmp_path / "config", "https://10.0.0.1:6443", issued).read_text())
    user = content["users"][0]["user"]
    assert base64.b64decode(user["client-key-data"]) == issued.key.read_bytes()
    assert base64.b64decode(user["client-certificate-data"]) == issued.certificate.read_bytes()

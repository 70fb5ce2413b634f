"""The certificates of a cluster, by an authority of its own, and the files that log a client in with them.

Called by the node and by the API server of the tests, on the caller's thread. Files that exist are kept, so that
a ``KUBECONFIG`` handed out stays good over restarts.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import NamedTuple

import trustme

#: The group that may do everything: Kubernetes binds it to ``cluster-admin`` itself.
ADMINISTRATORS = "system:masters"


class Certificate(NamedTuple):
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs the certificates of one cluster and keeps them in one folder that only its owner reads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.certificate = folder / "ca.crt"
        self.key = folder / "ca.key"
        if self.key.exists():
            self._authority = trustme.CA.from_pem(self.certificate.read_bytes(), self.key.read_bytes())
        else:
            self._authority = trustme.CA(organization_name="streamsapp", organization_unit_name="cluster")
            self._authority.cert_pem.write_to_path(str(self.certificate))
            _write_secret(self.key, self._authority.private_key_pem)

    def issue(
        self, file_name: str, *, user: str, group: str = "streamsapp", hosts: tuple[str, ...] = ()
    ) -> Certificate:
        """A certificate for a user of the API server, or for a server of these host names and addresses."""
        issued = self.issued(file_name)
        if not issued.key.exists():
            names = hosts or (file_name,)  # a certificate without any name in it is refused
            signed = self._authority.issue_cert(*names, common_name=user, organization_name=group)
            signed.cert_chain_pems[0].write_to_path(str(issued.certificate))
            _write_secret(issued.key, signed.private_key_pem)
        return issued

    def issued(self, file_name: str) -> Certificate:
        """Returns the place of the certificate that was, or will be, issued under this name."""
        return Certificate(self._folder / f"{file_name}.crt", self._folder / f"{file_name}.key")

    def kubeconfig(self, path: Path, server: str, login: Certificate) -> Path:
        """Write the file that clients log in with; it needs no other file."""
        cluster = {"server": server, "certificate-authority-data": _inline(self.certificate)}
        user = {"client-certificate-data": _inline(login.certificate), "client-key-data": _inline(login.key)}
        name = "streamsapp"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")
        return path


def _write_secret(path: Path, content: trustme.Blob) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content.bytes())


def _inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()

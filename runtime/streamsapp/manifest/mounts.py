"""The mount points of the secrets and files that a manifest refers to. The operator mounts them there, and the command
line reads them, on its main thread.

A Kafka secret is a folder of files. A file named like a client property (``sasl.password``) holds its value; files
with the usual names of certificates are pointed at. Remote state's secret holds ``AWS_ACCESS_KEY_ID`` and
``AWS_SECRET_ACCESS_KEY``, perhaps ``AWS_SESSION_TOKEN`` and ``ca.crt``, of which all are pointed at and none is read.
"""

from __future__ import annotations

from pathlib import Path

from streamsapp.errors import ManifestError

CODE_DIR = Path("/etc/streamsapp/code")
SECRETS_DIR = Path("/var/run/secrets/streamsapp.dev")
#: Below the folder of secrets.
KAFKA_FOLDER = "kafka"
REMOTE_STATE_FOLDER = "remote-state"
HTTP_TOKEN_FILE = SECRETS_DIR / "http" / "token"

_CERTIFICATES = {
    "ca.crt": "ssl.ca.location",
    "tls.crt": "ssl.certificate.location",
    "user.crt": "ssl.certificate.location",
    "tls.key": "ssl.key.location",
    "user.key": "ssl.key.location",
}


def secret_properties(folder: Path) -> dict[str, str]:
    """Client properties from a mounted secret. Kubernetes' own ``..data`` links, unknown names, and stores of keys are
    passed over; any other file that is not text is a fault."""
    properties = {}
    for file in sorted(folder.iterdir()):
        if file.name in _CERTIFICATES:
            properties[_CERTIFICATES[file.name]] = str(file)
        elif file.is_file() and "." in file.name and not file.name.startswith(".") and not _is_key_material(file):
            properties[file.name] = _text_of(file)
    return properties


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        fault = f"the file {file.name} is not UTF-8 text, so it is no client property; take it out of the Secret"
        other = "mount it with spec.podTemplate and name its path in spec.kafka.properties"
        raise ManifestError([f"spec.kafka.secretRef: {fault}, or {other}"]) from error


def remote_state_files(folder: Path) -> dict[str, Path]:
    """Fields of ``RemoteStateConfig`` that a mounted secret fills: it may have credentials, an authority, or both."""
    files = {"credentials_dir": folder} if (folder / "AWS_ACCESS_KEY_ID").exists() else {}
    return files | ({"ca_file": folder / "ca.crt"} if (folder / "ca.crt").exists() else {})


def _is_key_material(file: Path) -> bool:
    """Strimzi's secrets carry the same keys in other forms."""
    return file.suffix in {".crt", ".key", ".p12", ".jks", ".keytab"} or file.name in {"user.password", "ca.password"}

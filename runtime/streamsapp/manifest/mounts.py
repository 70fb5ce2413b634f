"""The mount points of the secrets and files that a manifest refers to. The operator mounts them there, and the command
line reads them, on its main thread.

A Kafka secret is a folder of files. A file named like a client property (``sasl.password``) holds its value; files
with the usual names of certificates are pointed at. The Secrets that Strimzi makes for users are such ones, too: the
login of one with SCRAM is in ``sasl.jaas.config``, and ``ca.crt`` of one with TLS is the authority of clients.

Remote state's secret holds ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, perhaps ``AWS_SESSION_TOKEN`` and
``ca.crt``. The pod points at all of them, and none is read.

The secret of a database (``spec.spark.sinks``) holds ``username`` and ``password``, as Kubernetes' own kind of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from streamsapp.errors import ManifestError
from streamsapp.manifest.jaas import login_properties
from streamsapp.manifest.types import Reference

CODE_DIR = Path("/etc/streamsapp/code")
SECRETS_DIR = Path("/var/run/secrets/streamsapp.dev")
#: Below the folder of secrets.
KAFKA_FOLDER = "kafka"
REMOTE_STATE_FOLDER = "remote-state"
#: Folders by the names of sinks.
SINKS_FOLDER = "sinks"
HTTP_TOKEN_FILE = SECRETS_DIR / "http" / "token"

_CERTIFICATES = {
    "ca.crt": "ssl.ca.location",
    "tls.crt": "ssl.certificate.location",
    "user.crt": "ssl.certificate.location",
    "tls.key": "ssl.key.location",
    "user.key": "ssl.key.location",
}


#: The properties that say which authority the brokers' certificates are of.
_AUTHORITIES = frozenset({"ssl.ca.location", "ssl.ca.pem", "ssl.truststore.location"})


def mounted(secret: Reference, where: str, folder: Path, instead: str) -> Path:
    """Returns the folder of a secret. A ``ManifestError`` names ``where`` in the manifest it is, and what to do
    ``instead``."""
    if not folder.is_dir():
        fault = f"{where}.secretRef.name: the secret {secret.name!r} is not mounted at {folder}; mount it there, or"
        raise ManifestError([f"{fault} {instead} to run outside Kubernetes"])
    return folder


def client_properties(folder: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties of a manifest over those of its mounted secret. A ``ManifestError`` says so if a secret's
    ``ca.crt`` is none by which brokers can be known."""
    found = secret_properties(folder)
    if _is_users(folder) and not _AUTHORITIES & (found.keys() | given.keys()):
        raise ManifestError([_whose_authority(folder)])
    mechanism = {"sasl.mechanism"} if "sasl.mechanisms" in given else set()  # librdkafka's name of the same
    return {key: value for key, value in found.items() if key not in mechanism} | dict(given)


def _is_users(folder: Path) -> bool:
    """Says whether this is the Secret of a user of Strimzi with a certificate."""
    return all((folder / name).exists() for name in ("user.crt", "user.key", "ca.crt"))


def _whose_authority(folder: Path) -> str:
    return (
        "spec.kafka.secretRef: it is the Secret of a Strimzi user, whose ca.crt is the authority of clients and not of"
        " brokers. Mount the Secret CLUSTER-cluster-ca-cert with spec.podTemplate and set"
        " spec.kafka.properties.ssl.ca.location to its ca.crt; if one authority signs both, set it to"
        f" {folder / 'ca.crt'}; if a public one signs the brokers' certificates, to probe"
    )


def secret_properties(folder: Path) -> dict[str, str]:
    """Client properties from a mounted secret. Kubernetes' own ``..data`` links, unknown names, and stores of keys are
    passed over; any other file that is not text is a fault. So is a login for Java that is none by SCRAM or PLAIN."""
    properties = {}
    logins: dict[str, str] = {}
    for file in sorted(folder.iterdir()):
        if file.name == "ca.crt" and _is_users(folder):
            continue  # of clients
        if file.name == "sasl.jaas.config":
            logins = login_properties(_text_of(file))
        elif file.name in _CERTIFICATES:
            properties[_CERTIFICATES[file.name]] = str(file)
        elif file.is_file() and "." in file.name and not file.name.startswith(".") and not _is_key_material(file):
            properties[file.name] = _text_of(file)
    return logins | properties


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        fault = f"the file {file.name} is not UTF-8 text, so it is no client property; take it out of the Secret"
        other = "mount it with spec.podTemplate and name its path in spec.kafka.properties"
        raise ManifestError([f"spec.kafka.secretRef: {fault}, or {other}"]) from error


def database_login(folder: Path, where: str) -> tuple[str, str]:
    """Returns the user and the password of a mounted secret. A ``ManifestError`` names ``where`` in the manifest it
    is."""
    texts = []
    for name in ("username", "password"):
        try:
            texts.append((folder / name).read_text(encoding="utf-8").rstrip("\r\n"))
        except (OSError, UnicodeDecodeError) as error:
            fault = f"{where}.secretRef.name: the secret {folder} has no text {name}; it needs username and password"
            raise ManifestError([fault]) from error
    user, password = texts
    return user, password


def remote_state_files(folder: Path) -> dict[str, Path]:
    """Fields of ``RemoteStateConfig`` that a mounted secret fills: it may have credentials, an authority, or both."""
    files = {"credentials_dir": folder} if (folder / "AWS_ACCESS_KEY_ID").exists() else {}
    return files | ({"ca_file": folder / "ca.crt"} if (folder / "ca.crt").exists() else {})


def _is_key_material(file: Path) -> bool:
    """Strimzi's secrets carry the same keys in other forms."""
    return file.suffix in {".crt", ".key", ".p12", ".jks", ".keytab"} or file.name in {"user.password", "ca.password"}

"""Makes the boto3 client of an S3 object store, as ``RemoteStateConfig`` asks for it; the client is used on many
threads.

Called once per store. Credentials of a mounted secret are read at every request, so that rotating them needs nothing.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.credentials import CredentialProvider, CredentialResolver, Credentials, ReadOnlyCredentials
from botocore.loaders import Loader
from botocore.session import Session

from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.remote.local_files import FilePart
from streamsapp.remote.object_store import UnfitObjectStoreError

#: With the retries of ``S3Store`` an outage is noticed within some ten seconds, of whatever kind it is.
_CONNECT_TIMEOUT = 3.0
_READ_TIMEOUT = 8.0
#: Reads the description of S3 once in a process, which takes a fifth of a second.
_DESCRIPTIONS = Loader()

ACCESS_KEY, SECRET_KEY, SESSION_TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"


def make_client(config: RemoteStateConfig, connections: int) -> Any:
    """A client that does not try anything twice: the store does, since it also has to for what it is streaming."""
    if config.ca_file is not None and not config.ca_file.is_file():
        raise UnfitObjectStoreError(
            f"remote_state.ca_file: {config.ca_file} does not exist; mount it, or leave it out to trust the system's"
        )
    if (logger := logging.getLogger("botocore")).level == logging.NOTSET:
        logger.setLevel(logging.INFO)  # it writes signed requests, session tokens included, at level DEBUG
    core = Session()
    core.register_component("data_loader", _DESCRIPTIONS)
    if config.credentials_dir is not None:
        core.register_component("credential_provider", CredentialResolver([_FileProvider(config.credentials_dir)]))
    session = boto3.Session(botocore_session=core, region_name=config.region)
    client = session.client(
        "s3",
        region_name=session.region_name or "us-east-1",
        endpoint_url=config.endpoint,
        verify=None if config.ca_file is None else str(config.ca_file),
        config=Config(
            connect_timeout=_CONNECT_TIMEOUT,
            read_timeout=_READ_TIMEOUT,
            max_pool_connections=connections,
            retries={"mode": "standard", "total_max_attempts": 1},
            # Servers other than Amazon's often do not know the newer checksums. The body's SHA-256 is signed.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={"addressing_style": _addressing(config), "payload_signing_enabled": True},
        ),
    )
    client.meta.events.register("before-call.s3.DeleteObjects", _add_md5)
    client.meta.events.register("before-send.s3", _begin_sending)
    return client


def _addressing(config: RemoteStateConfig) -> str:
    if config.path_style is None:
        return "auto" if config.endpoint is None else "path"
    return "path" if config.path_style else "virtual"


def _add_md5(params: dict[str, Any], **_: object) -> None:
    """Adds the MD5 checksum that servers asked for before there were others, and some still do."""
    digest = hashlib.md5(params["body"], usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = base64.b64encode(digest).decode()


def _begin_sending(request: Any, **_: object) -> None:
    """Notes that reading the body moves it from here on: until now it was read to be signed."""
    if isinstance(request.body, FilePart):
        request.body.sending = True


class _FileCredentials(Credentials):  # type: ignore[misc]
    """Asked by the signer at every request."""

    def __init__(self, folder: Path) -> None:
        super().__init__("", "", method="streamsapp-secret")
        self._folder = folder

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        # Kubernetes replaces all files of a secret at once, by pointing ..data elsewhere. Reading them through the
        # folder that it points to now never mixes an old key with a new one.
        folder = (self._folder / "..data").resolve() if (self._folder / "..data").exists() else self._folder
        token = folder / SESSION_TOKEN
        return ReadOnlyCredentials(
            self._text(folder / ACCESS_KEY),
            self._text(folder / SECRET_KEY),
            self._text(token) if token.exists() else None,
        )

    def _text(self, file: Path) -> str:
        try:
            text = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise UnfitObjectStoreError(
                f"the credential {file.name} cannot be read from {self._folder}: {reason}; the secret needs the keys "
                f"{ACCESS_KEY} and {SECRET_KEY}"
            ) from None
        if not text:
            raise UnfitObjectStoreError(f"the credential {file.name} in {self._folder} is empty; fill it in")
        return text


class _FileProvider(CredentialProvider):  # type: ignore[misc]
    METHOD = "streamsapp-secret"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def load(self) -> Credentials:
        return _FileCredentials(self._folder)

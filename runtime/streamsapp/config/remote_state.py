"""``RemoteStateConfig``: the place of the stores' snapshots, and the way to reach it.

Made by the user or from the manifest, as ``StreamsConfig.remote_state``; read by ``remote.open_store`` and by the
snapshot threads. It names files that hold credentials and never holds a credential itself, so it may be shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from streamsapp.errors import ConfigError

#: Of keys, which become parts of URLs and of file names.
_KEY = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")

SERVER_SIDE_ENCRYPTIONS = ("AES256", "aws:kms")


class Bucket(NamedTuple):
    """The bucket and the prefix that ``s3://bucket/prefix`` names."""

    name: str
    #: Empty, or without a slash at either end.
    prefix: str


@dataclass(frozen=True, kw_only=True)
class RemoteStateConfig:
    """Names the object store with the snapshots. Only ``url`` must be given: ``s3://bucket/prefix``, or
    ``file:///folder`` that all instances share. Raises ``ConfigError`` for anything else."""

    url: str
    #: Of a server other than Amazon's, such as ``https://minio.example:9000``.
    endpoint: str | None = None
    #: The region; unless set that of the environment, else ``us-east-1``.
    region: str | None = None
    #: The bucket in the path of a request, not in its host name; so by default where ``endpoint`` is set.
    path_style: bool | None = None
    #: A mounted secret with the files ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` and perhaps
    #: ``AWS_SESSION_TOKEN``, read again when they change. Without it: workload identity, environment, profile.
    credentials_dir: Path | None = None
    #: Certificates (PEM) to trust instead of the system's.
    ca_file: Path | None = None
    #: ``AES256`` or ``aws:kms``; the bucket's own setting unless set.
    server_side_encryption: str | None = None
    kms_key_id: str | None = None
    #: Seconds between the snapshots of a task.
    snapshot_interval: float = 60.0
    #: Of all tasks of an instance together; no limit unless set.
    upload_bytes_per_second: int | None = None
    #: The number of snapshots of a task that are kept.
    retain: int = 3
    #: The seconds for which an object that no snapshot needs is left to those who may be reading it.
    grace: float = 3600.0
    #: A snapshot that claims to be larger is not restored.
    max_snapshot_bytes: int = 1 << 40
    #: The bytes that tasks which moved away may leave on the local disk together; no limit unless set, and minutes in
    #: any case.
    max_unused_bytes: int | None = None

    def __post_init__(self) -> None:
        _ = self.location  # raises where the URL is not usable
        _check_endpoint(self)
        _check_encryption(self)
        _check_numbers(self)

    @cached_property
    def location(self) -> Bucket | Path:
        """The place that ``url`` names: a bucket with a prefix, or a folder."""
        parts = _split("url", self.url) if isinstance(self.url, str) else urlsplit("")
        if "@" in parts.netloc:
            raise _fault("url", "must not carry credentials; put them into the secret's files")
        if parts.query or parts.fragment or parts.scheme not in ("s3", "file"):
            raise _fault("url", f"expected s3://bucket/prefix or file:///folder, got {self.url!r}")
        return _bucket(parts.netloc, parts.path.strip("/")) if parts.scheme == "s3" else _folder(self.url)


def _split(name: str, url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise _fault(name, f"is no URL: {error}; correct it") from error


def _bucket(name: str, prefix: str) -> Bucket:
    if not _BUCKET.fullmatch(name):
        raise _fault("url", f"{name!r} is no bucket name: 3 to 63 small letters, digits, '-' and '.'")
    if prefix and (not _KEY.fullmatch(prefix) or {".", ".."} & set(prefix.split("/"))):
        raise _fault("url", f"the prefix {prefix!r} is not usable; use letters, digits, '.', '_', '-' and '/'")
    return Bucket(name, prefix)


def _folder(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc or not parts.path.strip("/"):
        raise _fault("url", f"expected an absolute folder such as file:///var/lib/streamsapp, got {url!r}")
    return Path(unquote(parts.path))


def _check_endpoint(config: RemoteStateConfig) -> None:
    if config.endpoint is None:
        return
    parts = _split("endpoint", config.endpoint)
    if "@" in parts.netloc:
        raise _fault("endpoint", "must not carry credentials; put them into the secret's files")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise _fault("endpoint", f"expected http://host:port or https://host:port, got {config.endpoint!r}")
    if isinstance(config.location, Path):
        raise _fault("endpoint", "belongs to an s3:// url; remove it")


def _check_encryption(config: RemoteStateConfig) -> None:
    if config.server_side_encryption not in (None, *SERVER_SIDE_ENCRYPTIONS):
        expected = " or ".join(repr(name) for name in SERVER_SIDE_ENCRYPTIONS)
        raise _fault("server_side_encryption", f"expected {expected}, got {config.server_side_encryption!r}")
    if config.kms_key_id is not None and config.server_side_encryption != "aws:kms":
        raise _fault("kms_key_id", "is only used with server_side_encryption 'aws:kms'; set that, or remove it")


def _check_numbers(config: RemoteStateConfig) -> None:
    for name in ("snapshot_interval", "grace"):
        if not _is_at_least(getattr(config, name), 0, (int, float)):
            raise _fault(name, f"expected seconds ≥ 0, got {getattr(config, name)!r}")
    for name in ("upload_bytes_per_second", "retain", "max_snapshot_bytes", "max_unused_bytes"):
        value = getattr(config, name)
        optional = name in ("upload_bytes_per_second", "max_unused_bytes")
        if not (_is_at_least(value, 1, (int,)) or (value is None and optional)):
            raise _fault(name, f"expected an integer ≥ 1, got {value!r}")


def _is_at_least(value: object, least: int, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool) and value >= least  # type: ignore[operator]


def _fault(name: str, text: str) -> ConfigError:
    return ConfigError(f"remote_state.{name}: {text}")

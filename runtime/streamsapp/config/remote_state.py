"""``RemoteStateConfig``: the place of the stores' snapshots, and the way to reach it.

Made by the user or from the manifest, as ``StreamsConfig.remote_state``; read by ``remote.open_store`` and by the
snapshot threads. It names files that hold credentials and never holds a credential itself, so it may be shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from streamsapp.config.setting import MOST_RECORDS, ManifestField, check_values, setting
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

    url: str = field(
        metadata=setting(
            "`s3://bucket/prefix`, immutable in a cluster; or `file:///folder` that all instances share, "
            "which a cluster refuses",
            field=ManifestField("remoteState.url", "RemoteUrl"),
        )
    )
    endpoint: str | None = field(
        default=None,
        metadata=setting(
            "of an S3 server other than Amazon's, such as `https://minio.example:9000`", field="remoteState.endpoint"
        ),
    )
    region: str | None = field(
        default=None,
        metadata=setting(
            "of the bucket; what the environment says unless set, else `us-east-1`", field="remoteState.region"
        ),
    )
    path_style: bool | None = field(
        default=None,
        metadata=setting(
            "the bucket in the path of a request, not in its host name; so by default where `endpoint` is set",
            field="remoteState.pathStyle",
        ),
    )
    #: Read again when they change. Without it: workload identity, environment, profile.
    credentials_dir: Path | None = field(
        default=None,
        metadata=setting(
            "a folder with the files `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and perhaps `AWS_SESSION_TOKEN`",
            instead="`secretRef`",
        ),
    )
    ca_file: Path | None = field(
        default=None,
        metadata=setting("certificates (PEM) to trust instead of the system's", instead="`ca.crt` of `secretRef`"),
    )
    server_side_encryption: str | None = field(
        default=None,
        metadata=setting(
            "how the object store encrypts; the bucket's own setting unless set",
            choices=SERVER_SIDE_ENCRYPTIONS,
            field="remoteState.serverSideEncryption",
        ),
    )
    kms_key_id: str | None = field(
        default=None, metadata=setting("the key for `aws:kms`", field="remoteState.kmsKeyId")
    )
    snapshot_interval: float = field(
        default=60.0,
        metadata=setting(
            "seconds between the snapshots of a task",
            least=0,
            field=ManifestField("remoteState.snapshotIntervalSeconds", "Positive", 60),
        ),
    )
    upload_bytes_per_second: int | None = field(
        default=None,
        metadata=setting(
            "of all tasks of an instance together; no limit unless set",
            least=1,
            most=MOST_RECORDS,
            field="remoteState.uploadBytesPerSecond",
        ),
    )
    retain: int = field(
        default=3, metadata=setting("snapshots that are kept of each task", least=1, field="remoteState.retain")
    )
    grace: float = field(
        default=3600.0,
        metadata=setting(
            "the seconds for which an object that no snapshot needs is left to those who may be reading it", least=0
        ),
    )
    max_snapshot_bytes: int = field(
        default=1 << 40,
        metadata=setting(
            "a snapshot that claims to be larger is not restored", shown="1 TiB", least=1, most=MOST_RECORDS
        ),
    )
    max_unused_bytes: int | None = field(
        default=None,
        metadata=setting(
            "what tasks that moved away may leave on the local disk together, from minutes after they did; the oldest "
            "goes first, and there is no limit unless set",
            least=1,
            most=MOST_RECORDS,
            field="remoteState.maxUnusedBytes",
        ),
    )

    def __post_init__(self) -> None:
        _ = self.location  # raises where the URL is not usable
        _check_endpoint(self)
        check_values(self, "remote_state.")
        _check_encryption(self)

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
        raise _fault(name, f"is not a URL: {error}; correct it") from error


def _bucket(name: str, prefix: str) -> Bucket:
    if not _BUCKET.fullmatch(name):
        raise _fault("url", f"{name!r} is not a bucket name: 3 to 63 small letters, digits, '-' and '.'")
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
    if config.kms_key_id is not None and config.server_side_encryption != "aws:kms":
        raise _fault("kms_key_id", "is only used with server_side_encryption 'aws:kms'; set that, or remove it")


def _fault(name: str, text: str) -> ConfigError:
    return ConfigError(f"remote_state.{name}: {text}")

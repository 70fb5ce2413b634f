"""Settings of remote state: accepted ones, and the words of refusals."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from streamsapp.config import RemoteStateConfig, StreamsConfig
from streamsapp.config.remote_state import Bucket
from streamsapp.errors import ConfigError
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.object_store_factory import open_store
from streamsapp.remote.s3_store import S3Store


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("s3://bucket", Bucket("bucket", "")),
        ("s3://bucket/", Bucket("bucket", "")),
        ("s3://my.bucket-1/team/app/", Bucket("my.bucket-1", "team/app")),
        ("file:///var/lib/state", Path("/var/lib/state")),
        ("file:///with%20space", Path("/with space")),
    ],
)
def test_a_url_names_a_bucket_or_a_folder(url: str, location: Bucket | Path) -> None:
    assert RemoteStateConfig(url=url).location == location


def test_the_url_decides_which_store_is_opened(tmp_path: Path) -> None:
    assert isinstance(open_store(RemoteStateConfig(url=f"file://{tmp_path}")), DirectoryStore)
    assert isinstance(open_store(RemoteStateConfig(url="s3://bucket/x", region="eu-north-1")), S3Store)


def test_a_bucket_without_the_extra_that_reaches_it_is_refused_and_a_folder_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    for name in ("s3_client", "s3_errors", "s3_store"):
        monkeypatch.delitem(sys.modules, f"streamsapp.remote.{name}", raising=False)
    with pytest.raises(ConfigError, match=r"s3://bucket/x is in a bucket, and boto3 is not .*'streamsapp\[s3\]'"):
        open_store(RemoteStateConfig(url="s3://bucket/x"))
    assert isinstance(open_store(RemoteStateConfig(url=f"file://{tmp_path}")), DirectoryStore)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": "http://bucket"}, r"remote_state\.url: expected s3://bucket/prefix or file:///folder, got 'http"),
        ({"url": 7}, r"remote_state\.url: expected s3://bucket/prefix"),
        ({"url": "s3://bucket?x=1"}, r"remote_state\.url: expected s3://bucket/prefix"),
        ({"url": "s3://Bucket/x"}, r"remote_state\.url: 'Bucket' is not a bucket name"),
        ({"url": "s3:///x"}, r"remote_state\.url: '' is not a bucket name"),
        ({"url": "s3://key:word@bucket/x"}, r"remote_state\.url: must not carry credentials"),
        ({"url": "s3://bucket/a/../b"}, r"remote_state\.url: the prefix 'a/\.\./b' is not usable"),
        ({"url": "s3://bucket/a//b"}, r"remote_state\.url: the prefix"),
        ({"url": "file://relative/folder"}, r"remote_state\.url: expected an absolute folder"),
        ({"url": "file:///"}, r"remote_state\.url: expected an absolute folder"),
        ({"endpoint": "minio:9000"}, r"remote_state\.endpoint: expected http://host:port"),
        ({"endpoint": "http://minio:9000/path"}, r"remote_state\.endpoint: expected http://host:port"),
        ({"endpoint": "http://key:word@minio:9000"}, r"remote_state\.endpoint: must not carry credentials"),
        ({"url": "file:///x", "endpoint": "http://minio"}, r"remote_state\.endpoint: belongs to an s3:// url"),
        ({"server_side_encryption": "aes"}, r"remote_state\.server_side_encryption: expected 'AES256' or 'aws:kms'"),
        ({"kms_key_id": "x"}, r"remote_state\.kms_key_id: is only used with server_side_encryption 'aws:kms'"),
        ({"snapshot_interval": -1}, r"remote_state\.snapshot_interval: expected seconds ≥ 0, got -1"),
        ({"snapshot_interval": True}, r"remote_state\.snapshot_interval: expected seconds"),
        ({"grace": "1h"}, r"remote_state\.grace: expected seconds ≥ 0, got '1h'"),
        ({"retain": 0}, r"remote_state\.retain: expected an integer ≥ 1, got 0"),
        ({"retain": None}, r"remote_state\.retain: expected an integer ≥ 1, got None"),
        ({"upload_bytes_per_second": 0}, r"remote_state\.upload_bytes_per_second: expected an integer ≥ 1"),
        ({"max_snapshot_bytes": 1.5}, r"remote_state\.max_snapshot_bytes: expected an integer ≥ 1"),
    ],
)
def test_a_refusal_names_the_field_and_never_a_credential(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        RemoteStateConfig(**({"url": "s3://bucket/prefix"} | settings))
    assert "key:word" not in str(caught.value)


def test_is_part_of_the_configuration_of_an_application_and_may_be_shown(tmp_path: Path) -> None:
    (tmp_path / "AWS_SECRET_ACCESS_KEY").write_text("hush")
    remote = RemoteStateConfig(url="s3://bucket/x", credentials_dir=tmp_path)
    config = StreamsConfig(application_id="app", bootstrap_servers="kafka:9092", remote_state=remote)
    assert config.remote_state is remote
    assert "hush" not in repr(config)
    assert StreamsConfig(application_id="app", bootstrap_servers="kafka:9092").remote_state is None


def test_something_else_in_its_place_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"remote_state: expected a RemoteStateConfig, got 's3://bucket'"):
        StreamsConfig(application_id="app", bootstrap_servers="k:1", remote_state="s3://bucket")  # type: ignore[arg-type]

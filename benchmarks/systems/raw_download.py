"""Downloads the files of an application's newest snapshots with boto3's own transfer manager, and does nothing else.

Started by ``run.py``: what a restore from the same snapshots is held against. Clients are made and manifests are read
before the clock runs.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from benchmarks.systems.job import Job, mark, mark_closed
from boto3.s3.transfer import TransferConfig, create_transfer_manager
from botocore.config import Config


def main() -> None:
    job = Job.from_command_line()
    client = make_client(job.remoteState)
    bucket = urlsplit(job.remoteState["url"]).netloc
    targets = {key: Path(job.stateDir, key) for key in snapshot_files(client, bucket, job.applicationId)}
    for target in targets.values():
        target.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    mark("FIRST")
    with create_transfer_manager(client, TransferConfig()) as manager:
        for future in [manager.download(bucket, key, str(target)) for key, target in targets.items()]:
            future.result()
    mark("RUNNING", job.records)
    mark("MILLISECONDS", round(1000 * (time.monotonic() - began)))
    mark("BYTES", sum(target.stat().st_size for target in targets.values()))
    mark_closed(job.records)


def make_client(settings: dict[str, str]) -> Any:
    credentials = Path(settings["credentials_dir"])
    return boto3.client(
        "s3",
        endpoint_url=settings["endpoint"],
        aws_access_key_id=(credentials / "AWS_ACCESS_KEY_ID").read_text(),
        aws_secret_access_key=(credentials / "AWS_SECRET_ACCESS_KEY").read_text(),
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )


def snapshot_files(client: Any, bucket: str, application: str) -> list[str]:
    """The objects that the newest manifest of each task names."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{application}/")
    keys = sorted(item["Key"] for page in pages for item in page["Contents"])
    newest = {key.split("/")[1]: key for key in keys if "/manifests/" in key}
    files = []
    for task, manifest in newest.items():
        document = json.loads(client.get_object(Bucket=bucket, Key=manifest)["Body"].read())
        files += [f"{application}/{task}/{file['object']}" for file in document["files"]]
    return files


if __name__ == "__main__":
    main()

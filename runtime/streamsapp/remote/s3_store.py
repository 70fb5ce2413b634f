"""An object store in an S3 bucket: ``s3://bucket/prefix``, through boto3.

Called on the snapshot threads and by commands; safe on several threads. Large objects are moved in ranges by a few
threads that live as long as the call. A request that can be tried again is, until there was no progress for some
seconds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, TypeVar
from uuid import uuid4

from botocore.exceptions import ClientError, IncompleteReadError

from streamsapp.config.remote_state import Bucket, RemoteStateConfig
from streamsapp.remote.local_files import BlockHash, ByteRange, FilePart, Took, new_file, ranges_of, sha256_of
from streamsapp.remote.object_store import (
    Moved,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectInfo,
    ObjectStoreError,
    UnfitObjectStoreError,
    check_key,
    unobserved,
)
from streamsapp.remote.request_figures import RequestFigures
from streamsapp.remote.retry_budget import RetryBudget
from streamsapp.remote.s3_client import make_client
from streamsapp.remote.s3_errors import CLIENT_ERRORS, is_throttled, is_transient, translated

T = TypeVar("T")

MIB = 1024 * 1024

#: At the same time, of all transfers together: one connection to S3 carries some 100 MB/s, one core takes in some 200.
_CONNECTIONS = min(8, max(4, 2 * len(os.sched_getaffinity(0))))
#: Requests for a few bytes take a round trip, whatever else is under way: so many at the same time, beside transfers.
_SMALL, _SMALL_REQUESTS = 1 << 20, 32
_RANGE = 16 * MIB
#: Of 256 KiB they took a seventh more CPU.
_BLOCK = MIB
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_MOST_PARTS = 10_000
_MOST_DELETED = 1000


class S3Store:
    """Objects in a bucket. A call goes on trying for ``retry_seconds`` without progress."""

    def __init__(self, config: RemoteStateConfig, retry_seconds: float = 8.0) -> None:
        if not isinstance(config.location, Bucket):
            raise UnfitObjectStoreError(f"{config.url} names no bucket; give s3://bucket/prefix")
        self._bucket = config.location.name
        self._prefix = f"{config.location.prefix}/" if config.location.prefix else ""
        self._retry_seconds = retry_seconds
        self.figures = RequestFigures()
        self._client = make_client(config, connections=2 * _CONNECTIONS + _SMALL_REQUESTS)
        self._endpoint: str = self._client.meta.endpoint_url
        self._slots = BoundedSemaphore(_CONNECTIONS)
        self._small_slots = BoundedSemaphore(_SMALL_REQUESTS)
        encryption = {"ServerSideEncryption": config.server_side_encryption, "SSEKMSKeyId": config.kms_key_id}
        self._encryption = {name: value for name, value in encryption.items() if value is not None}

    def __str__(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def put_new(self, key: str, data: bytes) -> None:
        self._call("write", key, self._client.put_object, Body=data, IfNoneMatch="*", **self._encryption)

    def upload(self, key: str, source: Path, moved: Moved = unobserved) -> None:
        check_key(key)
        try:
            with source.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                ranges = ranges_of(size, max(_RANGE, -(-size // _MOST_PARTS)))
                parts = [FilePart(file.fileno(), part, moved) for part in ranges]
                if len(parts) == 1:
                    self._send(parts[0], key, self._client.put_object, **self._encryption)
                else:
                    self._upload_parts(key, parts)
        except OSError as error:
            raise ObjectStoreError(f"cannot read the local file {source}: {error}") from error

    def read(self, key: str, limit: int) -> bytes:
        def receive() -> bytes:
            response = self._client.get_object(**self._names(key))
            with closing(response["Body"]) as body:
                length: int = response.get("ContentLength", limit + 1)
                if length > limit:
                    raise ObjectDamagedError(f"{self._url(key)} has {length} bytes, more than the {limit} it may have")
                data: bytes = body.read(length)
            if len(data) < length:
                raise IncompleteReadError(actual_bytes=len(data), expected_bytes=length)
            return data

        return self._with_retries("read", key, RetryBudget(self._retry_seconds), receive)

    def download(self, key: str, target: Path, size: int, moved: Moved = unobserved, share: float = 1.0) -> str:
        check_key(key)
        connections = round(share * _CONNECTIONS)
        with new_file(target) as file:
            if size > _RANGE and connections > 1:
                self._receive_ranges(key, file.fileno(), size, moved, connections)
                return sha256_of(target)
            return self._receive_hashed(key, file.fileno(), size, moved)

    def read_range(self, key: str, begin: int, end: int, size: int) -> bytes:
        wanted = ByteRange(begin, end)

        def receive() -> bytes:
            response = self._client.get_object(**self._names(key), Range=f"bytes={begin}-{end - 1}")
            with closing(response["Body"]) as body:
                self._check_range(key, response, wanted, size)
                data: bytes = body.read(end - begin)
            if len(data) < end - begin:
                raise IncompleteReadError(actual_bytes=len(data), expected_bytes=end - begin)
            return data

        with self._small_slots if end - begin <= _SMALL else self._slots:
            return self._with_retries("read", key, RetryBudget(self._retry_seconds), receive)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        within = prefix.rpartition("/")[0]
        if within:
            check_key(within)
        more: dict[str, str] = {}
        while True:
            ask = partial(self._client.list_objects_v2, Bucket=self._bucket, Prefix=self._prefix + prefix, **more)
            page = self._with_retries("list", prefix, RetryBudget(self._retry_seconds), ask)
            for item in page.get("Contents", ()):
                yield ObjectInfo(item["Key"].removeprefix(self._prefix), item["Size"], item["LastModified"])
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def delete(self, keys: Collection[str]) -> None:
        names = [self._names(key)["Key"] for key in keys]
        for first in range(0, len(names), _MOST_DELETED):
            some = names[first : first + _MOST_DELETED]

            def erase(some: list[str] = some) -> None:
                wanted = {"Objects": [{"Key": name} for name in some], "Quiet": True}
                response = self._client.delete_objects(Bucket=self._bucket, Delete=wanted)
                if response.get("Errors"):
                    raise ClientError({"Error": response["Errors"][0]}, "DeleteObjects")

            self._with_retries("delete", some[0].removeprefix(self._prefix), RetryBudget(self._retry_seconds), erase)

    def probe(self) -> None:
        key = f"probe-{uuid4().hex}"
        self.put_new(key, b"probe")
        try:
            self._probe_condition(key)
            if self.read(key, 5) != b"probe" or [info.key for info in self.list(key)] != [key]:
                raise UnfitObjectStoreError(
                    f"{self} at {self._endpoint} does not give back what was just written; use a store that is "
                    "consistent, and no cache before it"
                )
        finally:
            self.delete([key])

    def _probe_condition(self, key: str) -> None:
        with suppress(ObjectExistsError):
            self.put_new(key, b"again")
            raise UnfitObjectStoreError(
                f"{self} at {self._endpoint} ignores conditional writes (If-None-Match: *): two instances could both "
                "write the same snapshot. Use Amazon S3 or a server and version that support them"
            )

    def _upload_parts(self, key: str, parts: Sequence[FilePart]) -> None:
        started = self._call("write", key, self._client.create_multipart_upload, **self._encryption)
        upload = {"UploadId": started["UploadId"]}

        def send(numbered: tuple[int, FilePart]) -> dict[str, object]:
            number, part = numbered
            sent = self._send(part, key, self._client.upload_part, PartNumber=number, **upload)
            return {"PartNumber": number, "ETag": sent["ETag"]}

        try:
            sent = _on_threads(send, list(enumerate(parts, 1)), _CONNECTIONS)
            complete = self._client.complete_multipart_upload
            self._call("write", key, complete, MultipartUpload={"Parts": sent}, **upload)
        except BaseException:
            with suppress(*CLIENT_ERRORS):  # no reader sees the parts; they cost until a life-cycle rule removes them
                self._client.abort_multipart_upload(**self._names(key), **upload)
            raise

    def _send(self, part: FilePart, key: str, operation: Callable[..., Any], **parameters: Any) -> Any:
        def send() -> Any:
            part.rewind()
            try:
                return operation(**self._names(key), Body=part, **parameters)
            except CLIENT_ERRORS as error:
                raise (part.failure or error) from error

        with self._slots:
            return self._with_retries("write", key, RetryBudget(self._retry_seconds), send)

    def _receive_hashed(self, key: str, handle: int, size: int, moved: Moved) -> str:
        """Write a whole object to a file, on one connection. The hash is made of the blocks while they are in the
        processor's cache. A server may send a file that is asked for as a whole without touching its bytes."""
        hashed = BlockHash(moved)
        self._receive(key, handle, size, hashed, None, ByteRange(0, size))
        return hashed.sha256

    def _receive_ranges(self, key: str, handle: int, size: int, moved: Moved, connections: int) -> None:
        # Not HEAD, whose answers have no body and so do not distinguish a missing bucket from a missing object.
        first = self._call("read", key, self._client.get_object, Range="bytes=0-0")
        with closing(first["Body"]) as body:
            body.read()
        self._check_range(key, first, ByteRange(0, 1), size)
        receive = partial(self._receive, key, handle, size, lambda block: moved(len(block)), first.get("ETag"))
        _on_threads(receive, ranges_of(size, _RANGE), connections)

    def _receive(self, key: str, handle: int, size: int, took: Took, etag: str | None, wanted: ByteRange) -> None:
        """Write a range of an object, all of the same version, to the same place of a file. ``took`` gets each of its
        blocks, in their order, after it was written."""
        begin, end = wanted
        budget = RetryBudget(self._retry_seconds)

        def receive() -> None:
            nonlocal begin, etag
            conditions = {"Range": f"bytes={begin}-{end - 1}"} if size else {}
            conditions |= {"IfMatch": etag} if etag else {}
            response = self._client.get_object(**self._names(key), **conditions)
            etag = response.get("ETag", etag)
            with closing(response["Body"]) as body:
                self._check_range(key, response, ByteRange(begin, end), size)
                while begin < end and (block := body.read(min(_BLOCK, end - begin))):
                    _write_whole(handle, block, begin)
                    begin += len(block)
                    budget.progressed()
                    took(block)
            if begin < end:
                raise IncompleteReadError(actual_bytes=begin - wanted.begin, expected_bytes=end - wanted.begin)

        with self._slots:
            self._with_retries("read", key, budget, receive)

    def _check_range(self, key: str, response: dict[str, Any], wanted: ByteRange, size: int) -> None:
        """Checks that a response has the range that was asked for, of an object of the size it must have."""
        described = _CONTENT_RANGE.fullmatch(response.get("ContentRange", ""))
        begin, end, found = map(int, described.groups()) if described else (0, size - 1, response.get("ContentLength"))
        if found != size:
            raise ObjectDamagedError(f"{self._url(key)} has {found} bytes instead of {size}")
        if (begin, end + 1) != wanted:
            raise ObjectDamagedError(
                f"the server at {self._endpoint} sent other bytes of {self._url(key)} than were asked for; use one "
                "that supports ranges, without a cache that does not"
            )

    def _call(self, verb: str, key: str, operation: Callable[..., Any], **parameters: Any) -> Any:
        ask = partial(operation, **self._names(key), **parameters)
        return self._with_retries(verb, key, RetryBudget(self._retry_seconds), ask)

    def _with_retries(self, verb: str, key: str, budget: RetryBudget, action: Callable[[], T]) -> T:
        while True:
            self.figures.count(verb)
            try:
                return action()
            except CLIENT_ERRORS as error:
                if is_throttled(error):
                    self.figures.throttle(str(self))
                if not (is_transient(error) and budget.wait()):
                    raise translated(error, verb, self._url(key), self._endpoint) from error

    def _names(self, key: str) -> dict[str, str]:
        check_key(key)
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def _url(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{key}"


def _write_whole(handle: int, block: bytes, position: int) -> None:
    """Write a block to a place of a file. A disk that is filling up takes a part first, and refuses only the rest."""
    rest = memoryview(block)
    while rest:
        written = os.pwrite(handle, rest, position)
        rest, position = rest[written:], position + written


def _on_threads(action: Callable[[T], Any], items: Sequence[T], threads: int) -> list[Any]:
    """Runs a function over ``items`` on threads, and returns results in their order. The first failure is raised when
    the running calls have ended; the rest never begin."""
    with ThreadPoolExecutor(min(len(items), threads), thread_name_prefix="object-store") as pool:
        return list(pool.map(action, items))

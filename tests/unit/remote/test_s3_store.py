"""An S3 store's handling of answers that a well-behaved server seldom gives."""

from __future__ import annotations

import hashlib
import re
import resource
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.remote.object_store import (
    ObjectDamagedError,
    ObjectExistsError,
    ObjectStoreError,
    UnfitObjectStoreError,
)
from streamsapp.remote.s3_store import S3Store

ETAG = {"ETag": '"1"'}


class Answer(NamedTuple):
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})
    #: Of the body, as the headers say.
    length: int | None = None


def error(status: int, code: str) -> Answer:
    return Answer(status, f"<Error><Code>{code}</Code><Message>because</Message></Error>".encode())


def piece(whole: bytes, begin: int, end: int, **more: Any) -> Answer:
    headers = {"Content-Range": f"bytes {begin}-{end - 1}/{len(whole)}"} | ETAG
    return Answer(206, whole[begin:end], headers, **more)


class Scripted:
    """A server that gives the scripted answers, and remembers the requests."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                script.asked.append((f"{self.command} {self.path}", {k.lower(): v for k, v in self.headers.items()}))
                answer = script.answers.pop(0)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(answer.length or len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)
                self.close_connection = answer.length is not None

            do_GET = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815 - the names http.server asks for

            def log_message(self, format: str, *_: object) -> None:
                """No test reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    # A machine that stands still must not count as a server that does not answer, which the store asks again.
    monkeypatch.setattr("streamsapp.remote.s3_client._READ_TIMEOUT", 60.0)
    running = Scripted()
    yield running
    running.close()


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    (tmp_path / "AWS_ACCESS_KEY_ID").write_text("key")
    (tmp_path / "AWS_SECRET_ACCESS_KEY").write_text("hush")
    return tmp_path


def store_at(server: Scripted, credentials: Path, retry_seconds: float = 60, **settings: Any) -> S3Store:
    defaults: dict[str, Any] = {"url": "s3://bucket/pre", "endpoint": server.endpoint, "credentials_dir": credentials}
    return S3Store(RemoteStateConfig(**(defaults | settings)), retry_seconds)


@pytest.mark.parametrize(
    "refusal",
    [
        error(503, "SlowDown"),
        error(500, "InternalError"),
        error(409, "ConditionalRequestConflict"),
        error(429, "TooManyRequests"),
        Answer(502, b"<html>bad gateway</html>"),
    ],
)
def test_what_is_refused_for_now_is_tried_again(server: Scripted, credentials: Path, refusal: Answer) -> None:
    server.answers = [refusal, refusal, Answer(200, headers=ETAG)]
    store_at(server, credentials).put_new("a", b"x")
    assert [headers["if-none-match"] for _, headers in server.asked] == ["*"] * 3


def test_every_try_is_counted_and_so_is_every_refusal_of_a_server_that_throttles(
    server: Scripted, credentials: Path
) -> None:
    server.answers = [error(503, "SlowDown"), error(429, "TooManyRequests"), error(500, "InternalError")]
    server.answers += [Answer(200, headers=ETAG), Answer(200, b"12", ETAG)]
    store = store_at(server, credentials)
    store.put_new("a", b"x")
    assert store.read("a", 5) == b"12"
    assert (store.figures.requests, store.figures.throttled) == ({"write": 4, "read": 1}, 2)


def test_what_is_refused_for_too_long_is_told(server: Scripted, credentials: Path) -> None:
    server.answers = [error(503, "SlowDown")] * 9
    with pytest.raises(ObjectStoreError, match=r"cannot write s3://bucket/pre/a at http.*503 SlowDown: because"):
        store_at(server, credentials, retry_seconds=0.3).put_new("a", b"x")


def test_a_try_that_went_through_unnoticed_is_an_object_that_exists(server: Scripted, credentials: Path) -> None:
    server.answers = [error(500, "InternalError"), error(412, "PreconditionFailed")]
    with pytest.raises(ObjectExistsError, match="s3://bucket/pre/a exists already"):
        store_at(server, credentials).put_new("a", b"x")


def test_a_body_that_ends_too_early_is_asked_for_from_where_it_ended(
    server: Scripted, credentials: Path, tmp_path: Path
) -> None:
    whole = bytes(range(200))
    server.answers = [piece(whole[:200], 0, 200, length=200)._replace(body=whole[:150]), piece(whole, 150, 200)]
    moved: list[int] = []
    digest = store_at(server, credentials).download("a", tmp_path / "target", 200, moved.append)

    assert digest == hashlib.sha256(whole).hexdigest()
    assert (tmp_path / "target").read_bytes() == whole
    assert sum(moved) == 200
    assert [headers["range"] for _, headers in server.asked] == ["bytes=0-199", "bytes=150-199"]
    assert [headers.get("if-match") for _, headers in server.asked] == [None, '"1"']


def test_a_disk_that_takes_only_a_part_of_a_block_is_heard(server: Scripted, credentials: Path, tmp_path: Path) -> None:
    whole = bytes(5_000_000)
    server.answers = [piece(whole, 0, len(whole))]
    store = store_at(server, credentials)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) - 100, hard))
    try:
        with pytest.raises(ObjectStoreError, match=r"File too large.*is there room"):
            store.download("a", tmp_path / "target", len(whole))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_small_object_that_ends_too_early_is_read_again(server: Scripted, credentials: Path) -> None:
    server.answers = [Answer(200, b"12", ETAG, length=5), Answer(200, b"12345", ETAG)]
    assert store_at(server, credentials).read("a", 10) == b"12345"


@pytest.mark.parametrize(
    "answer",
    [
        piece(b"123456", 1, 6),
        piece(b"1234567", 0, 6),
        Answer(200, b"1234567", ETAG),
        Answer(206, b"123456", {"Content-Range": "bytes 1-6/6"}),
        Answer(206, b"12345", {"Content-Range": "bytes */*"}),
        error(416, "InvalidRange"),
    ],
)
def test_bytes_that_were_not_asked_for_are_never_written(
    server: Scripted, credentials: Path, tmp_path: Path, answer: Answer
) -> None:
    server.answers = [answer]
    with pytest.raises(ObjectDamagedError):
        store_at(server, credentials).download("a", tmp_path / "target", 6)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (error(403, "AccessDenied"), "s3:GetObject, s3:PutObject"),
        (error(400, "ExpiredToken"), "renew it"),
        (error(403, "RequestTimeTooSkewed"), "set the clock"),
        (error(400, "AuthorizationHeaderMalformed"), r"set remote_state\.region"),
        (error(501, "NotImplemented"), "use a store with conditional writes"),
        (error(403, "Whatever"), r"access is refused \(Whatever\)"),
    ],
)
def test_what_will_not_change_is_refused_at_once_with_a_remedy(
    server: Scripted, credentials: Path, answer: Answer, remedy: str
) -> None:
    server.answers = [answer]
    with pytest.raises(UnfitObjectStoreError, match=f"cannot write s3://bucket/pre/a at {server.endpoint}: .*{remedy}"):
        store_at(server, credentials).put_new("a", b"x")


def test_a_bad_request_is_told_as_the_server_says_it(server: Scripted, credentials: Path) -> None:
    server.answers = [error(400, "EntityTooLarge")]
    with pytest.raises(ObjectStoreError, match="the server answered 400 EntityTooLarge: because"):
        store_at(server, credentials).put_new("a", b"x")


def test_an_answer_that_is_cut_off_is_asked_for_again(server: Scripted, credentials: Path) -> None:
    found = b"<Key>pre/a</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified>"
    page = b"<ListBucketResult><Contents>" + found + b"</Contents></ListBucketResult>"
    server.answers = [Answer(200, page[:70]), Answer(200, page[:70], length=len(page)), Answer(200, page)]
    assert [(info.key, info.size) for info in store_at(server, credentials).list("")] == [("a", 1)]


def test_objects_that_were_not_deleted_are_tried_again(server: Scripted, credentials: Path) -> None:
    failed = b"<DeleteResult><Error><Key>pre/a</Key><Code>InternalError</Code></Error></DeleteResult>"
    server.answers = [Answer(200, failed), Answer(200, b"<DeleteResult/>")]
    store_at(server, credentials).delete(["a", "b"])
    assert [line for line, _ in server.asked] == ["POST /bucket?delete"] * 2
    assert all("content-md5" in headers for _, headers in server.asked)


def test_encryption_is_asked_for_where_it_is_set(server: Scripted, credentials: Path, tmp_path: Path) -> None:
    server.answers = [Answer(200, headers=ETAG)] * 2
    (tmp_path / "source").write_bytes(b"x")
    store = store_at(server, credentials, server_side_encryption="aws:kms", kms_key_id="key-1")
    store.put_new("a", b"x")
    store.upload("b", tmp_path / "source")
    for _, headers in server.asked:
        assert headers["x-amz-server-side-encryption"] == "aws:kms"
        assert headers["x-amz-server-side-encryption-aws-kms-key-id"] == "key-1"


def test_the_session_token_of_a_secret_is_sent_and_a_swapped_secret_is_read_again(
    server: Scripted, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "AWS_ACCESS_KEY_ID").write_text(f"key-{name}")
        (tmp_path / name / "AWS_SECRET_ACCESS_KEY").write_text("hush")
    (tmp_path / "two" / "AWS_SESSION_TOKEN").write_text("token-never-shown")
    mount = tmp_path / "mount"
    mount.mkdir()
    (mount / "..data").symlink_to("../one")
    server.answers = [Answer(200, headers=ETAG)] * 2
    store = store_at(server, mount)
    store.put_new("a", b"x")
    (mount / "..new").symlink_to("../two")
    (mount / "..new").rename(mount / "..data")
    store.put_new("b", b"x")

    used = [re.search("Credential=([^/]+)", headers["authorization"]) for _, headers in server.asked]
    assert [found and found[1] for found in used] == ["key-one", "key-two"]
    assert [headers.get("x-amz-security-token") for _, headers in server.asked] == [None, "token-never-shown"]
    assert "token-never-shown" not in caplog.text


@pytest.mark.parametrize(
    "spoil", [Path.unlink, lambda file: file.write_text(" \n"), lambda file: file.write_bytes(b"\xff")]
)
def test_a_secret_that_cannot_be_used_is_named_by_its_file(server: Scripted, credentials: Path, spoil: Any) -> None:
    spoil(credentials / "AWS_SECRET_ACCESS_KEY")
    with pytest.raises(UnfitObjectStoreError, match=f"AWS_SECRET_ACCESS_KEY .*{credentials}"):
        store_at(server, credentials).put_new("a", b"x")


def test_without_credentials_the_ways_to_give_some_are_named(
    server: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    store = S3Store(RemoteStateConfig(url="s3://bucket/pre", endpoint=server.endpoint))
    with pytest.raises(UnfitObjectStoreError, match=r"no credentials were found; mount a secret"):
        store.put_new("a", b"x")


def test_the_environment_counts_where_no_secret_is_mounted(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    server.answers = [Answer(200, headers=ETAG)]
    S3Store(RemoteStateConfig(url="s3://bucket/pre", endpoint=server.endpoint)).put_new("a", b"x")
    assert "Credential=from-the-environment/" in server.asked[0][1]["authorization"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"endpoint": "http://s3.example:9000"}, "http://s3.example:9000/bucket/pre/a"),
        ({"endpoint": "http://s3.example:9000", "path_style": False}, "http://bucket.s3.example:9000/pre/a"),
        ({"region": "eu-north-1"}, "https://bucket.s3.eu-north-1.amazonaws.com/pre/a"),
        ({"region": "eu-north-1", "path_style": True}, "https://s3.eu-north-1.amazonaws.com/bucket/pre/a"),
    ],
)
def test_addresses_buckets_by_path_or_by_host(credentials: Path, settings: dict[str, Any], expected: str) -> None:
    store = S3Store(RemoteStateConfig(url="s3://bucket/pre", credentials_dir=credentials, **settings))
    seen = []

    def stop(request: Any, **_: object) -> None:
        seen.append(request.url)
        raise InterruptedError

    store._client.meta.events.register("before-send.s3", stop)
    with pytest.raises(InterruptedError):
        store.read("a", 1)
    assert seen == [expected]


def test_certificates_that_are_not_there_are_told_when_the_store_is_opened(credentials: Path) -> None:
    with pytest.raises(UnfitObjectStoreError, match=r"remote_state\.ca_file: .*ca\.crt does not exist"):
        S3Store(RemoteStateConfig(url="s3://bucket", ca_file=credentials / "ca.crt"))

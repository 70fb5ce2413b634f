"""An S3 store's behaviour when its server is restarted, gone, frozen, secured, or not set up."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from s3_server import BUCKET, S3Server
from streamsapp.remote.object_store import ObjectStoreError, UnfitObjectStoreError
from streamsapp.remote.s3_store import S3Store

SIZE = 60 * 1024 * 1024
#: A server may need longer to be back than a store tries by default, in seconds, on a machine that has other work.
PATIENT = 100.0


def calls(store: S3Store, folder: Path) -> dict[str, Callable[[], Any]]:
    source = folder / "source"
    source.write_bytes(b"x")
    return {
        "put_new": lambda: store.put_new("a", b"x"),
        "upload": lambda: store.upload("a", source),
        "read": lambda: store.read("a", 5),
        "download": lambda: store.download("a", folder / "target", 1),
        "list": lambda: list(store.list("a")),
        "delete": lambda: store.delete(["a"]),
        "probe": store.probe,
    }


class Restart:
    """Stops the server when half of the bytes have moved, and starts it a second later."""

    def __init__(self, server: S3Server) -> None:
        self._server = server
        self._left = SIZE // 2
        self._lock = threading.Lock()
        self._starter = threading.Timer(1, server.start)

    def __call__(self, count: int) -> None:
        with self._lock:
            before, self._left = self._left, self._left - count
            if before > 0 >= self._left:
                self._server.stop()
                self._starter.start()

    def done(self) -> None:
        self._starter.join()
        assert self._left <= 0


def test_an_upload_goes_on_through_a_restart_of_the_server(own_s3_server: S3Server, tmp_path: Path) -> None:
    store, restart = S3Store(own_s3_server.config(), PATIENT), Restart(own_s3_server)
    source = tmp_path / "source"
    source.write_bytes(os.urandom(SIZE))

    store.upload("a/b", source, restart)
    restart.done()

    assert store.read("a/b", SIZE) == source.read_bytes()


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_a_download_goes_on_through_a_restart_of_the_server(
    own_s3_server: S3Server, tmp_path: Path, share: float
) -> None:
    store, restart = S3Store(own_s3_server.config(), PATIENT), Restart(own_s3_server)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(os.urandom(SIZE))
    store.upload("a/b", source)

    digest = store.download("a/b", target, SIZE, restart, share)
    restart.done()

    assert digest == hashlib.sha256(source.read_bytes()).hexdigest()
    assert target.read_bytes() == source.read_bytes()


def test_an_upload_that_was_given_up_leaves_no_parts_to_pay_for(own_s3_server: S3Server, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(SIZE))
    left = [SIZE // 2]

    def give_up(count: int) -> None:
        left[0] -= count
        if left[0] < 0:
            raise InterruptedError("given up")

    with pytest.raises(ObjectStoreError, match="given up"):
        S3Store(own_s3_server.config()).upload("a/b", source, give_up)
    assert "Uploads" not in own_s3_server.client().list_multipart_uploads(Bucket=BUCKET)


def test_small_calls_wait_for_a_server_that_restarts(own_s3_server: S3Server) -> None:
    store = S3Store(own_s3_server.config(), PATIENT)
    store.put_new("a", b"x")
    own_s3_server.stop()
    starter = threading.Timer(1, own_s3_server.start)
    starter.start()

    assert [info.key for info in store.list("")] == ["a"]
    assert store.read("a", 1) == b"x"
    starter.join()


def test_every_call_says_that_the_server_is_out_of_reach_and_where_it_was_sought(
    own_s3_server: S3Server, tmp_path: Path
) -> None:
    store = S3Store(own_s3_server.config("pre"), retry_seconds=0.3)
    own_s3_server.stop()
    for name, call in calls(store, tmp_path).items():
        with pytest.raises(
            ObjectStoreError, match=f"s3://{BUCKET}/pre.* at {own_s3_server.endpoint}.*is it up"
        ) as caught:
            call()
        assert not isinstance(caught.value, UnfitObjectStoreError), name
    assert not (tmp_path / "target").exists()


def test_a_server_that_is_gone_is_given_up_after_some_ten_seconds(own_s3_server: S3Server) -> None:
    store = S3Store(own_s3_server.config())
    own_s3_server.stop()
    began = time.monotonic()
    with pytest.raises(ObjectStoreError, match="out of reach"):
        list(store.list(""))
    assert time.monotonic() - began > 6  # a server that starts again has its time


def test_a_server_that_does_not_answer_holds_nobody_for_long(own_s3_server: S3Server) -> None:
    store = S3Store(own_s3_server.config(), retry_seconds=0)
    store.put_new("a", b"x")
    own_s3_server.freeze()
    with pytest.raises(ObjectStoreError, match=r"out of reach.*timeout"):
        store.read("a", 5)


def test_a_host_that_has_no_address_is_told_apart(s3_server: S3Server) -> None:
    store = S3Store(s3_server.config(endpoint="http://objects.invalid:9000"), retry_seconds=0)
    with pytest.raises(ObjectStoreError, match=r"host name cannot be resolved; correct remote_state\.endpoint or DNS"):
        store.put_new("a", b"x")


def test_a_bucket_that_is_not_there_is_named_with_a_remedy(s3_server: S3Server, tmp_path: Path) -> None:
    store = S3Store(s3_server.config(url="s3://no-such-bucket/x"))
    for name, call in calls(store, tmp_path).items():
        with pytest.raises(UnfitObjectStoreError, match=r"s3://no-such-bucket/x.* create it, or correct") as caught:
            call()
        assert "NoSuchBucket" in str(caught.value), name


def test_wrong_credentials_are_refused_with_a_remedy_and_never_shown(own_s3_server: S3Server, tmp_path: Path) -> None:
    for access, secret, meaning in (
        ("first", "not-the-secret", "the secret key does not belong to the access key"),
        ("nobody", "first-secret", "the server does not know the access key"),
    ):
        own_s3_server.rotate(access, secret)
        store = S3Store(own_s3_server.config())
        for call in calls(store, tmp_path).values():
            with pytest.raises(UnfitObjectStoreError, match=rf"{meaning} .*; correct the credentials") as caught:
                call()
            assert secret not in f"{caught.value!r} {caught.value.__cause__!r}"
            assert access not in str(caught.value)


def test_rotated_credentials_are_used_from_the_next_request_on(own_s3_server: S3Server) -> None:
    store = S3Store(own_s3_server.config())
    store.put_new("a", b"x")

    own_s3_server.rotate("second", "second-secret")
    own_s3_server.stop()
    own_s3_server.start()

    assert store.read("a", 1) == b"x"


def test_a_large_object_without_a_bucket_is_no_missing_object(s3_server: S3Server, tmp_path: Path) -> None:
    store = S3Store(s3_server.config(url="s3://no-such-bucket/x"))
    with pytest.raises(UnfitObjectStoreError):
        store.download("a", tmp_path / "target", SIZE)


def test_tls_trusts_the_authority_it_was_given_and_no_other(tmp_path: Path) -> None:
    with S3Server(tmp_path / "s3", tls=True) as server:
        S3Store(server.config()).probe()
        with pytest.raises(UnfitObjectStoreError, match=r"certificate is not trusted.*remote_state\.ca_file"):
            S3Store(server.config(ca_file=None)).probe()
        with pytest.raises(ObjectStoreError, match="http://127"):
            S3Store(server.config(endpoint=f"http://127.0.0.1:{server.port}"), retry_seconds=0).probe()


def test_a_server_without_tls_is_told_apart(s3_server: S3Server) -> None:
    store = S3Store(s3_server.config(endpoint=f"https://127.0.0.1:{s3_server.port}"))
    with pytest.raises(UnfitObjectStoreError, match="speaks no TLS"):
        store.probe()


def test_a_store_that_ignores_conditions_is_refused(s3_server: S3Server) -> None:
    def forget(params: dict[str, Any], **_: object) -> None:
        params["headers"].pop("If-None-Match", None)

    store = S3Store(s3_server.config("unfit"))
    store._client.meta.events.register("before-call.s3.PutObject", forget)
    with pytest.raises(UnfitObjectStoreError, match=r"ignores conditional writes \(If-None-Match: \*\).*Use Amazon S3"):
        store.probe()
    assert list(store.list("")) == []

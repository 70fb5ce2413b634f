"""An instance without a disk serves before its files are here, while something goes wrong with them."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from instances import Instances, eventually
from remote_state import Remote, metric, task
from s3_proxy import PartsOfTables, S3Proxy, never
from s3_server import BUCKET, S3Server
from streamsapp import StreamsRuntime
from streamsapp.remote import partial_files, pieces
from streamsapp.runtime.client_state import ClientState
from streamsapp.runtime.remote_state.early_reads import EarlyReads
from streamsapp.state.engine.missing_blocks import INCOMPLETE

pytestmark = pytest.mark.long


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    with S3Server(tmp_path / "s3") as running:
        yield running


@pytest.fixture
def proxy(server: S3Server) -> Iterator[S3Proxy]:
    with S3Proxy(server.port) as running:
        yield running


@pytest.fixture
def may_fill(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Pieces are small, so that a small state has many; files are filled once this is set."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 4096)
    monkeypatch.setattr(partial_files, "_WORTH_LEAVING", 8192)
    monkeypatch.setattr(partial_files, "_MOST", 4096)
    event, fill = threading.Event(), EarlyReads.fill
    monkeypatch.setattr(EarlyReads, "fill", lambda self: not event.wait(0.01) or fill(self))
    return event


@pytest.fixture
def remote(instances: Instances, server: S3Server, proxy: S3Proxy, may_fill: threading.Event) -> Remote:
    """An application that ran and has two snapshots, and an empty disk; its object store is behind the proxy."""
    made = Remote(instances, remote=server.config(snapshot_interval=3600, endpoint=proxy.endpoint))
    first = made.start()
    for _ in range(2):
        made.feed()
        made.counted()
        assert first.snapshot()
    assert first.close()
    made.lose_disk()
    return made


def goes_on(remote: Remote, instance: StreamsRuntime, may_fill: threading.Event) -> None:
    """More records are counted, files come, and everything is exact."""
    remote.feed(500)
    remote.counted()
    may_fill.set()
    eventually(lambda: task(instance)["restore"].get("missingBytes", 0) == 0, "all files")
    assert instance.close()
    remote.assert_exact()
    assert remote.local_counts() == remote.truth


def serves_early(remote: Remote) -> StreamsRuntime:
    instance = remote.start()
    eventually(lambda: task(instance).get("state") == "RUNNING", "a task that runs")
    assert task(instance)["restore"]["missingBytes"] > 0
    return instance


def test_every_request_takes_long(remote: Remote, proxy: S3Proxy, may_fill: threading.Event) -> None:
    proxy.delay = 0.2
    instance = serves_early(remote)
    goes_on(remote, instance, may_fill)


def test_most_requests_are_throttled(
    remote: Remote, proxy: S3Proxy, may_fill: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    instance = serves_early(remote)
    asked = 0

    def two_of_three(request: str) -> bool:
        nonlocal asked
        asked += 1
        return asked % 3 != 0

    proxy.throttles = two_of_three
    remote.feed(500)
    remote.counted()
    proxy.throttles = never

    told = instance.status()["objectStore"]
    assert told["throttled"] > 0
    assert told["throttledAt"] is not None
    assert told["requests"]["read"] > told["throttled"]
    assert metric(instance, "kafka_stream_object_store_throttled_requests_total") == told["throttled"]
    assert "refuses requests for a while" in caplog.text
    goes_on(remote, instance, may_fill)


def test_the_object_store_is_away_for_a_while(remote: Remote, proxy: S3Proxy, may_fill: threading.Event) -> None:
    instance = serves_early(remote)
    proxy.away = True
    before = len(proxy.requests)
    remote.feed(500)
    eventually(lambda: len(proxy.requests) > before + 5, "reads that the object store does not answer")

    assert instance.state is ClientState.RUNNING
    proxy.away = False
    goes_on(remote, instance, may_fill)


def test_a_block_of_the_newest_snapshot_is_damaged(
    remote: Remote, proxy: S3Proxy, may_fill: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    proxy.damages = PartsOfTables()
    instance = serves_early(remote)

    remote.feed(500)
    eventually(lambda: "damaged" in caplog.text, "a damaged block")
    proxy.damages = never
    goes_on(remote, instance, may_fill)


def test_the_snapshot_is_collected_while_it_is_read(
    remote: Remote, server: S3Server, may_fill: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    instance = serves_early(remote)
    client = server.client()
    for each in client.list_objects_v2(Bucket=BUCKET)["Contents"]:
        if "/files/" in each["Key"]:
            client.delete_object(Bucket=BUCKET, Key=each["Key"])

    remote.feed(500)
    eventually(lambda: "was deleted meanwhile" in caplog.text, "a read of a file that is gone")
    goes_on(remote, instance, may_fill)


def test_the_disk_is_full_and_the_next_start_finds_room(
    remote: Remote, may_fill: threading.Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_room(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    instance = serves_early(remote)
    with monkeypatch.context() as full:
        full.setattr(partial_files._Table, "write", no_room)
        remote.feed(500)
        eventually(lambda: instance.state is ClientState.ERROR, "an instance that fails")
    instance.close()

    assert "No space left" in caplog.text
    assert "free or enlarge the disk" in caplog.text
    goes_on(remote, remote.start(), may_fill)


def test_the_process_is_killed_and_starts_again(
    remote: Remote, instances: Instances, proxy: S3Proxy, may_fill: threading.Event
) -> None:
    proxy.throttles = held = PartsOfTables(but=2)
    config = remote.config()
    killed = instances.process("count_in_small_pieces", config, source=remote.source, sink=remote.sink)
    remote.feed(500)
    eventually(lambda: killed.assert_running() and held.chosen > 2, "reads that wait for more")

    killed.kill()

    database = Path(config.state_dir) / remote.application_id / "0_0" / "rocksdb"
    assert (database / INCOMPLETE).exists()
    proxy.throttles = never
    goes_on(remote, remote.start(), may_fill)

"""An instance without a disk counts on before the files of its snapshot are here, and is killed meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from instances import Instances, eventually
from remote_state import Remote, metric, task
from s3_server import S3Server
from streamsapp.remote import partial_files, pieces
from streamsapp.runtime.remote_state.early_reads import EarlyReads


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    with S3Server(tmp_path / "s3") as running:
        yield running


def test_counts_go_on_before_the_files_are_here_and_are_exact_when_they_came(
    instances: Instances, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 4096)
    monkeypatch.setattr(partial_files, "_WORTH_LEAVING", 8192)
    monkeypatch.setattr(partial_files, "_MOST", 4096)
    may_fill, fill = threading.Event(), EarlyReads.fill
    monkeypatch.setattr(EarlyReads, "fill", lambda self: not may_fill.wait(0.01) or fill(self))
    remote = Remote(instances, remote=server.config(snapshot_interval=3600))
    first = remote.start()
    remote.feed()
    remote.counted()
    assert first.close()
    remote.lose_disk()

    second = remote.start()
    remote.feed(3)
    remote.counted()

    restored = task(second)["restore"]
    assert restored["missingBytes"] > 0
    assert restored["readsThatWaited"] > 0
    assert metric(second, "kafka_stream_task_snapshot_requests_total") == restored["requests"]
    assert not second.snapshot(timeout=0.1)
    may_fill.set()
    eventually(lambda: task(second)["restore"]["missingBytes"] == 0)
    assert second.snapshot()
    remote.feed()
    remote.counted()
    assert second.close()
    remote.assert_exact()
    assert remote.local_counts() == remote.truth

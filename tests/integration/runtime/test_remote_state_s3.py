"""Instances lose their disks while the S3 server comes and goes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from instances import PATIENT, TIMEOUT, Instances, eventually
from remote_state import Remote, metric, task
from s3_server import S3Server
from streamsapp.errors import StateStoreError
from streamsapp.record import TaskId
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store_factory import open_store
from streamsapp.runtime.client_state import ClientState
from streamsapp.runtime.remote_state import restore_progress


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    with S3Server(tmp_path / "s3") as running:
        yield running


def newest_input(remote: Remote) -> int:
    """How far the newest snapshot read the input."""
    _, snapshot = ManifestChain(open_store(remote.remote), remote.application_id, TaskId(0, 0)).newest()
    return 0 if snapshot is None else sum(each.offset for each in snapshot.inputs)


def test_every_instance_is_killed_and_loses_its_disk_while_the_server_restarts_and_counts_are_exact(
    instances: Instances, server: S3Server
) -> None:
    remote = Remote(instances, remote=server.config(snapshot_interval=0.5))
    remote.feed(20_000)
    process = remote.process()
    eventually(lambda: process.assert_running() and newest_input(remote) > 4_000)
    server.stop()
    remote.feed(5_000)
    process.assert_running()
    process.kill()
    remote.lose_disk()
    server.start()

    remote.feed()
    process = remote.process()
    remote.counted(process.assert_running)
    assert process.close() == 0

    assert "begins with snapshot" in process.log.read_text()
    remote.assert_exact()
    assert remote.local_counts() == remote.truth


@pytest.mark.long
def test_without_the_server_an_instance_begins_with_the_changelog_and_takes_snapshots_later(
    instances: Instances, server: S3Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(restore_progress, "STALL_TIMEOUT", 1.0)
    remote = Remote(instances, remote=server.config(snapshot_interval=0.5))
    first = remote.start()
    remote.feed()
    remote.counted()
    assert first.close()
    remote.lose_disk()
    server.stop()

    second = remote.start()
    eventually(lambda: task(second).get("stores", [{}])[0].get("mode") == "restoring")
    eventually(lambda: second.state is ClientState.RUNNING)
    remote.feed()
    remote.counted()
    assert "its changelog is read instead" in caplog.text
    server.start()

    eventually(lambda: newest_input(remote) == 6_000)
    eventually(lambda: metric(second, "kafka_stream_task_snapshot_total") > 0)  # counted once it is there
    assert second.close()
    remote.assert_exact()


@pytest.mark.long
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_group_without_offsets_stops_without_the_server_and_goes_on_where_its_snapshot_stands_when_it_is_back(
    instances: Instances, server: S3Server, monkeypatch: pytest.MonkeyPatch, guarantee: str
) -> None:
    monkeypatch.setattr(restore_progress, "STALL_TIMEOUT", 1.0)
    # At least once a record that the broker does not take within the session is given up, and counted again.
    remote = Remote(instances, guarantee, remote=server.config(snapshot_interval=3600), kafka=PATIENT)
    first = remote.start()
    remote.feed()
    remote.counted()
    assert first.close()
    remote.lose_disk()
    remote.lose_offsets()
    server.stop()

    error = remote.start().wait(TIMEOUT)

    assert isinstance(error, StateStoreError)
    for told in (f"no offsets of {remote.source}-0", "store counts", "does not report the task's position"):
        assert told in str(error)
    server.start()
    remote.feed()
    third = remote.start()
    remote.counted()
    assert third.close()
    remote.assert_exact()

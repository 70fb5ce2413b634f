"""Instances lose their disks and come back from snapshots, with a real broker and an object store in a folder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from instances import PATIENT, Instances, eventually, last_counts
from remote_state import Remote, metric, record, task
from streamsapp import StreamsRuntime
from streamsapp.remote.snapshot import Snapshot
from streamsapp.runtime.client_state import ClientState


def is_running(instance: object) -> bool:
    return getattr(instance, "state") is ClientState.RUNNING  # noqa: B009


def snapshot_of_everything(remote: Remote, instance: StreamsRuntime) -> Snapshot:
    """Once all records are counted: the stores may stand at the commit before for another moment."""

    def complete() -> bool:
        newest = remote.newest() if instance.snapshot() else None
        return newest is not None and sum(each.offset for each in newest.inputs) >= remote.truth.total()

    eventually(complete, "a snapshot of everything")
    snapshot = remote.newest()
    assert snapshot is not None
    return snapshot


def test_an_instance_that_was_killed_under_load_and_lost_its_disk_comes_back_from_its_snapshot(
    instances: Instances, guarantee: str
) -> None:
    remote = Remote(instances, guarantee)
    for _ in range(2):
        process = remote.process()
        remote.feed(20_000)
        remote.wait_for_snapshot(remote.truth.total() - 15_000)
        remote.feed(20_000)
        process.assert_running()
        process.kill()
        remote.lose_disk()

    remote.feed()
    process = remote.process()
    remote.counted(process.assert_running)
    assert process.close() == 0

    assert "begins with snapshot" in process.log.read_text()
    counts = remote.local_counts()
    assert counts == last_counts(remote.kafka.read(remote.changelog))
    if guarantee == "exactly_once":
        remote.assert_exact()
    else:
        assert all(counts[key] >= count for key, count in remote.truth.items())


def test_a_second_snapshot_of_an_unchanged_store_uploads_nothing(instances: Instances) -> None:
    remote = Remote(instances, interval=3600, kafka=PATIENT)
    instance = remote.start()
    remote.feed()
    remote.counted()
    unchanged = "kafka_stream_task_snapshot_unchanged_total"
    snapshot_of_everything(remote, instance)
    files, number, before = remote.object_files(), remote.chain().numbers()[0], metric(instance, unchanged)

    assert instance.snapshot()

    assert (remote.object_files(), remote.chain().numbers()[0]) == (files, number)
    assert metric(instance, unchanged) == before + 1


def test_a_snapshot_stands_at_one_commit_and_status_tells_of_it(instances: Instances) -> None:
    remote = Remote(instances, interval=3600, kafka=PATIENT)
    instance = remote.start()
    remote.feed(1_000)
    remote.counted()
    snapshot = snapshot_of_everything(remote, instance)
    (point,), (consumed,) = snapshot.stores.values(), snapshot.inputs
    assert (consumed.topic, consumed.partition, consumed.offset) == (remote.source, 0, 1_000)
    assert consumed.metadata == remote.kafka.committed(remote.application_id, remote.source)[0][1]
    told = task(instance)
    shown = told["stores"][0]["snapshot"]
    assert datetime.fromisoformat(shown.pop("confirmedAt")) > datetime.now(UTC) - timedelta(minutes=1)
    assert shown == {
        "epoch": snapshot.epoch,
        "offset": point.offset,
        "createdAt": snapshot.created_at,
    }
    assert point.offset == told["stores"][0]["position"]
    assert metric(instance, "kafka_stream_task_snapshot_age_seconds") < 60


def test_a_restart_on_the_same_disk_uses_it_and_downloads_nothing(instances: Instances) -> None:
    remote = Remote(instances)
    process = remote.process()
    remote.feed()
    remote.counted(process.assert_running)
    remote.wait_for_snapshot(3_000)
    process.kill()
    assert record(remote.config().state_dir, remote.application_id)["epoch"] is not None

    instance = remote.start()
    remote.feed()
    remote.counted()

    assert metric(instance, "kafka_stream_snapshot_downloaded_bytes_total") == 0
    assert instance.close()
    assert record(remote.config().state_dir, remote.application_id)["epoch"] is None
    remote.assert_exact()


def test_closing_leaves_a_last_snapshot_of_what_was_committed(instances: Instances) -> None:
    remote = Remote(instances, interval=3600)
    instance = remote.start()
    remote.feed()
    remote.counted()
    assert instance.close()

    remote.lose_disk()
    again = remote.start()
    eventually(lambda: is_running(again))

    snapshot = remote.newest()
    assert snapshot is not None
    assert [each.offset for each in snapshot.inputs] == [3_000]
    restored = task(again)["restore"]
    assert restored["observedSeconds"] >= restored["downloadSeconds"] > 0
    assert again.close()
    assert remote.local_counts() == remote.truth


@pytest.mark.parametrize("damage", ["flipped", "deleted", "swapped"])
def test_a_damaged_snapshot_never_becomes_wrong_state(instances: Instances, damage: str) -> None:
    remote = Remote(instances, interval=3600, kafka=PATIENT)
    instance = remote.start()
    for _ in range(2):
        remote.feed()
        remote.counted()
        assert instance.snapshot()
    assert instance.close()
    remote.lose_disk()
    newest = remote.newest()
    assert newest is not None
    largest, second = sorted(newest.files, key=lambda file: -file.size)[:2]
    path = remote.folder / remote.chain().file_key(largest)
    if damage == "flipped":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x10
        path.write_bytes(content)
    elif damage == "deleted":
        path.unlink()
    else:
        path.write_bytes((remote.folder / remote.chain().file_key(second)).read_bytes())

    remote.feed()
    again = remote.start()
    remote.counted()
    assert again.close()

    remote.assert_exact()
    assert remote.local_counts() == remote.truth

"""Under load: instances are killed with their disks, or sleep for too long, while the S3 server comes and goes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bucket import check_chains
from continuous_input import Pouring
from faults import EXACTLY_ONCE, SESSION, Plan
from instances import PATIENT, TIMEOUT, Instances, end_offsets, eventually, last_counts
from kafka_cluster import Kafka
from remote_state import Remote, metric
from s3_server import BUCKET, S3Server
from streamsapp import StreamsRuntime
from streamsapp.membership import wire
from streamsapp.record import TaskId
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import UnfitObjectStoreError
from streamsapp.remote.object_store_factory import open_store
from streamsapp.remote.snapshot import Snapshot
from streamsapp.runtime.client_state import ClientState
from streamsapp.runtime.remote_state import snapshots
from testbed import running_testbed

#: How long the object store is frozen, and then gone, in seconds.
FROZEN, GONE = 11.0, 9.0
#: A thread that waited for an object store without answers would wait for longer: a store waits for an answer, or tries
#: again, for eight seconds. A machine may stand still for most of that.
STILL = 7.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    with S3Server(tmp_path / "s3") as running:
        yield running


class Watched:
    """The chains of an application, read by a reader that has no part in it."""

    def __init__(self, remote: Remote) -> None:
        objects = open_store(remote.remote)
        self.chains = [
            ManifestChain(objects, remote.application_id, TaskId(0, partition))
            for partition in range(remote.partitions)
        ]

    def newest(self) -> list[Snapshot]:
        """Of every task that has one with files."""
        found = [chain.newest()[1] for chain in self.chains]
        return [snapshot for snapshot in found if snapshot is not None and snapshot.files]

    def read_offsets(self) -> list[int]:
        """How far each task's newest snapshot read the input."""
        return [sum(each.offset for each in snapshot.inputs) for snapshot in self.newest()]

    def written_by(self) -> list[str]:
        """Returns the instance that wrote the newest snapshot of each task, where that is no mere claim."""
        return [snapshot.instance for snapshot in self.newest() if snapshot.number > snapshot.epoch]

    def have_grown(self, since: list[int]) -> bool:
        """Says whether every task's newest snapshot is newer than one of before."""
        offsets = self.read_offsets()
        return len(offsets) == len(self.chains) and all(
            now > before for now, before in zip(offsets, since, strict=True)
        )

    def assert_one_writer_at_a_time(self) -> None:
        assert not check_chains([[*chain.valid(sorted(chain.numbers()))] for chain in self.chains])


@pytest.mark.long
def test_all_instances_are_killed_under_load_with_their_disks_while_the_server_restarts_and_counts_are_exact(
    instances: Instances, server: S3Server
) -> None:
    remote = Remote(instances, partitions=4, remote=server.config(snapshot_interval=1.0))
    watched, names = Watched(remote), ("one", "two")
    with Pouring(remote):
        processes = [remote.process(name) for name in names]
        eventually(lambda: all(each.assert_running() for each in processes) and watched.have_grown([0] * 4))
        server.stop()
        for each in processes:
            each.assert_running()
            each.kill()
        for name in names:
            remote.lose_disk(name)
        processes = [remote.process(name) for name in names]
        server.start()
    remote.counted(lambda: [each.assert_running() for each in processes])
    assert [each.close() for each in processes] == [0, 0]

    assert any("begins with snapshot" in each.log.read_text() for each in processes)
    watched.assert_one_writer_at_a_time()
    remote.assert_exact()
    left = {**remote.local_counts("one"), **remote.local_counts("two")}
    assert left == remote.truth


def confirmed(instance: StreamsRuntime) -> list[datetime]:
    """When each task's snapshot was last known to be what the task stands at, oldest first."""
    told = [task["stores"][0]["snapshot"] for task in instance.tasks()]
    return sorted(datetime.fromisoformat(each["confirmedAt"]) for each in told if each and each["confirmedAt"])


def longest_pause(remote: Remote, instance: StreamsRuntime, seconds: float) -> float:
    """For so long, how long at most the application wrote nothing."""
    longest, written = 0.0, end_offsets(remote.kafka, remote.sink)
    changed = began = time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        assert instance.state is ClientState.RUNNING
        if (end := end_offsets(remote.kafka, remote.sink)) != written:
            written, changed = end, now
        longest = max(longest, now - changed)
        time.sleep(0.1)
    return longest


@pytest.mark.long
def test_processing_goes_on_without_the_object_store_and_status_tells_how_old_snapshots_are(
    instances: Instances, server: S3Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(snapshots, "LONGEST_PAUSE", 1.0)
    remote = Remote(instances, partitions=2, remote=server.config(snapshot_interval=1.0), kafka=PATIENT)
    watched = Watched(remote)
    instance = remote.start()
    with Pouring(remote):
        eventually(lambda: watched.have_grown([0, 0]) and len(confirmed(instance)) == 2)
        server.freeze()
        pause = longest_pause(remote, instance, FROZEN)
        server.stop()
        pause = max(pause, longest_pause(remote, instance, GONE))

        assert pause < STILL
        age = datetime.now(UTC) - confirmed(instance)[-1]
        assert age.total_seconds() > FROZEN + GONE - 2
        assert metric(instance, "kafka_stream_task_snapshot_age_seconds") > 2 * (FROZEN + GONE - 2)
        eventually(lambda: metric(instance, "kafka_stream_task_snapshot_failures_total") >= 2)
        assert "processing goes on, trying again" in caplog.text
        server.start()
        back, seen = datetime.now(UTC), watched.read_offsets()

        eventually(lambda: min(confirmed(instance), default=back) > back and watched.have_grown(seen))
    assert "snapshots are written again" in caplog.text
    remote.counted()
    assert instance.close()
    remote.assert_exact()


def test_an_instance_does_not_start_without_its_bucket_and_says_what_to_do(
    instances: Instances, server: S3Server
) -> None:
    remote = Remote(instances, remote=server.config(url="s3://no-such-bucket/state"))

    instance = remote.start()
    error = instance.wait(TIMEOUT)

    assert isinstance(error, UnfitObjectStoreError)
    assert "s3://no-such-bucket/state" in str(error)
    assert "create it, or correct" in str(error)
    assert instance.state is ClientState.ERROR


@pytest.mark.long
def test_an_instance_goes_on_when_its_bucket_is_deleted_and_writes_snapshots_into_a_new_one(
    instances: Instances, server: S3Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(snapshots, "LONGEST_PAUSE", 1.0)
    remote = Remote(instances, remote=server.config(snapshot_interval=0.5))
    watched = Watched(remote)
    instance = remote.start()
    with Pouring(remote):
        eventually(lambda: watched.have_grown([0]))
        (server.objects / BUCKET).rename(server.directory / "deleted")
        eventually(lambda: "NoSuchBucket" in caplog.text)
        written = end_offsets(remote.kafka, remote.sink)
        eventually(lambda: end_offsets(remote.kafka, remote.sink) > written + 1_000)

        assert instance.state is ClientState.RUNNING
        assert "create it, or correct" in caplog.text
        server.client().create_bucket(Bucket=BUCKET)
        eventually(lambda: watched.have_grown([0]))
    remote.counted()
    assert instance.close()
    remote.assert_exact()
    remote.lose_disk()

    again = remote.start()
    eventually(lambda: again.state is ClientState.RUNNING)
    assert again.close()
    assert "begins with snapshot" in caplog.text
    assert remote.local_counts() == remote.truth


def test_who_sleeps_past_its_session_meets_one_chain_and_does_not_write_in_it(
    instances: Instances, server: S3Server
) -> None:
    remote = Remote(instances, "at_least_once", partitions=2, remote=server.config(snapshot_interval=1.0))
    watched = Watched(remote)
    with Pouring(remote):
        sleeping = remote.process("sleeping")
        eventually(lambda: sleeping.assert_running() and watched.have_grown([0, 0]))
        sleeping.stop()
        awake = remote.process("awake")
        eventually(lambda: awake.assert_running() and watched.written_by() == ["awake", "awake"])
        asleep = len(sleeping.log.read_text())
        sleeping.go_on()
        eventually(lambda: "its tasks stop without committing" in sleeping.log.read_text()[asleep:])
    remote.counted(lambda: (sleeping.assert_running(), awake.assert_running()))
    assert (sleeping.close(), awake.close()) == (0, 0)

    watched.assert_one_writer_at_a_time()
    counts = last_counts(remote.kafka.read(remote.changelog))
    assert all(counts[key] >= count for key, count in remote.truth.items())


@pytest.mark.long
def test_who_does_not_hear_that_others_took_over_learns_it_from_the_chain_and_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two instances believe that they own a task: one is cut off, and thinks that no time goes by."""
    caplog.set_level(logging.INFO)
    plan = Plan(0, EXACTLY_ONCE, ("deaf", "heir"), 100, 1, 0, (), snapshot_interval=1.0)
    monkeypatch.setattr(wire, "join", _joining_for(SESSION, wire.join))
    never = {"consumer.session.timeout.ms": "300000", "consumer.heartbeat.interval.ms": "400"}
    with running_testbed(tmp_path / "servers", plan) as testbed:
        instances = Instances(Kafka(testbed.direct), tmp_path)
        remote = Remote(instances, partitions=2, remote=testbed.s3.config(snapshot_interval=1.0), kafka=never)
        watched = Watched(remote)
        with Pouring(remote):
            deaf = remote.start("deaf", bootstrap_servers=testbed.address_for("deaf"))
            eventually(lambda: watched.have_grown([0, 0]))
            testbed.cut("deaf")
            heir = remote.start("heir")
            eventually(lambda: watched.written_by() == ["heir", "heir"])

            eventually(lambda: "heir claimed it with epoch" in caplog.text)
            eventually(lambda: "its tasks stop without committing" in caplog.text)
            testbed.heal("deaf", held=True)
            eventually(lambda: {deaf.state, heir.state} == {ClientState.RUNNING})
        remote.counted()
        instances.close()

        watched.assert_one_writer_at_a_time()
        remote.assert_exact()


def _joining_for(seconds: float, join: Callable[..., Any]) -> Callable[..., Any]:
    """Requests to join that ask the coordinator for a shorter session than the member believes in."""

    def asked(group: wire.GroupSettings, *arguments: Any) -> Any:
        return join(replace(group, session_timeout=seconds), *arguments)

    return asked

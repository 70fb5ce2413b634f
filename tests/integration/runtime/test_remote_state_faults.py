"""Faults around an instance's remote state: others claim its tasks, the object store goes away, topics change."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from instances import PATIENT, TIMEOUT, Instances, end_offsets, eventually
from remote_state import Remote, metric, record, task
from streamsapp import StreamsRuntime
from streamsapp.clock import SystemClock
from streamsapp.errors import ConfigError, StateStoreError
from streamsapp.kafka.retry import repeated
from streamsapp.remote.snapshot_writer import SnapshotWriter
from streamsapp.runtime.client_state import ClientState
from streamsapp.runtime.remote_state import snapshots


@pytest.fixture(autouse=True)
def _told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def closed(instance: StreamsRuntime) -> None:
    assert instance.close()


def begins_with_snapshot(caplog: pytest.LogCaptureFixture) -> bool:
    return "begins with snapshot" in caplog.text


def test_a_standby_begins_with_a_snapshot(instances: Instances, caplog: pytest.LogCaptureFixture) -> None:
    remote = Remote(instances, standby_replicas=1, interval=3600)
    first = remote.start("one")
    remote.feed()
    remote.counted()
    assert first.snapshot()
    remote.feed(100)
    remote.counted()

    second = remote.start("two")
    eventually(lambda: task(second).get("role") == "standby" and task(second)["stores"][0]["lag"] == 0)

    snapshot = remote.newest()
    assert snapshot is not None
    assert begins_with_snapshot(caplog)
    assert metric(second, "kafka_stream_snapshot_downloaded_bytes_total") == snapshot.total_bytes
    assert task(second)["stores"][0]["snapshot"]["epoch"] == snapshot.epoch
    assert metric(second, "kafka_stream_task_update_total") < 3_000
    closed(first)
    eventually(lambda: task(second).get("role") == "active" and task(second)["state"] == "RUNNING")
    remote.feed(100)
    remote.counted()
    closed(second)
    remote.assert_exact()


def test_who_loses_a_task_to_another_claim_stops_it_and_says_who_has_it(
    instances: Instances, guarantee: str, caplog: pytest.LogCaptureFixture
) -> None:
    remote = Remote(instances, guarantee, interval=3600, kafka=PATIENT)
    instance = remote.start()
    remote.feed()
    remote.counted()
    assert instance.snapshot()
    numbers = remote.chain().numbers()

    other = SnapshotWriter(remote.chain(), "the-other-one", SystemClock())
    other.claim()
    assert not instance.snapshot(20)

    eventually(lambda: "the-other-one claimed it" in caplog.text)
    eventually(lambda: "its tasks stop without committing" in caplog.text)
    # The instance is alone in the group: it gets the task again, and claims it in turn.
    eventually(lambda: remote.chain().numbers()[0] >= numbers[0] + 2)
    remote.feed()
    remote.counted()
    assert instance.snapshot()
    closed(instance)
    if guarantee == "exactly_once":
        remote.assert_exact()


def test_processing_goes_on_while_the_object_store_is_away_and_snapshots_grow_old(
    instances: Instances, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(snapshots, "LONGEST_PAUSE", 1.0)
    remote = Remote(instances, kafka=PATIENT)
    instance = remote.start()
    remote.feed()
    remote.wait_for_snapshot(3_000)
    away = remote.folder.rename(remote.folder.with_name("away"))

    remote.feed()
    remote.counted()
    eventually(lambda: metric(instance, "kafka_stream_task_snapshot_failures_total") >= 2)
    eventually(lambda: metric(instance, "kafka_stream_task_snapshot_age_seconds") > 1)
    assert caplog.text.count("snapshots have not been written") == 1
    assert instance.state is ClientState.RUNNING
    away.rename(remote.folder)

    remote.wait_for_snapshot(6_000)
    eventually(lambda: "snapshots are written again" in caplog.text)
    closed(instance)
    remote.assert_exact()


def test_an_object_store_that_can_never_be_used_ends_the_instance_and_says_what_to_do(instances: Instances) -> None:
    remote = Remote(instances)
    remote.folder.write_text("no folder")

    instance = remote.start()

    assert "give a folder that exists, can be written and has hard links" in str(instance.wait(TIMEOUT))
    assert instance.state is ClientState.ERROR


def test_a_second_instance_on_the_same_state_directory_is_told_so(instances: Instances) -> None:
    remote = Remote(instances)
    first = remote.start("same")

    with pytest.raises(ConfigError, match=r"^state_dir: another instance uses .*; give each instance"):
        remote.start("same")

    closed(first)
    closed(remote.start("same"))


def test_a_topic_that_was_created_again_never_meets_a_snapshot_or_a_disk_of_the_old_one(
    instances: Instances, caplog: pytest.LogCaptureFixture
) -> None:
    remote = Remote(instances)
    first = remote.start()
    remote.feed(500)
    remote.counted()
    closed(first)
    old = dict(remote.truth)
    recreate(remote, records=2_000)

    second = remote.start()
    eventually(lambda: second.state is ClientState.RUNNING)
    closed(second)
    assert "was deleted and created again" in caplog.text
    assert set(remote.local_counts()) & set(old) == set()
    remote.lose_disk()
    caplog.clear()

    third = remote.start()
    eventually(lambda: third.state is ClientState.RUNNING)
    closed(third)
    assert set(remote.local_counts()) & set(old) == set()


def recreate(remote: Remote, records: int) -> None:
    """The changelog anew, longer than it was, with other keys."""
    admin = remote.kafka.admin
    admin.delete_topics([remote.changelog])[remote.changelog].result()
    new = NewTopic(remote.changelog, num_partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    eventually(lambda: remote.changelog not in admin.list_topics(timeout=60).topics)
    admin.create_topics([new])[remote.changelog].result()
    repeated(
        lambda: remote.kafka.produce(
            remote.changelog, [(b"new%d" % each, bytes(7) + b"\1") for each in range(records)], partition=0
        ),
        "writing to the new changelog",
    )


def test_a_changelog_that_lost_what_comes_after_the_snapshot_is_an_error_and_not_wrong_state(
    instances: Instances,
) -> None:
    remote = Remote(instances, interval=3600)
    process = remote.process()
    remote.feed()
    remote.counted(process.assert_running)
    process.kill()
    remote.lose_disk()
    instance = remote.start()
    eventually(lambda: instance.state is ClientState.RUNNING)
    assert instance.snapshot()
    closed(instance)
    process = remote.process()
    remote.feed()
    remote.counted(process.assert_running)
    process.kill()
    remote.lose_disk()
    begins_at = end_offsets(remote.kafka, remote.changelog) - 5
    truncate(remote, begins_at)

    failing = remote.start()
    error = failing.wait(TIMEOUT)

    assert isinstance(error, StateStoreError)
    for told in ("task 0_0", "store counts", f"{remote.changelog}-0 begins at offset {begins_at}", "streamsapp reset"):
        assert told in str(error)


def truncate(remote: Remote, offset: int) -> None:
    """The broker forgets the beginning of the changelog, which only compacts otherwise."""
    set_policy(remote, "compact,delete")
    eventually(lambda: deleted(remote, offset), "deleting records of the changelog")
    set_policy(remote, "compact")


def deleted(remote: Remote, offset: int) -> bool:
    """Says whether the records are gone: a broker refuses while its log does not know the new policy yet."""
    partition = TopicPartition(remote.changelog, 0, offset)
    try:
        remote.kafka.admin.delete_records([partition])[partition].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.POLICY_VIOLATION:
            raise
        return False
    return True


def set_policy(remote: Remote, policy: str) -> None:
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, remote.changelog, incremental_configs=[entry])
    for future in remote.kafka.admin.incremental_alter_configs([resource]).values():
        future.result()


def snapshot_alone(instances: Instances) -> Remote:
    """An application whose disk and group offsets are gone."""
    remote = Remote(instances, interval=3600)
    first = remote.start()
    remote.feed()
    remote.counted()
    closed(first)
    remote.lose_disk()
    remote.lose_offsets()
    return remote


def test_a_group_without_offsets_goes_on_where_the_snapshot_stands(
    instances: Instances, caplog: pytest.LogCaptureFixture
) -> None:
    remote = snapshot_alone(instances)
    remote.feed()

    second = remote.start()
    remote.counted()

    assert "goes on where its snapshot stands" in caplog.text
    closed(second)
    remote.assert_exact()
    assert remote.local_counts() == remote.truth


def test_a_group_without_offsets_goes_on_where_its_disk_stands(instances: Instances) -> None:
    remote = Remote(instances, interval=3600)
    first = remote.start()
    remote.feed()
    remote.counted()
    closed(first)
    remote.lose_offsets()
    remote.feed()

    second = remote.start()
    remote.counted()

    closed(second)
    remote.assert_exact()


def test_a_group_without_offsets_goes_on_where_the_snapshot_stands_that_another_instance_took(
    instances: Instances,
) -> None:
    remote = Remote(instances, standby_replicas=1, interval=3600)
    first = remote.start("one")
    eventually(lambda: first.state is ClientState.RUNNING)  # else the other one may be the owner
    second = remote.start("two")
    eventually(lambda: task(second).get("role") == "standby" and task(second)["state"] == "RUNNING")
    remote.feed()
    remote.counted()
    closed(second)
    closed(first)
    assert record(remote.config("two").state_dir, remote.application_id)["inputs"] == []
    remote.lose_offsets()
    remote.feed()

    again = remote.start("two")
    remote.counted()

    closed(again)
    remote.assert_exact()


def test_adopted_offsets_outlive_a_kill_before_the_first_commit(instances: Instances) -> None:
    remote = snapshot_alone(instances)
    idle = remote.start()
    eventually(lambda: idle.state is ClientState.RUNNING)
    closed(idle)
    assert remote.kafka.committed(remote.application_id, remote.source) == {}

    remote.feed()
    second = remote.start()
    remote.counted()

    closed(second)
    remote.assert_exact()

"""Rows whose time is over go once, in order, through kills, lost disks, snapshots and replicas."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from instances import Instances, Process, end_offsets, eventually
from living_counts import A_ROUND, PARTITIONS, TTL, LivingCounts
from streamsapp import StreamsConfig, TaskId
from streamsapp.config import RemoteStateConfig
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.manifest_chain import ManifestChain


class Alive(LivingCounts):
    """The application, with its input and the updates that it has to send."""

    def __init__(self, instances: Instances, store: str = "rocksdb") -> None:
        super().__init__(instances.kafka)
        self.instances, self._store = instances, store

    def process(self, config: StreamsConfig) -> Process:
        arguments = {"source": self.source, "sink": self.sink, "ttl": TTL, "store": self._store}
        return self.instances.process("count_while_alive", config, **arguments)

    def count_some(self, process: Process) -> None:
        """Waits until some of what was fed last is counted."""
        wanted = end_offsets(self.kafka, self.sink) + A_ROUND // 2
        self.feed()
        eventually(lambda: process.assert_running() and end_offsets(self.kafka, self.sink) >= wanted)

    def finish(self, process: Process, config: StreamsConfig) -> None:
        eventually(lambda: process.assert_running() and self.is_told())
        eventually(lambda: self.changelog(config.application_id) == self.living)
        self.end()
        eventually(lambda: process.assert_running() and self.is_told())
        eventually(lambda: self.changelog(config.application_id) == self.living)
        assert len(self.living) == PARTITIONS
        assert process.close() == 0


@pytest.mark.parametrize(
    ("guarantee", "store", "wipe"),
    [
        ("exactly_once", "rocksdb", True),
        pytest.param("exactly_once", "rocksdb", False, marks=pytest.mark.long),
        pytest.param("exactly_once", "memory", False, marks=pytest.mark.long),
        pytest.param("at_least_once", "rocksdb", True, marks=pytest.mark.long),
    ],
)
def test_rows_go_when_their_time_is_over_though_the_process_is_killed(
    instances: Instances, guarantee: str, store: str, wipe: bool
) -> None:
    alive = Alive(instances, store)
    config = instances.config(processing_guarantee=guarantee)
    for _ in range(2):
        process = alive.process(config)
        alive.count_some(process)
        process.kill()
        if wipe:
            shutil.rmtree(config.state_dir)
    alive.feed()
    alive.finish(alive.process(config), config)
    if guarantee == "exactly_once":
        assert alive.updates() == alive.truth


def _has_snapshot(folder: Path, config: StreamsConfig, partition: int) -> bool:
    """Says whether there is one with some of the input in it."""
    if not folder.is_dir():
        return False
    _, snapshot = ManifestChain(DirectoryStore(folder), config.application_id, TaskId(0, partition)).newest()
    return snapshot is not None and bool(snapshot.files) and any(each.offset > 0 for each in snapshot.inputs)


def test_rows_of_a_snapshot_go_when_their_time_is_over(instances: Instances) -> None:
    alive = Alive(instances)
    folder = instances.directory / "objects"
    remote = RemoteStateConfig(url=folder.as_uri(), snapshot_interval=0.5)
    config = instances.config(processing_guarantee="exactly_once", remote_state=remote)
    process = alive.process(config)
    alive.count_some(process)
    eventually(lambda: process.assert_running() and all(_has_snapshot(folder, config, each) for each in (0, 1)))
    alive.count_some(process)
    process.kill()
    shutil.rmtree(config.state_dir)
    again = alive.process(config)
    alive.finish(again, config)
    assert "begins with snapshot" in again.log.read_text()
    assert alive.updates() == alive.truth


@pytest.mark.long
@pytest.mark.parametrize("store", ["rocksdb", "memory"])
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "drained"])
def test_a_standby_goes_on_with_the_times_of_rows(instances: Instances, killed: bool, store: str) -> None:
    alive = Alive(instances, store)
    name = instances.kafka.unique("alive")
    one, two = (
        instances.config(
            name,
            state_dir=instances.directory / host,
            client_id=host,
            host_id=host,
            standby_replicas=1,
            processing_guarantee="exactly_once",
        )
        for host in ("one", "two")
    )
    first = alive.process(one)
    alive.count_some(first)
    second = alive.process(two)
    alive.count_some(first)
    if killed:
        first.kill()
    else:
        assert first.close() == 0
    alive.feed()
    alive.finish(second, two)
    assert alive.updates() == alive.truth

"""Rows whose time is over go once, in order, through kills, lost disks, snapshots and replicas."""

from __future__ import annotations

import random
import shutil
import time
from collections import defaultdict
from pathlib import Path

import pytest

from instances import Instances, Process, end_offsets, eventually, long, produce
from streamsapp import StreamsConfig, TaskId
from streamsapp.config import RemoteStateConfig
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.state.kinds.expiry import EXPIRES_AT

PARTITIONS = 2
TTL = 500
A_ROUND = 4_000
#: Of a key: the counts and deletions (``None``), each with its time.
Updates = dict[bytes, list[tuple[int | None, int]]]


class Alive:
    """The application, its input, and the updates that it has to send."""

    def __init__(self, instances: Instances, store: str = "rocksdb") -> None:
        self.instances, self.kafka, self._store = instances, instances.kafka, store
        self.source, self.sink = (self.kafka.create_topic(name, partitions=PARTITIONS) for name in ("in", "out"))
        self.truth: Updates = defaultdict(list)
        self._living: list[dict[bytes, tuple[int, int]]] = [{} for _ in range(PARTITIONS)]
        self._chosen = random.Random(7)
        self._now = [int(time.time() * 1000) - 2_000_000] * PARTITIONS

    def process(self, config: StreamsConfig) -> Process:
        arguments = {"source": self.source, "sink": self.sink, "ttl": TTL, "store": self._store}
        return self.instances.process("count_while_alive", config, **arguments)

    def feed(self, count: int = A_ROUND, step_ms: int = 3) -> None:
        for partition in range(PARTITIONS):
            records = []
            for _ in range(count):
                self._now[partition] += self._chosen.randrange(step_ms)
                key = b"%d-%d" % (partition, self._chosen.randrange(600))
                records.append((key, b"v", self._now[partition]))
                self._count(partition, key)
            produce(self.kafka, self.source, records, partition=partition)

    def _count(self, partition: int, key: bytes) -> None:
        living, now = self._living[partition], self._now[partition]
        for over in [each for each, (_, until) in living.items() if until <= now]:
            self.truth[over].append((None, living.pop(over)[1]))
        counted = living.get(key, (0, 0))[0] + 1
        living[key] = counted, now + TTL
        self.truth[key].append((counted, now))

    @property
    def living(self) -> dict[bytes, int]:
        return {key: count for each in self._living for key, (count, _) in each.items()}

    def end(self) -> None:
        """Some time later: all is over but the two keys that say so."""
        for partition in range(PARTITIONS):
            self._now[partition] += 1_500_000
        self.feed(1)

    def count_some(self, process: Process) -> None:
        """Waits until some of what was fed last is counted."""
        wanted = end_offsets(self.kafka, self.sink) + A_ROUND // 2
        self.feed()
        eventually(lambda: process.assert_running() and end_offsets(self.kafka, self.sink) >= wanted)

    def updates(self) -> Updates:
        found: Updates = defaultdict(list)
        for message in self.kafka.read(self.sink):
            value = message.value()
            found[message.key() or b""].append((None if value is None else long(value), message.timestamp()[1]))
        return found

    def is_told(self) -> bool:
        """Says whether the last update of each key has come."""
        found = self.updates()
        return all(each in found and found[each][-1] == updates[-1] for each, updates in self.truth.items())

    def changelog(self, config: StreamsConfig) -> dict[bytes, int]:
        """The changelog as any reader has it that knows nothing of times, such as a JVM's store."""
        rows: dict[bytes, int] = {}
        for message in self.kafka.read(f"{config.application_id}-counts-changelog"):
            key, value = message.key() or b"", message.value()
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = long(value)
                until = message.timestamp()[1] + TTL
                assert message.headers() == [(EXPIRES_AT, until.to_bytes(8, "big"))]
        return rows

    def finish(self, process: Process, config: StreamsConfig) -> None:
        eventually(lambda: process.assert_running() and self.is_told())
        eventually(lambda: self.changelog(config) == self.living)
        self.end()
        eventually(lambda: process.assert_running() and self.is_told())
        eventually(lambda: self.changelog(config) == self.living)
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
def test_a_standby_goes_on_with_the_times_of_rows(instances: Instances) -> None:
    alive = Alive(instances)
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
    first.kill()
    alive.feed()
    alive.finish(second, two)
    assert alive.updates() == alive.truth

"""An outer join of two topics, killed while records wait for others: every result is there, and there once."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from instances import Instances, Process, end_offsets, eventually, produce
from streamsapp import StreamsConfig, TaskId
from streamsapp.config import RemoteStateConfig
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.manifest_chain import ManifestChain

PARTITIONS = 2
KEYS_A_ROUND = 3_000
_CLOSES = b"closes"


class Join:
    """The application, its input and what must come of it: of each key there is a left record, a right one, or both."""

    def __init__(self, instances: Instances) -> None:
        self.instances, self.kafka = instances, instances.kafka
        self.left, self.right, self.sink = (
            self.kafka.create_topic(name, partitions=PARTITIONS) for name in ("left", "right", "joined")
        )
        self.truth: Counter[tuple[bytes, bytes]] = Counter()
        self._chosen = random.Random(5)
        self._fed = 0
        # Of late: the broker may delete records that are older than changelogs keep.
        self._began_at = int(time.time() * 1000) - 2_000_000
        self._closed_at = self._began_at

    def process(self, config: StreamsConfig) -> Process:
        return self.instances.process("outer_join", config, left=self.left, right=self.right, sink=self.sink)

    def feed(self) -> None:
        """A round of records. All rounds are within one window, so that nothing is sent alone before it is closed."""
        records: dict[str, list[tuple[bytes, bytes, int]]] = {self.left: [], self.right: []}
        for number in range(self._fed, self._fed + KEYS_A_ROUND):
            key = b"k%d" % number
            has_left, has_right = self._chosen.choice([(True, False), (False, True), (True, True)])
            if has_left:
                records[self.left].append((key, b"l", self._began_at + number))
            if has_right:
                records[self.right].append((key, b"r", self._began_at + number))
            self.truth[(key, b"%s/%s" % (b"l" if has_left else b"-", b"r" if has_right else b"-"))] += 1
        self._fed += KEYS_A_ROUND
        for topic, chunk in records.items():
            produce(self.kafka, topic, chunk)

    def join_some(self, process: Process) -> None:
        """Wait until some of what was fed last is joined."""
        wanted = end_offsets(self.kafka, self.sink) + KEYS_A_ROUND // 10
        self.feed()
        eventually(lambda: process.assert_running() and end_offsets(self.kafka, self.sink) >= wanted)

    def results(self) -> Counter[tuple[bytes, bytes]]:
        """All that came out, but for what was made to close windows."""
        found = ((message.key() or b"", message.value() or b"") for message in self.kafka.read(self.sink))
        return Counter((key, value) for key, value in found if not key.startswith(_CLOSES))

    def finish(self, process: Process) -> None:
        """Close all windows, and the process. Waiting ones are looked for at most once in a second, with a record."""

        def complete() -> bool:
            self._closed_at += 200_000
            for partition in range(PARTITIONS):
                record = (_CLOSES + b"%d" % self._closed_at, b"l", self._closed_at)
                produce(self.kafka, self.left, [record], partition=partition)
            time.sleep(1)
            return process.assert_running() and self.results().total() >= self.truth.total()

        joined = sum(value == b"l/r" for _, value in self.truth)
        eventually(lambda: process.assert_running() and self.results().total() >= joined)
        eventually(complete)
        assert process.close() == 0


def _has_snapshot(folder: Path, config: StreamsConfig, partition: int) -> bool:
    """Says whether there is one with some of the input in it."""
    if not folder.is_dir():
        return False
    _, snapshot = ManifestChain(DirectoryStore(folder), config.application_id, TaskId(0, partition)).newest()
    return snapshot is not None and bool(snapshot.files) and any(each.offset > 0 for each in snapshot.inputs)


@pytest.mark.parametrize("wipe", [pytest.param(False, marks=pytest.mark.long), True], ids=["state_kept", "state_wiped"])
def test_results_of_an_outer_join_are_complete_and_sent_once_when_the_process_is_killed(
    instances: Instances, wipe: bool
) -> None:
    join = Join(instances)
    config = instances.config(processing_guarantee="exactly_once")
    for _ in range(2):
        process = join.process(config)
        join.join_some(process)
        process.kill()
        if wipe:
            shutil.rmtree(config.state_dir)
    join.feed()
    join.finish(join.process(config))
    assert join.results() == join.truth


def test_an_outer_join_comes_back_from_its_snapshot(instances: Instances) -> None:
    join = Join(instances)
    folder = instances.directory / "objects"
    remote = RemoteStateConfig(url=folder.as_uri(), snapshot_interval=0.5)
    config = instances.config(processing_guarantee="exactly_once", remote_state=remote)
    process = join.process(config)
    join.join_some(process)
    eventually(lambda: process.assert_running() and any(_has_snapshot(folder, config, each) for each in (0, 1)))
    join.join_some(process)
    process.kill()
    shutil.rmtree(config.state_dir)
    again = join.process(config)
    join.finish(again)
    assert "begins with snapshot" in again.log.read_text()
    assert join.results() == join.truth


@pytest.mark.long
def test_a_standby_goes_on_with_an_outer_join(instances: Instances) -> None:
    join = Join(instances)
    name = instances.kafka.unique("join")
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
    first = join.process(one)
    join.join_some(first)
    second = join.process(two)
    join.join_some(second)
    first.kill()
    join.feed()
    join.finish(second)
    assert join.results() == join.truth

"""Instances with remote state: an application that counts per key, and what its object store holds.

Called by the tests of remote state.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from instances import Instances, Process, counts_per_key, eventually, last_counts, produce, stored_counts
from killable import count_per_key
from streamsapp import StreamsConfig, StreamsRuntime, TaskId
from streamsapp.config import RemoteStateConfig
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.snapshot import Snapshot

KEYS = 2_000


class Remote:
    """An application that counts per key, in one partition by default, with an object store in a folder."""

    def __init__(
        self,
        instances: Instances,
        guarantee: str = "exactly_once",
        *,
        partitions: int = 1,
        remote: RemoteStateConfig | None = None,
        interval: float = 0.5,
        **settings: Any,
    ) -> None:
        self.instances, self.kafka = instances, instances.kafka
        self.partitions = partitions
        self.source = self.kafka.create_topic("keys", partitions=partitions)
        self.sink = self.kafka.create_topic("counts", partitions=partitions)
        self.application_id = self.kafka.unique("remote")
        self.folder = instances.directory / "objects"
        self.remote = remote or RemoteStateConfig(url=self.folder.as_uri(), snapshot_interval=interval)
        common = {"processing_guarantee": guarantee, "commit_interval_ms": 100, "remote_state": self.remote}
        self.settings = {**common, **settings}
        self.topology = count_per_key(self.source, self.sink)
        self.truth: Counter[bytes] = Counter()
        self._chosen = random.Random(7)
        self.changelog = f"{self.application_id}-counts-changelog"

    # ---- instances ---------------------------------------------------------------------------------------------

    def config(self, name: str = "one", **settings: Any) -> StreamsConfig:
        return self.instances.config(
            self.application_id,
            state_dir=self.instances.directory / name,
            client_id=name,
            host_id=name,
            **{**self.settings, **settings},
        )

    def start(self, name: str = "one", **settings: Any) -> StreamsRuntime:
        """An instance in this process."""
        return self.instances.start(count_per_key(self.source, self.sink), self.config(name, **settings))

    def process(self, name: str = "one", **settings: Any) -> Process:
        """An instance in a process of its own."""
        config = self.config(name, **settings)
        return self.instances.process("count_per_key", config, source=self.source, sink=self.sink)

    def lose_disk(self, name: str = "one") -> None:
        shutil.rmtree(self.config(name).state_dir)

    def lose_offsets(self) -> None:
        """The application's group, and the offsets that it has committed, are deleted."""
        # A leave does not wait for long until the coordinator has heard it; a group with members is not deleted.
        eventually(lambda: not self.kafka.members_of(self.application_id), "a group without members")
        self.kafka.admin.delete_consumer_groups([self.application_id])[self.application_id].result()

    # ---- records -----------------------------------------------------------------------------------------------

    def feed(self, count: int = 3_000) -> None:
        """More input."""
        keys = [b"key%d" % self._chosen.randrange(KEYS) for _ in range(count)]
        produce(self.kafka, self.source, [(key, key, 1_000_000 + at) for at, key in enumerate(keys)])
        self.truth.update(keys)

    def counted(self, alive: Callable[[], object] = lambda: None) -> None:
        """Wait until every record was counted and committed."""

        def holds() -> bool:
            alive()
            committed = self.kafka.committed(self.application_id, self.source)
            return sum(offset for offset, _ in committed.values()) >= self.truth.total()

        eventually(holds, "the last commit")

    def assert_exact(self) -> None:
        """Outputs, changelog and truth agree: every key was counted up one by one."""
        # The commit's answer may come before the last transaction's marker is written to the sink.
        eventually(lambda: last_counts(self.kafka.read(self.sink)) == self.truth, "the last counts in the sink")
        updates = counts_per_key(self.kafka.read(self.sink))
        wrong = {key: values for key, values in updates.items() if values != list(range(1, self.truth[key] + 1))}
        assert not wrong, dict(list(wrong.items())[:3])
        eventually(lambda: last_counts(self.kafka.read(self.changelog)) == self.truth, "the last counts logged")

    def local_counts(self, name: str = "one") -> dict[bytes, int]:
        """Returns the counts that a closed instance left on its disk."""
        return stored_counts(self.topology, self.config(name), "counts")

    # ---- what the object store has -----------------------------------------------------------------------------

    def chain(self, partition: int = 0) -> ManifestChain:
        return ManifestChain(DirectoryStore(self.folder), self.application_id, TaskId(0, partition))

    def newest(self, partition: int = 0) -> Snapshot | None:
        """The newest snapshot with files."""
        if not self.folder.is_dir():
            return None
        _, snapshot = self.chain(partition).newest()
        return snapshot if snapshot is not None and snapshot.files else None

    def object_files(self, partition: int = 0) -> list[Path]:
        """Every file that holds a part of a snapshot."""
        return sorted((self.folder / self.application_id / f"0_{partition}" / "files").rglob("*-*"))

    def wait_for_snapshot(self, offset: int, partition: int = 0) -> Snapshot:
        """Of the input up to this offset."""

        def found() -> Snapshot | None:
            newest = self.newest(partition)
            return newest if newest is not None and any(each.offset >= offset for each in newest.inputs) else None

        eventually(found, f"a snapshot at {offset}")
        snapshot = self.newest(partition)
        assert snapshot is not None
        return snapshot


def task(instance: StreamsRuntime, task_id: str = "0_0") -> dict[str, Any]:
    """Returns an instance's report of a task."""
    return next((each for each in instance.tasks() if each["id"] == task_id), {})


def metric(instance: StreamsRuntime, name: str) -> float:
    """A measured value, summed over tasks."""
    found = [sample.value for sample in instance.samples() if sample.name == name]
    assert found, f"there is no metric {name}"
    return sum(found)


def record(state_dir: Path, application_id: str, task_id: str = "0_0") -> dict[str, Any]:
    """Returns the record of a task's local database."""
    found: dict[str, Any] = json.loads((state_dir / application_id / task_id / "local.json").read_text())
    return found

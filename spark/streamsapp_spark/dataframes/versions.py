"""The state of one task after each batch: a chain of snapshots whose numbers are those of the batches.

Used in Spark's Python workers. Spark may run a batch again, whole or in part, beside an attempt that it gave up: each
begins with the state after the batch before, and of the attempts that end, the first one's state counts, as what they
write is the same.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from streamsapp.clock import SystemClock
from streamsapp.errors import ConfigError, StreamsError
from streamsapp.record import TopicPartition
from streamsapp.remote.local_files import sha256_of
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import ObjectExistsError
from streamsapp.remote.snapshot import (
    VERSION,
    InputPoint,
    Snapshot,
    SnapshotFile,
    is_file_name,
    object_name,
    object_number,
    timestamp,
)
from streamsapp.runtime.snapshot_content import input_points
from streamsapp.tasks.task_plan import ConsumedOffset
from streamsapp_spark.snapshots.download import bring, is_immutable, linked

_UPLOADS = 4
#: Batches between two looks for files that attempts left behind.
_COLLECT_EVERY = 20


@dataclass(frozen=True)
class TaskVersions:
    """The states of one task, looked at from one batch."""

    chain: ManifestChain
    batch: int
    #: Names the topology and its tasks: another topology, or another number of tasks, cannot go on with the state.
    description: str
    #: Files that this machine had before, which are not downloaded again.
    kept: Path

    @property
    def _number(self) -> int:
        return self.batch + 1

    def before(self) -> tuple[Snapshot | None, bool]:
        """Returns the state that the batch begins with, ``None`` in the first one, and whether the state after it is
        written already. Raises ``StreamsError`` for a state that does not belong to the query's checkpoint."""
        numbers, task = self.chain.numbers(), self.chain.task_id
        if numbers and numbers[0] > self._number:
            raise StreamsError(
                f"the state of task {task} is that of batch {numbers[0] - 1}, and Spark runs batch {self.batch}: an "
                "older checkpoint was put back, or two queries run with one; begin with a new checkpointLocation"
            )
        if not self.batch:
            return None, self._number in numbers
        if self.batch not in numbers:
            raise StreamsError(
                f"task {task} has no state after batch {self.batch - 1} in {self.chain.objects}: it was deleted, or "
                "that batch was not read to its end (a function for foreachBatch has to read all of it), or "
                "partitions= has changed; begin with a new checkpointLocation"
            )
        found = self.chain.read(self.batch)
        if found.fingerprint != self.description:
            raise ConfigError(
                f"the state of task {task} is that of another topology or of other partitions= ({found.fingerprint}; "
                f"this one is {self.description}); put the old ones back, or begin with a new checkpointLocation"
            )
        return found, self._number in numbers

    def restore(self, snapshot: Snapshot, directory: Path) -> dict[TopicPartition, ConsumedOffset]:
        """Leaves the stores in ``directory``; returns where their task stands."""
        bring(self.chain, snapshot, directory, self.kept)
        return {
            TopicPartition(each.topic, each.partition): ConsumedOffset.committed(each.offset, each.metadata)
            for each in snapshot.inputs
        }

    # ---- writing -----------------------------------------------------------------------------------------------

    def repeat(self, before: Snapshot, retain: int) -> None:
        """Says that the batch has changed nothing."""
        self._append(before.inputs, before.files, retain)

    def write(
        self,
        before: Snapshot | None,
        checkpoint: Path | None,
        inputs: Mapping[TopicPartition, ConsumedOffset],
        retain: int,
    ) -> None:
        """Publishes the state after the batch; the newest ``retain`` are kept. Without stores there is no
        ``checkpoint``."""
        files = () if checkpoint is None else self._stored(checkpoint, before)
        points = input_points({partition: (at.offset, at.metadata) for partition, at in inputs.items()})
        self._append(points, files, retain)

    def _append(self, inputs: tuple[InputPoint, ...], files: tuple[SnapshotFile, ...], retain: int) -> None:
        now = timestamp(SystemClock().now_ms())
        snapshot = Snapshot(
            version=VERSION,
            application_id=self.chain.application_id,
            task=str(self.chain.task_id),
            number=self._number,
            epoch=self._number,
            writer=secrets.token_hex(8),
            instance="spark",
            created_at=now,
            written_at=now,
            fingerprint=self.description,
            stores={},
            inputs=inputs,
            files=files,
        )
        with suppress(ObjectExistsError):  # another attempt was first
            self.chain.append(snapshot)
        self._collect(retain)

    def _stored(self, checkpoint: Path, before: Snapshot | None) -> tuple[SnapshotFile, ...]:
        known = {file.name: file for file in (before.files if before is not None else ()) if is_immutable(file.name)}
        claim = f"{self._number}-{secrets.token_hex(8)}"
        self.kept.mkdir(parents=True, exist_ok=True)

        def stored(path: Path) -> SnapshotFile:
            if path.name in known:  # RocksDB never gives a number to two files
                return known[path.name]
            sha256 = sha256_of(path)
            file = SnapshotFile(
                path.name, path.stat().st_size, sha256, object_name(claim, self._number, path.name, sha256)
            )
            self.chain.objects.upload(self.chain.file_key(file), path)
            if is_immutable(path.name):
                linked(path, self.kept / Path(file.object).name)
            return file

        paths = [path for path in sorted(checkpoint.iterdir()) if is_file_name(path.name)]
        with ThreadPoolExecutor(_UPLOADS, "state-upload") as pool:
            return tuple(pool.map(stored, paths))

    def _collect(self, retain: int) -> None:
        """Deletes the state that no attempt can begin with any more. Now and then it also deletes the state that killed
        or late attempts have left, and all files that no state has."""
        chain, oldest = self.chain, self._number - retain
        if oldest < 1:
            return
        chain.objects.delete([chain.manifest_key(oldest)])
        if self._number % _COLLECT_EVERY:
            return
        numbers = chain.numbers()
        chain.objects.delete([chain.manifest_key(number) for number in numbers if number <= oldest])
        needed = {chain.file_key(file) for number in numbers if number > oldest for file in chain.read(number).files}
        for info in list(chain.objects.list(f"{chain.folder}files/")):
            number = object_number(info.key.removeprefix(chain.folder))
            if info.key not in needed and number is not None and number <= oldest:
                chain.objects.delete([info.key])
        names = {Path(key).name for key in needed}
        for path in self.kept.glob("*"):
            if path.name not in names:
                path.unlink(missing_ok=True)

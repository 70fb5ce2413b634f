"""Brings a task's newest snapshot to this machine, whole and verified. Used on the driver and in Spark's Python
workers.

An instance passes a bad snapshot over and begins with the one before; a reader or an audit wants to hear of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from streamsapp.errors import StreamsError
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import ObjectDamagedError, ObjectMissingError
from streamsapp.remote.snapshot import Snapshot, SnapshotFile, SnapshotInvalidError
from streamsapp.remote.snapshot_fetch import DATABASE
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.engine.rocksdb import TaskDatabase

_DOWNLOADS = 8


class NoSnapshotError(StreamsError):
    """Raised if a task has no snapshot, or not yet."""


def newest(chain: ManifestChain) -> Snapshot:
    """Returns the newest snapshot. Raises ``NoSnapshotError`` if there is none, ``StreamsError`` if it cannot be used;
    both name the task."""
    numbers = chain.numbers()
    if not numbers:
        raise NoSnapshotError(f"task {chain.task_id} has no snapshot")
    return numbered(chain, numbers[0])


def numbered(chain: ManifestChain, number: int) -> Snapshot:
    """Returns the snapshot of this number; raises as :func:`newest` does."""
    try:
        snapshot = chain.read(number)
    except SnapshotInvalidError as error:
        raise StreamsError(f"task {chain.task_id}: {error}") from error
    except ObjectMissingError as error:
        raise StreamsError(f"task {chain.task_id}: snapshot {number} is not there any more; read again") from error
    if not snapshot.files:
        raise NoSnapshotError(f"task {chain.task_id} has no snapshot yet: {snapshot.instance} has just begun with it")
    return snapshot


def is_immutable(name: str) -> bool:
    """Says whether RocksDB never changes a file of this name, so that it may be shared in hard links."""
    return name.endswith((".sst", ".ldb", ".blob"))


def bring(chain: ManifestChain, snapshot: Snapshot, directory: Path, kept: Path | None = None) -> None:
    """Leaves its database in ``directory``, where a task's stores find it. Files that never change are taken from
    ``kept``, a folder of the caller's that no other user can write to, and left there for the next time."""
    target = directory / DATABASE
    target.mkdir(parents=True)

    def download(file: SnapshotFile) -> None:
        path = target / file.name
        copy = kept / Path(file.object).name if kept is not None and is_immutable(file.name) else None
        if copy is not None and linked(copy, path):
            return
        try:
            sha256 = chain.objects.download(chain.file_key(file), path, file.size)
        except (ObjectMissingError, ObjectDamagedError) as error:
            raise StreamsError(f"task {chain.task_id}: snapshot {snapshot.number} is damaged: {error}") from error
        if sha256 != file.sha256:
            raise StreamsError(
                f"task {chain.task_id}: snapshot {snapshot.number} is damaged: {file.name} is not what was written"
            )
        if copy is not None:
            copy.parent.mkdir(parents=True, exist_ok=True)
            linked(path, copy)

    with ThreadPoolExecutor(_DOWNLOADS) as pool:
        list(pool.map(download, snapshot.files))


def linked(source: Path, target: Path) -> bool:
    """Makes a hard link, and says whether it could be made."""
    try:
        os.link(source, target)
    except OSError:  # it is not there, or there already, or on another disk
        return False
    return True


@contextmanager
def database_of(resources: StateResources, families: list[str], directory: Path) -> Iterator[TaskDatabase]:
    """Returns the database in ``directory`` as bytes."""
    database = TaskDatabase(directory / DATABASE, families, resources)
    try:
        yield database
    finally:
        database.close()

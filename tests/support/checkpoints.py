"""Directories that look like RocksDB checkpoints, and what their snapshots say: for tests that need no database."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from memory_objects import MemoryObjects
from streamsapp.record import TaskId
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import ObjectStore
from streamsapp.remote.snapshot import InputPoint, Snapshot, SnapshotFile, StorePoint, object_name
from streamsapp.remote.snapshot_writer import SnapshotContent, SnapshotWriter
from streamsapp.testing import MockClock

APPLICATION = "orders"
TASK = TaskId(0, 3)
WRITER = "0123456789abcdef"


def chain_of(objects: ObjectStore, application_id: str = APPLICATION, task_id: TaskId = TASK) -> ManifestChain:
    return ManifestChain(objects, application_id, task_id)


def writer_of(objects: ObjectStore, instance: str = "pod-1", task_id: TaskId = TASK) -> SnapshotWriter:
    return SnapshotWriter(chain_of(objects, task_id=task_id), instance, MockClock(1_700_000_000_000), uploads=2)


def checkpoint(directory: Path, tables: Mapping[int, bytes], *, links: Path | None = None) -> Path:
    """A directory with these SST files by number; ``links`` is an earlier one whose equal files are linked."""
    directory.mkdir(parents=True)
    files = {f"{number:06d}.sst": data for number, data in tables.items()}
    manifest = b"MANIFEST of " + ",".join(sorted(files)).encode()
    files |= {"CURRENT": b"MANIFEST-000005\n", "MANIFEST-000005": manifest, "OPTIONS-000007": b"[Version]"}
    for name, data in files.items():
        earlier = links / name if links else None
        if earlier is not None and name.endswith(".sst") and earlier.exists():
            os.link(earlier, directory / name)
        else:
            (directory / name).write_bytes(data)
    (directory / "000004.log").touch()
    (directory / "rocksdict-config.json").write_text("{}", encoding="utf-8")
    return directory


def content_of(offset: int) -> SnapshotContent:
    """Returns the content that a checkpoint stands for at this offset of its changelog."""
    point = StorePoint("kv/counts", "orders-counts-changelog", TASK.partition, "id-of-topic", offset)
    return SnapshotContent({"counts": point}, (InputPoint("orders", TASK.partition, 2 * offset, "AQID"),), "f" * 64)


def files_in(directory: Path) -> dict[str, bytes]:
    """A folder's files and what is in them; a folder in it is shown as such."""
    return {path.name: path.read_bytes() if path.is_file() else b"<folder>" for path in directory.iterdir()}


def saved_files(directory: Path) -> dict[str, bytes]:
    """Returns the files of a checkpoint that belong to its snapshot."""
    files = files_in(directory)
    del files["000004.log"], files["rocksdict-config.json"]
    return files


def a_file(name: str = "000008.sst", data: bytes = b"data", number: int = 2) -> SnapshotFile:
    digest = hashlib.sha256(data).hexdigest()
    return SnapshotFile(name, len(data), digest, object_name(f"1-{WRITER}", number, name, digest))


def a_snapshot(number: int = 2, files: tuple[SnapshotFile, ...] | None = None) -> Snapshot:
    if files is None:
        files = (a_file(), a_file("CURRENT", b"MANIFEST-000005\n"), a_file("MANIFEST-000005", b"edits"))
    content = content_of(42)
    return Snapshot(
        version=1,
        application_id=APPLICATION,
        task=str(TASK),
        number=number,
        epoch=1,
        writer=WRITER,
        instance="pod-1",
        created_at="2026-01-01T00:00:00.000Z",
        written_at="2026-01-01T00:00:00.000Z",
        fingerprint=content.fingerprint,
        stores=content.stores,
        inputs=content.inputs,
        files=files,
    )


def claimed(objects: ObjectStore, instance: str = "pod-1") -> SnapshotWriter:
    """A writer that owns the task."""
    writer = writer_of(objects, instance)
    writer.claim()
    return writer


def published(writer: SnapshotWriter, directory: Path, offset: int) -> Snapshot:
    """Publishes a checkpoint that is not the last one again, and returns the snapshot."""
    snapshot = writer.publish(directory, content_of(offset))
    assert snapshot is not None
    return snapshot


def stored(objects: MemoryObjects, snapshot: Snapshot) -> dict[str, bytes]:
    """The files of a snapshot as the object store has them."""
    return {file.name: objects.objects[f"orders/0_3/{file.object}"] for file in snapshot.files}

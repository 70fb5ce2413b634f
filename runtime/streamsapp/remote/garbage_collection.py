"""Deletes what no snapshot of a task needs any more, and no process may still be reading.

Called on the snapshot threads by the task's owner, now and then after it published. An owner that lost the task without
knowing it does no harm. Later manifests refer to files of manifests that it keeps, and to files of later numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import ObjectInfo, ObjectMissingError
from streamsapp.remote.snapshot import Snapshot, SnapshotInvalidError, object_number


class CollectedObjects(NamedTuple):
    """The objects that were deleted."""

    manifests: int
    files: int
    bytes: int


def collect(chain: ManifestChain, retain: int, grace: float) -> CollectedObjects:
    """Keep the newest ``retain`` snapshots, and all that a reader may have begun with in the last ``grace`` seconds.

    Time is the object store's: the newest manifest says what time it is. Files go in a round after their last
    manifest; while a manifest cannot be read, none do, for it may need any of them.
    """
    manifests = chain.manifests()
    if not manifests:
        return CollectedObjects(0, 0, 0)
    horizon = manifests[max(manifests)].modified - timedelta(seconds=grace)
    snapshots = _read(chain, manifests)
    dead = _dead_manifests(manifests, snapshots, retain, horizon)
    files = [] if None in snapshots.values() else _dead_files(chain, snapshots, horizon)
    chain.objects.delete([manifests[number].key for number in dead])
    chain.objects.delete([info.key for info in files])
    return CollectedObjects(len(dead), len(files), sum(info.size for info in files))


def _read(chain: ManifestChain, manifests: Mapping[int, ObjectInfo]) -> dict[int, Snapshot | None]:
    """Reads the manifests by number, newest first; ``None`` stands for a manifest that cannot be used."""
    snapshots: dict[int, Snapshot | None] = {}
    for number in sorted(manifests, reverse=True):
        try:
            snapshots[number] = chain.read(number)
        except (SnapshotInvalidError, ObjectMissingError):
            snapshots[number] = None
    return snapshots


def _dead_manifests(
    manifests: Mapping[int, ObjectInfo], snapshots: Mapping[int, Snapshot | None], retain: int, horizon: datetime
) -> list[int]:
    """Oldest first. Claims that repeat a snapshot count as one with it."""
    kept = 0
    counted: Snapshot | None = None
    superseded: datetime | None = None  # when readers ceased to begin with the manifest looked at
    for number, snapshot in snapshots.items():
        if kept >= retain and superseded is not None and superseded <= horizon:
            return sorted(other for other in snapshots if other <= number)
        if snapshot is None or not snapshot.files:
            continue
        if counted is None or snapshot.files != counted.files:
            kept, counted = kept + 1, snapshot
        superseded = manifests[number].modified
    return []


def _dead_files(chain: ManifestChain, snapshots: Mapping[int, Snapshot | None], horizon: datetime) -> list[ObjectInfo]:
    needed = {chain.file_key(file) for found in snapshots.values() if found is not None for file in found.files}
    newest = max(snapshots)
    return [info for info in _files_up_to(chain, newest) if info.key not in needed and info.modified <= horizon]


def _files_up_to(chain: ManifestChain, newest: int) -> Iterator[ObjectInfo]:
    """Later numbers are being uploaded; other names are not ours."""
    for info in chain.objects.list(f"{chain.folder}files/"):
        number = object_number(info.key.removeprefix(chain.folder))
        if number is not None and number <= newest:
            yield info

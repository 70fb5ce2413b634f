"""The chain of a task's manifests: numbered from 1, each appended once and never changed.

Used on the snapshot threads and by commands; safe on several threads. The newest number is known by the keys alone, so
a damaged manifest still counts. A writer can never be made to write a number again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator

from streamsapp.record import TaskId
from streamsapp.remote.object_store import ObjectDamagedError, ObjectInfo, ObjectMissingError, ObjectStore
from streamsapp.remote.snapshot import (
    DOCUMENT_LIMIT,
    Snapshot,
    SnapshotFile,
    SnapshotInvalidError,
    decode,
    encode,
)

log = logging.getLogger(__name__)

_MANIFEST = re.compile(r"([0-9]{16})\.json")

#: No chain of ours leaves out so many numbers: each would have been a snapshot, since deleted.
_LONGEST_GAP = 10**9


class ManifestChain:
    """The manifests of one task. Errors of the object store come through."""

    def __init__(self, objects: ObjectStore, application_id: str, task_id: TaskId) -> None:
        self.objects = objects
        self.application_id = application_id
        self.task_id = task_id
        #: The place where everything of the task is.
        self.folder = f"{application_id}/{task_id}/"

    def numbers(self) -> list[int]:
        """The numbers there are, newest first."""
        return sorted(self.manifests(), reverse=True)

    def manifests(self) -> dict[int, ObjectInfo]:
        """The manifests there are, whatever is in them, by number. One far above all others is none of ours: if it
        counted, a single object could use up the numbers that there are."""
        prefix = f"{self.folder}manifests/"
        found = ((_MANIFEST.fullmatch(info.key.removeprefix(prefix)), info) for info in self.objects.list(prefix))
        named = {int(name[1]): info for name, info in found if name and int(name[1])}
        believed = list(_without_gap(named))
        if len(believed) < len(named):
            foreign = min(named.keys() - set(believed))
            log.warning(
                "snapshot %d of task %s was not written by this application: no chain has that number; delete it",
                foreign,
                self.task_id,
            )
        return {number: named[number] for number in believed}

    def read(self, number: int) -> Snapshot:
        """Raises ``SnapshotInvalidError`` for an unusable snapshot, ``ObjectMissingError`` if there is none."""
        try:
            data = self.objects.read(self.manifest_key(number), DOCUMENT_LIMIT)
        except ObjectDamagedError as error:
            raise SnapshotInvalidError(f"snapshot {number} of task {self.task_id} is damaged: {error}") from error
        return decode(data, self.application_id, self.task_id, number)

    def valid(self, numbers: list[int]) -> Iterator[Snapshot]:
        """Returns the snapshots that can be used; a warning names the faults of the others."""
        for number in numbers:
            try:
                snapshot = self.read(number)
            except ObjectMissingError:
                log.info("snapshot %d of task %s was deleted meanwhile", number, self.task_id)
            except SnapshotInvalidError as error:
                log.warning("%s; the one before is tried", error)
            else:
                yield snapshot

    def newest(self, objection: Callable[[Snapshot], str | None] = lambda _: None) -> tuple[int, Snapshot | None]:
        """The highest number, 0 if there is none, and the newest snapshot that can be used."""
        numbers = self.numbers()
        found = (it for it in self.valid(numbers) if objection(it) is None)
        return (numbers[0] if numbers else 0), next(found, None)

    def append(self, snapshot: Snapshot) -> None:
        """Raises ``ObjectExistsError`` if there is a snapshot of this number. A document that could not be read back is
        not written."""
        data = encode(snapshot)
        decode(data, self.application_id, self.task_id, snapshot.number)
        self.objects.put_new(self.manifest_key(snapshot.number), data)

    def manifest_key(self, number: int) -> str:
        return f"{self.folder}manifests/{number:016d}.json"

    def file_key(self, file: SnapshotFile) -> str:
        return self.folder + file.object

    def file_sizes(self) -> dict[str, int]:
        """Returns the size in bytes of each object that holds a file, by its key, as the object store lists it."""
        return {info.key: info.size for info in self.objects.list(f"{self.folder}files/")}


def _without_gap(numbers: Iterable[int]) -> Iterator[int]:
    last = 0
    for number in sorted(numbers):
        if number - last > _LONGEST_GAP:
            return
        yield number
        last = number


def objects_of(objects: ObjectStore, application_id: str) -> Iterator[tuple[TaskId, ObjectInfo]]:
    """Returns all objects that an application has in the store; other objects beside them are not its own."""
    own = re.compile(rf"{re.escape(application_id)}/([0-9]+_[0-9]+)/(?:manifests|files)/.+")
    for info in objects.list(f"{application_id}/"):
        found = own.fullmatch(info.key)
        if found:
            yield TaskId.parse(found[1]), info


def chains_of(objects: ObjectStore, application_id: str) -> list[ManifestChain]:
    """A chain for each task that has anything in the store, by task."""
    tasks = sorted({task_id for task_id, _ in objects_of(objects, application_id)})
    return [ManifestChain(objects, application_id, task_id) for task_id in tasks]

"""Publishes the snapshots of a task, as long as no other writer has claimed it.

One per life of an active task, used by one snapshot thread at a time; other threads may read ``epoch`` and ``last``. To
*claim* is to append a manifest to the task's chain; its number is the writer's epoch. From then on the writer appends
at its own last number + 1 and nowhere else. At its next snapshot it finds out that another writer claimed the task.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from streamsapp.clock import Clock
from streamsapp.errors import FencedError, StateStoreError, StreamsError
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import Moved, ObjectExistsError, ObjectMissingError, unobserved
from streamsapp.remote.pieces import MOST_BYTES, FileContent, describe
from streamsapp.remote.snapshot import (
    VERSION,
    InputPoint,
    Snapshot,
    SnapshotFile,
    SnapshotInvalidError,
    StorePoint,
    is_file_name,
    object_name,
    timestamp,
)

log = logging.getLogger(__name__)

#: Snapshots until the writer looks again whether the objects it relies on are still there.
_CHECK_EVERY = 20

#: Files that a checkpoint holds besides: a log, which is empty because a checkpoint flushes, and settings of the
#: bindings.
_NOT_NEEDED = re.compile(r"[0-9]+\.log|rocksdict-config\.json")


class SnapshotFencedError(FencedError):
    """Raised if another writer has claimed the task; the message names the writer and the time."""


@dataclass(frozen=True)
class SnapshotContent:
    """The state that the files of a checkpoint stand for."""

    stores: dict[str, StorePoint]
    inputs: tuple[InputPoint, ...]
    fingerprint: str


class _Identity(NamedTuple):
    """A file that has not changed since it was hashed: checkpoints are hard links."""

    name: str
    size: int
    mtime_ns: int
    inode: int


class ClaimGivenUpError(StreamsError):
    """The task has left, or others may have taken it over, before it was claimed."""


class SnapshotWriter:
    """The writer of one task's chain. After ``SnapshotFencedError`` it refuses everything."""

    def __init__(self, chain: ManifestChain, instance: str, clock: Clock, *, uploads: int = 4) -> None:
        """``uploads`` is the number of files that are sent at the same time."""
        self._chain = chain
        self._instance = instance
        self._clock = clock
        self._uploads = uploads
        self._last: Snapshot | None = None
        self._fenced: SnapshotFencedError | None = None
        self._described: dict[_Identity, FileContent] = {}
        #: For the next snapshot; a try that failed leaves them here.
        self._uploaded: set[str] = set()
        #: Objects of earlier snapshots that no later one may rely on.
        self._lost: set[str] = set()
        #: Snapshots until they are looked for; the first one does: others wrote the files that a claim repeats.
        self._until_check = 0

    @property
    def epoch(self) -> int | None:
        """``None`` until the task is claimed."""
        return self._last.epoch if self._last is not None else None

    @property
    def last(self) -> Snapshot | None:
        """The claim, or the snapshot published since."""
        return self._last

    def claim(
        self,
        objection: Callable[[Snapshot], str | None] = lambda _: None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> Snapshot:
        """Take the task over from the previous writer. The claim repeats the newest snapshot that can be used, and to
        which there is no ``objection``. Raises ``ClaimGivenUpError`` if it was not ``wanted`` any more when everything
        was read."""
        self._refuse_if_fenced()
        while True:
            number, before = self._chain.newest(objection)
            claimed = self._claim_of(number + 1, before)
            if not wanted():  # others may have claimed it meanwhile, and rightly
                raise ClaimGivenUpError(f"task {self._chain.task_id} is not to be claimed any more")
            try:
                self._chain.append(claimed)
            except ObjectExistsError:
                if self._read_if_own(claimed.number, claimed.writer) is None:
                    continue  # another claim, or a last snapshot of the writer before
            self._last = claimed
            self._uploaded.clear()
            return claimed

    def publish(
        self,
        directory: Path,
        content: SnapshotContent,
        moved: Moved = unobserved,
        verify: Callable[[Collection[Path]], None] = lambda _: None,
    ) -> Snapshot | None:
        """Append a snapshot of the checkpoint in ``directory``; ``None`` if it is the last one again.

        After an ``ObjectStoreError`` it may be tried again, with the same checkpoint or a later one. ``verify`` raises
        for files that are damaged; it gets the files that the last snapshot does not have, before any is sent.
        """
        began = last = self.confirm()
        paths = list(_files_of(directory))
        self._look_for_lost(last)
        while ((files := self._store(paths, last, moved, verify)), content.stores, content.inputs) != _content(last):
            self._append(last, content, files)
            # An old number is free again once it was collected: only the newest one counts.
            last = self.confirm()
        return None if last is began else last

    def confirm(self) -> Snapshot:
        """The last snapshot, if it is the newest of the chain still; raises ``SnapshotFencedError`` if it is not."""
        self._refuse_if_fenced()
        if self._last is None:
            raise StateStoreError(
                f"task {self._chain.task_id} publishes snapshots before it is claimed; claim it first"
            )
        newest = max(self._chain.manifests(), default=0)
        if newest < self._last.number:
            raise self._fence("its snapshots were deleted while it ran")
        while self._last.number < newest:
            self._last = self._own_next(self._last)
            self._uploaded.clear()
        return self._last

    def _look_for_lost(self, last: Snapshot) -> None:
        """Objects of the last snapshot that are gone or cut off, by no doing of ours; looked for now and then."""
        self._until_check -= 1
        if self._until_check >= 0:
            return
        there = self._chain.file_sizes()
        lost = {file.object for file in last.files if there.get(self._chain.file_key(file)) != file.size}
        self._lost |= lost
        self._until_check = _CHECK_EVERY
        if lost:
            log.warning(
                "task %s: %d objects of its snapshot %d were deleted or cut off, such as %s; they are uploaded again",
                self._chain.task_id, len(lost), last.number, min(lost),
            )  # fmt: skip

    def _append(self, last: Snapshot, content: SnapshotContent, files: tuple[SnapshotFile, ...]) -> None:
        now = timestamp(self._clock.now_ms())
        snapshot = msgspec.structs.replace(
            last,
            number=last.number + 1,
            created_at=now,
            written_at=now,
            fingerprint=content.fingerprint,
            stores=content.stores,
            inputs=content.inputs,
            files=files,
        )
        with suppress(ObjectExistsError):  # an earlier try went through, or another writer's did: confirming finds out
            self._chain.append(snapshot)
            self._last = snapshot
            self._uploaded.clear()

    def _own_next(self, last: Snapshot) -> Snapshot:
        """Returns the manifest after ``last`` if it is a try of ours that had gone through unnoticed."""
        own = self._read_if_own(last.number + 1, last.writer)
        if own is None:
            raise self._fence(self._successor())
        return own

    def _read_if_own(self, number: int, writer: str) -> Snapshot | None:
        try:
            found = self._chain.read(number)
        except (SnapshotInvalidError, ObjectMissingError):
            return None
        return found if found.writer == writer else None

    def _claim_of(self, number: int, before: Snapshot | None) -> Snapshot:
        now = timestamp(self._clock.now_ms())
        writer = secrets.token_hex(8)
        if before is not None:
            return msgspec.structs.replace(
                before, number=number, epoch=number, writer=writer, instance=self._instance, written_at=now
            )
        return Snapshot(
            version=VERSION,
            application_id=self._chain.application_id,
            task=str(self._chain.task_id),
            number=number,
            epoch=number,
            writer=writer,
            instance=self._instance,
            created_at=now,
            written_at=now,
            fingerprint="",
            stores={},
            inputs=(),
            files=(),
        )

    def _store(
        self, paths: list[Path], last: Snapshot, moved: Moved, verify: Callable[[Collection[Path]], None]
    ) -> tuple[SnapshotFile, ...]:
        """The files as the next snapshot has them; the files that the last one does not have are uploaded."""
        known = {file.content: file for file in last.files if file.object not in self._lost}
        every: dict[_Identity, FileContent] = {}
        in_pieces = sum(path.stat().st_size for path in paths) <= MOST_BYTES

        def described(path: Path) -> SnapshotFile:
            identity = _identity(path)
            sha256, pieces = every[identity] = self._described.get(identity) or describe(path)
            same = known.get((path.name, identity.size, sha256))
            name = object_name(last.claim_id, last.number + 1, path.name, sha256) if same is None else same.object
            return SnapshotFile(path.name, identity.size, sha256, name, pieces if in_pieces else None)

        with ThreadPoolExecutor(self._uploads, "snapshot-upload") as pool:
            try:
                files = tuple(pool.map(described, paths))
            finally:
                self._described = every
            there = self._uploaded | {file.object for file in known.values()}
            new = {path: file for path, file in zip(paths, files, strict=True) if file.object not in there}
            verify(new.keys())
            list(pool.map(lambda path: self._upload(path, new[path], moved), new))
        return files

    def _upload(self, path: Path, file: SnapshotFile, moved: Moved) -> None:
        self._chain.objects.upload(self._chain.file_key(file), path, moved)
        self._uploaded.add(file.object)

    def _refuse_if_fenced(self) -> None:
        if self._fenced is not None:
            raise self._fenced

    def _fence(self, reason: str) -> SnapshotFencedError:
        self._fenced = SnapshotFencedError(
            f"task {self._chain.task_id} stops here, this instance may no longer write its snapshots: {reason}"
        )
        return self._fenced

    def _successor(self) -> str:
        number, found = self._chain.newest()
        if found is None or found.number < number:
            return f"somebody else wrote number {number}, which cannot be read"
        return f"{found.instance} claimed it with epoch {found.epoch}, and wrote number {number} at {found.written_at}"


def _content(snapshot: Snapshot) -> tuple[object, ...]:
    return snapshot.files, snapshot.stores, snapshot.inputs


def _files_of(directory: Path) -> Iterator[Path]:
    """The files of a checkpoint that make up a snapshot, by name."""
    for path in sorted(directory.iterdir()):
        if is_file_name(path.name):
            yield path
        elif not _NOT_NEEDED.fullmatch(path.name) or (path.suffix == ".log" and path.stat().st_size):
            raise StateStoreError(f"{path} is not a file of a flushed checkpoint; the snapshot is not taken")


def _identity(path: Path) -> _Identity:
    found = path.stat()
    return _Identity(path.name, found.st_size, found.st_mtime_ns, found.st_ino)

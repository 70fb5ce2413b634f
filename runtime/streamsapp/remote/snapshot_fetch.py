"""Brings a task's newest usable snapshot to an empty disk.

Called on the snapshot threads. Nothing in the object store is believed before it was checked. One warning names the
fault of a snapshot, and the snapshot before it is tried; after the last, the changelog is there. Nothing is written
outside of the task's directory, and a database appears in it whole or not at all.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from streamsapp.errors import StateStoreError
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import Moved, ObjectDamagedError, ObjectMissingError, ObjectStoreError, unobserved
from streamsapp.remote.partial_files import PartialFiles, may_be_partial
from streamsapp.remote.snapshot import Snapshot, SnapshotFile, SnapshotInvalidError
from streamsapp.state.engine.missing_blocks import INCOMPLETE

log = logging.getLogger(__name__)

#: The name of the database in a task's directory, as the room of stores has it.
DATABASE = "rocksdb"

_LEFTOVERS = "snapshot-*.part"

#: The number of times that the chain is listed again because files were collected under our hands.
_LOOK_UPS = 5

#: Files that are there and verified, by what they must be.
Verified: TypeAlias = dict[tuple[str, int, str], Path]


def fetch(
    chain: ManifestChain,
    directory: Path,
    acceptable: Callable[[Snapshot], str | None],
    limit: int,
    moved: Moved = unobserved,
    cancelled: Callable[[], bool] = lambda: False,
    *,
    downloads: int = 16,
    verified: Verified | None = None,
    partial: PartialFiles | None = None,
    promised: Callable[[], int] = lambda: 0,
) -> Snapshot | None:
    """Leave the files of the newest usable snapshot in ``<directory>/rocksdb``, instead of the files that are there.

    ``acceptable`` returns why a snapshot is not wanted. ``None``: no snapshot can be used, or ``cancelled``; the
    database that was there, if any, is untouched. The object store's errors come through when it is out of reach. A
    caller that gave ``verified``, empty at first, may call again with it then: files that are there are not downloaded
    once more. With ``partial`` large tables are left to it: the database can be opened with what is here.

    ``promised`` returns the bytes that files of other tasks on this disk will still take. Raises ``StateStoreError``
    before anything is downloaded where the snapshot does not fit beside them.
    """
    files = _Downloads(chain, moved, cancelled, {} if verified is None else verified, downloads, partial, promised)
    return _Fetch(chain, directory, acceptable, limit, files, may_go_on=verified is not None).run()


class _Cancelled(Exception):
    """The snapshot is not wanted any more."""


class _CollectedError(Exception):
    """A file is gone, and the chain is longer than it was: the snapshot was collected."""


class _Downloads:
    """Brings the files of snapshots, several at a time; files that were verified before are not brought again."""

    def __init__(
        self,
        chain: ManifestChain,
        moved: Moved,
        cancelled: Callable[[], bool],
        verified: Verified,
        number: int,
        partial: PartialFiles | None,
        promised: Callable[[], int],
    ) -> None:
        """``verified``: files of a snapshot that was given up, as the previous snapshot has most of them too."""
        self.partial = partial
        self._chain = chain
        self._moved = moved
        self._cancelled = cancelled
        self.verified = verified
        self._number = number
        self._promised = promised

    def refuse_without_room(self, snapshot: Snapshot, directory: Path) -> None:
        """Raises ``StateStoreError`` where the files do not fit on the disk. The changelog is no way out, as the state
        that is in it needs the same room. A manifest whose sizes are not those of its objects is no reason: the
        download finds what is wrong."""
        needed, promised, usage = self.missing_bytes(snapshot.files), self._promised(), shutil.disk_usage(directory)
        lacking = needed + promised - usage.free
        if lacking <= 0 or not self._sizes_are_true(snapshot):
            return
        others = f", of which files of its other tasks will take {promised}" if promised else ""
        raise StateStoreError(
            f"the state of task {snapshot.task} needs {needed} bytes, and the disk of {directory} has {usage.free} "
            f"free{others}: {lacking} bytes are missing. Give the state a volume of {usage.total + lacking} bytes at "
            "least, and a tenth more for merging files, or run more instances, so that each has fewer tasks"
        )

    def _sizes_are_true(self, snapshot: Snapshot) -> bool:
        found = self._chain.file_sizes()
        return all(found.get(self._chain.file_key(file)) == file.size for file in snapshot.files)

    def missing_bytes(self, files: Iterable[SnapshotFile]) -> int:
        """The bytes of files that are still to be brought."""
        return sum(file.size for file in files if file.content not in self.verified)

    def bring(self, files: Iterable[SnapshotFile], part: Path) -> None:
        """Brings files to the directory ``part``, the largest first."""
        largest_first = sorted(files, key=lambda file: -file.size)
        missing = max(1, self.missing_bytes(largest_first))
        with ThreadPoolExecutor(self._number, "snapshot-download") as pool:
            list(pool.map(lambda file: self._bring(file, part / file.name, file.size / missing), largest_first))

    def _bring(self, file: SnapshotFile, target: Path, share: float) -> None:
        """Brings one file, and counts it as verified only if it has the bytes that were written."""
        self.stop_if_cancelled()
        self._moved(0)
        here = self.verified.pop(file.content, None)
        if here is not None:
            here.rename(target)
        elif self.partial is not None and may_be_partial(file):
            self.partial.begin(file, target)
            return
        else:
            sha256 = self._chain.objects.download(self._chain.file_key(file), target, file.size, self._moved, share)
            _verify(file, target, sha256)
        self.verified[file.content] = target

    def stop_if_cancelled(self) -> None:
        """Raises ``_Cancelled`` when the snapshot is not wanted any more."""
        if self._cancelled():
            raise _Cancelled


class _Fetch:
    """The state of one call of :func:`fetch`."""

    def __init__(
        self,
        chain: ManifestChain,
        directory: Path,
        acceptable: Callable[[Snapshot], str | None],
        limit: int,
        downloads: _Downloads,
        *,
        may_go_on: bool,
    ) -> None:
        self._chain = chain
        self._directory = directory
        self._acceptable = acceptable
        self._limit = limit
        self._downloads = downloads
        #: Says whether another call may continue with what this one has brought.
        self._may_go_on = may_go_on
        self._look_ups = _LOOK_UPS

    def run(self) -> Snapshot | None:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            if not self._downloads.verified:
                self._remove_leftovers()
            kept = False
            try:
                return self._newest_usable()
            except ObjectStoreError:
                kept = self._may_go_on
                raise
            finally:
                if not kept:
                    self._remove_leftovers()
        except _Cancelled:
            return None
        except OSError as error:
            raise StateStoreError(
                f"a snapshot of task {self._chain.task_id} cannot be written to {self._directory}: {error}; "
                "free or enlarge the disk of the state directory, and give this user the right to write there"
            ) from error

    def _newest_usable(self) -> Snapshot | None:
        while True:
            numbers = self._chain.numbers()
            newest = max(numbers, default=0)
            try:
                found = next((it for it in self._chain.valid(numbers) if self._restore(it, newest)), None)
            except _CollectedError as error:
                log.info("snapshots of task %s: %s; the newest is looked up again", self._chain.task_id, error)
            else:
                if found is not None or not self._has_grown(newest):
                    return found

    def _has_grown(self, newest: int) -> bool:
        """Says whether there are newer snapshots by now, so that a missing object may just have been collected."""
        if not self._look_ups or max(self._chain.manifests(), default=0) <= newest:
            return False
        self._look_ups -= 1
        return True

    def _restore(self, snapshot: Snapshot, newest: int) -> bool:
        """Restores the database and says whether it is there now; ``newest`` is the highest number as it was listed."""
        if not snapshot.files:
            return False
        partial = self._downloads.partial
        part = self._directory / f"snapshot-{snapshot.number}.part"
        try:
            self._check(snapshot)
            self._download(snapshot, part, newest)
            _check_current(snapshot, part)
        except SnapshotInvalidError as error:
            log.warning("snapshot %d of task %s: %s; the one before is tried", snapshot.number, snapshot.task, error)
            if partial is not None:
                partial.forget()
            return False
        self._downloads.stop_if_cancelled()
        if partial is not None and partial.missing_bytes:
            (part / INCOMPLETE).touch()
        _remove(self._directory / DATABASE)
        part.rename(self._directory / DATABASE)
        return True

    def _check(self, snapshot: Snapshot) -> None:
        """Checks everything that can be known before anything is downloaded."""
        reason = self._acceptable(snapshot)
        if reason is not None:
            raise SnapshotInvalidError(reason)
        if snapshot.total_bytes > self._limit:
            raise SnapshotInvalidError(f"it has {snapshot.total_bytes} bytes, at most {self._limit} are allowed")
        self._downloads.refuse_without_room(snapshot, self._directory)

    def _download(self, snapshot: Snapshot, part: Path, newest: int) -> None:
        part.mkdir(exist_ok=True)  # by this call: leftovers of others are gone
        try:
            self._downloads.bring(snapshot.files, part)
        except ObjectMissingError as error:
            if self._has_grown(newest):
                raise _CollectedError(str(error)) from error
            raise SnapshotInvalidError(f"its file is missing: {error}") from error
        except ObjectDamagedError as error:
            raise SnapshotInvalidError(f"its file is damaged: {error}") from error

    def _remove_leftovers(self) -> None:
        for path in self._directory.glob(_LEFTOVERS):
            _remove(path)


def _verify(file: SnapshotFile, path: Path, sha256: str) -> None:
    if sha256 != file.sha256:
        path.unlink()
        raise SnapshotInvalidError(f"its file {file.name} is damaged: the sha256 of what was downloaded differs")


def _check_current(snapshot: Snapshot, directory: Path) -> None:
    """``CURRENT`` is the one file whose text is taken for the name of another."""
    text = (directory / "CURRENT").read_bytes()
    if text.decode("ascii", "replace").removesuffix("\n") not in {file.name for file in snapshot.files}:
        raise SnapshotInvalidError(f"its file CURRENT names {text[:100]!r}, which is not one of its files")


def _remove(path: Path) -> None:
    """Removes a file, a folder or a link; a link is removed, not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

"""Reads snapshots again, all of them, and reports what is not as it was written.

Called by commands, on the main thread. Changes nothing; may run beside the application.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import uuid4

from streamsapp.errors import StreamsError
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import Moved, ObjectDamagedError, ObjectMissingError, unobserved
from streamsapp.remote.snapshot import Snapshot, SnapshotFile, SnapshotInvalidError


@dataclass
class Verification:
    """The files that are to be read of one task, and the faults that were found."""

    chain: ManifestChain
    snapshots: list[Snapshot] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def files(self) -> dict[SnapshotFile, list[int]]:
        """Each file once, with the numbers of the snapshots that need it."""
        files: dict[SnapshotFile, list[int]] = {}
        for snapshot in self.snapshots:
            for file in snapshot.files:
                files.setdefault(file, []).append(snapshot.number)
        return files


def read_manifests(chain: ManifestChain, *, every: bool) -> Verification:
    """The newest snapshot that a restore would begin with, or ``every`` one; faults of manifests are found."""
    verification = Verification(chain)
    numbers = chain.numbers()
    for number, next_number in zip(numbers[1:], numbers, strict=False):
        for missing in range(number + 1, next_number):
            verification.faults.append(f"task {chain.task_id}: the manifest of snapshot {missing} is missing")
    for number in numbers:
        try:
            verification.snapshots.append(chain.read(number))
        except SnapshotInvalidError as error:
            verification.faults.append(str(error))
        except ObjectMissingError:
            continue  # collected since it was listed
        else:
            if not every and verification.snapshots[-1].files:
                break
    return verification


def verify_files(verifications: Iterable[Verification], moved: Moved = unobserved, *, downloads: int = 4) -> None:
    """Download and hash every file; errors are added to the faults."""
    try:
        with tempfile.TemporaryDirectory(prefix="streamsapp-verify-") as folder:
            _verify_files(verifications, Path(folder), moved, downloads)
    except OSError as error:
        raise StreamsError(f"no room to download a file of a snapshot to: {error}; set TMPDIR to a folder") from error


def _verify_files(verifications: Iterable[Verification], folder: Path, moved: Moved, downloads: int) -> None:
    with ThreadPoolExecutor(downloads) as pool:
        for verification in verifications:
            chain, files = verification.chain, verification.files
            texts = pool.map(partial(_fault, chain, folder, moved), files)
            found = ((file, numbers, text) for (file, numbers), text in zip(files.items(), texts, strict=True) if text)
            verification.faults.extend(_lines(chain, found))


def _lines(chain: ManifestChain, found: Iterable[tuple[SnapshotFile, list[int], str]]) -> Iterator[str]:
    present: set[int] | None = None
    for file, numbers, text in found:
        present = set(chain.numbers()) if present is None else present
        for number in present.intersection(numbers):  # not files that were collected meanwhile
            yield f"snapshot {number} of task {chain.task_id}: {file.name}: {text}"


def _fault(chain: ManifestChain, folder: Path, moved: Moved, file: SnapshotFile) -> str | None:
    target = folder / uuid4().hex
    try:
        digest = chain.objects.download(chain.file_key(file), target, file.size, moved)
    except (ObjectMissingError, ObjectDamagedError) as error:
        return str(error)
    target.unlink()
    return None if digest == file.sha256 else f"{chain.file_key(file)} has sha256 {digest} instead of {file.sha256}"

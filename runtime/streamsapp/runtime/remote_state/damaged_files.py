"""Files that turned out to be damaged: no snapshot may bring them back.

Noted on the polling and restoration threads when a task's state is found damaged, asked on the threads that fetch and
claim. Kept as long as the instance lives: a restart does not need it, as the next claim repeats no damaged snapshot.
"""

from __future__ import annotations

import re
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from streamsapp.errors import StateOutOfReachError
from streamsapp.record import TaskId
from streamsapp.remote.local_files import sha256_of
from streamsapp.remote.snapshot import FILE_NAME, Snapshot
from streamsapp.state.engine.missing_blocks import INCOMPLETE

#: Name, size and sha256 of a file.
_Content: TypeAlias = tuple[str, int, str]

_MENTIONED = re.compile(FILE_NAME)


class DamagedFiles:
    """The damaged files of an instance's tasks, by content: a snapshot that has one is refused, whichever instance
    wrote it."""

    def __init__(self) -> None:
        self._contents: dict[TaskId, set[_Content]] = {}
        self._lock = Lock()

    def note(self, task_id: TaskId, error: Exception, database: Path, began_with: Snapshot | None) -> None:
        """``error`` names the file as a rule. Where it does not, or the file is missing, the snapshot that the task
        ``began_with`` is not used again; files that were damaged here are in no snapshot, and refuse none. State
        out of reach is not damaged."""
        if isinstance(error, StateOutOfReachError):
            return
        names = set(_MENTIONED.findall(str(error)))
        if began_with is not None and (database / INCOMPLETE).exists():  # its files have holes
            self._refuse(task_id, {file.content for file in began_with.files if file.name in names})
            return
        mentioned = {path for name in names if (path := database / name).is_file()}
        found = {(path.name, path.stat().st_size, sha256_of(path)) for path in mentioned}
        if not found and began_with is not None:
            found = {file.content for file in began_with.files if file.name.startswith("MANIFEST")}
        self._refuse(task_id, found)

    def _refuse(self, task_id: TaskId, found: set[_Content]) -> None:
        with self._lock:
            self._contents.setdefault(task_id, set()).update(found)

    def objection(self, snapshot: Snapshot) -> str | None:
        """Returns why a snapshot is not to be used, if so."""
        with self._lock:
            damaged = self._contents.get(snapshot.task_id, set()) & {file.content for file in snapshot.files}
        return f"its file {min(damaged)[0]} is damaged, a task that used it found out" if damaged else None

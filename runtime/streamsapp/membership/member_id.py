"""The id under which an instance is in its group, and the ids of the processes before it in its state directory.

The coordinator waits for a dead member until its session ends. A process that has the lock of a state directory knows
that the process before it has ended, and takes that one's member out of the group. An id belongs to one process: no
other one ever uses it, so that nothing which is said of an ended process concerns a living one.
Used on the membership's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

#: More characters than a broker gives an id, and more earlier processes than a session lasts.
LONGEST, _MOST = 300, 20
#: Beside the tasks' directories.
_NAME = ".member-id"
#: Linux's name of its present start: a lock of a directory proves nothing about processes of another kernel.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class MemberId:
    """Empty while the coordinator has given none, or has forgotten it."""

    def __init__(self, directory: Path | None, on_change: Callable[[str], None] = lambda member_id: None) -> None:
        """``directory`` is this process's own, and where the processes before it left their ids; ``None`` keeps it
        nowhere. ``on_change`` is called with each new id, and with none."""
        self._file = file = None if directory is None else directory / _NAME
        self._on_change = on_change
        self._boot_id = _read(_BOOT_ID)
        self.value = ""
        #: Members of processes that ended here, which the group may still count.
        self.predecessors: list[str] = []
        if file is not None and self._boot_id:
            boot_id, *ids = _read(file).split("\n")
            if boot_id == self._boot_id:
                self.predecessors = [each for each in ids if 0 < len(each) <= LONGEST][-_MOST:]

    def set(self, value: str) -> None:
        """Empty: the group does not count this process, or another id is about to come."""
        if value == self.value:
            return
        self.value = value
        self._write()
        self._on_change(value)

    def forget(self, predecessor: str) -> None:
        """The group does not count this one any more."""
        self.predecessors.remove(predecessor)
        self._write()

    def _write(self) -> None:
        if self._file is None or not self._boot_id:
            return
        ids = [*self.predecessors, self.value] if self.value else self.predecessors
        try:
            if ids:
                self._file.write_text("\n".join([self._boot_id, *ids]), "ascii")
            else:
                self._file.unlink(missing_ok=True)
        except OSError as error:
            # An id that is out of date is no member's, and does no harm.
            log.warning("%s cannot be written (%s): after a crash the group waits for the session", self._file, error)


def _read(file: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):  # mostly, that there is none
        return file.read_text("ascii").strip()
    return ""

"""The id under which an instance is in its group, kept for the process that comes after it.

The coordinator waits for a dead member until its session ends. A process that has the lock of a state directory knows
that the process before it is dead, and takes its place at once. To the group, that member joins anew and has nothing.
Used on the membership's thread.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

#: Longer than any id that a broker gives; a longer text was not written here.
_LONGEST = 300


class MemberId:
    """Empty while the coordinator has given none, or has forgotten it."""

    def __init__(self, file: Path | None) -> None:
        """``file`` is this process's own, and where the process before it left its id; ``None`` keeps it nowhere."""
        self._file = file
        self.value = ""
        if file is not None:
            with suppress(OSError, UnicodeDecodeError):  # mostly, that there is none
                self.value = file.read_text("ascii")[:_LONGEST]

    def set(self, value: str) -> None:
        """Empty: the next process is a new member."""
        if value == self.value:
            return
        self.value = value
        if self._file is None:
            return
        try:
            if value:
                self._file.write_text(value, "ascii")
            else:
                self._file.unlink(missing_ok=True)
        except OSError as error:
            # An id that is out of date is refused by the coordinator, and then no worse than none.
            log.warning("%s cannot be written (%s): after a crash the group waits for the session", self._file, error)

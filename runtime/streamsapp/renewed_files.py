"""Files whose content others renew while the process runs, such as certificates.

Kubernetes points a link elsewhere for that (``..data``), others replace a file, or write into it: each changes what is
found behind the path. Used by each client that has such files, on its thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Seconds between two looks at files that are looked at again and again.
LOOK = 5.0


class RenewedFiles:
    """Some files and folders, as they were when they were read last."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Call before the files are read: files renewed meanwhile are found then."""
        self._paths = list(paths)
        self._seen = self._look()
        self._look_at = 0.0

    def renewed(self) -> bool:
        """True if they have changed since they were read; ``read`` comes next if they can be used."""
        return bool(self._paths) and self._look() != self._seen

    def renewed_by_now(self) -> bool:
        """As ``renewed``, for callers that ask often: the files are looked at every few seconds."""
        if not self._paths or (now := time.monotonic()) < self._look_at:
            return False
        self._look_at = now + LOOK
        return self.renewed()

    def read(self) -> None:
        """They are about to be read."""
        self._seen = self._look()

    def __str__(self) -> str:
        return ", ".join(self._paths)

    def _look(self) -> tuple[object, ...]:
        return tuple(each for path in self._paths for each in _signatures(Path(path)))


def _signatures(path: Path) -> Iterator[object]:
    """The figures that change with a file's content; that of a folder is its files'."""
    try:
        found = path.stat()
        yield (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if path.is_dir():
            for entry in sorted(os.scandir(path), key=lambda each: each.name):
                inside = entry.stat()
                yield (entry.name, inside.st_dev, inside.st_ino, inside.st_size, inside.st_mtime_ns)
    except OSError as error:
        yield error.errno

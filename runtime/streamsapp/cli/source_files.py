"""The files of an application's author, watched by the times at which they were saved.

Used by ``local --watch``, on the main thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

#: The time of the last change in nanoseconds, and the size.
_Stamp: TypeAlias = tuple[int, int]

#: More files than a user edits: a folder with more has other things than an application in it.
_MOST_FILES = 5_000


class SourceFiles:
    """A manifest, and the Python files in its folder and below: not in hidden folders, nor in environments."""

    def __init__(self, manifest: Path) -> None:
        self._manifest = manifest.absolute()
        self._told = self._last = self._stamps()

    def saved(self) -> list[str]:
        """Returns the files that were saved, made or removed since the last report; none while they still change from
        one call to the next."""
        now = self._stamps()
        still, self._last = now == self._last, now
        if not still or now == self._told:
            return []
        before, self._told = self._told, now
        changed = (path for path in now.keys() | before.keys() if now.get(path) != before.get(path))
        return sorted(str(path.relative_to(self._manifest.parent)) for path in changed)

    def _stamps(self) -> dict[Path, _Stamp]:
        stamps = {}
        for path in self._paths():
            try:
                found = path.stat()
            except OSError:  # it has gone since
                continue
            stamps[path] = (found.st_mtime_ns, found.st_size)
            if len(stamps) == _MOST_FILES:
                break
        return stamps

    def _paths(self) -> Iterator[Path]:
        yield self._manifest
        for folder, below, names in os.walk(self._manifest.parent):
            below[:] = sorted(name for name in below if not _is_strange(Path(folder, name)))
            yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def _is_strange(folder: Path) -> bool:
    """Says whether what is in it was not written by hand."""
    if folder.name.startswith((".", "__")) or folder.name == "node_modules":
        return True
    return os.path.exists(folder / "pyvenv.cfg")  # noqa: PTH110  # that of Path raises where one may not look

"""Damages the objects of a run at rest: bits flip, objects disappear. Called on the driver's main thread."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

from s3_server import BUCKET
from testbed import Testbed

#: Among so many that were written last: only the newest snapshots are used.
_RECENT = 30


class Damage:
    """Works on the files that the S3 server keeps objects in, behind its back."""

    def __init__(self, seed: int, testbed: Testbed) -> None:
        self._random = random.Random(seed)
        self._testbed = testbed

    def flip(self) -> None:
        """One bit of an object."""
        path = self._choose()
        if path is None:
            return
        with suppress(FileNotFoundError), path.open("r+b") as file:
            at = self._random.randrange(path.stat().st_size)
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << self._random.randrange(8)]))

    def delete(self) -> None:
        """One object."""
        path = self._choose()
        if path is not None:
            path.unlink(missing_ok=True)

    def _choose(self) -> Path | None:
        written: list[tuple[int, Path]] = []
        for path in (self._testbed.s3.objects / BUCKET).glob("soak-*/*/*/**/*"):
            with suppress(FileNotFoundError):  # collected meanwhile
                status = path.stat()
                if path.is_file() and status.st_size:
                    written.append((status.st_mtime_ns, path))
        recent = [path for _, path in sorted(written)[-_RECENT:]]
        return self._random.choice(recent) if recent else None

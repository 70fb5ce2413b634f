"""The folder of a driver in the temporary directory. Called on the driver's main thread.

It goes with the process. A process that is killed leaves it, and the next one that makes such a folder removes it: each
holds a lock on its own as long as it lives, which also distinguishes processes that have one process number in several
pods.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "streamsapp-driver-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@functools.cache
def private_folder() -> Path:
    """The same folder each time; made, and those of processes that are gone removed, when it is first asked for."""
    temporary = Path(tempfile.gettempdir())
    for left in temporary.glob(f"{_PREFIX}*"):
        _remove_if_left(left)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=temporary))
        with suppress(OSError):  # gone already, or on a disk without locks, where no process takes it for a leftover
            # Processes that are started do not get the descriptor, and this one closes it by its end.
            fcntl.flock(os.open(folder, _FOLDER), fcntl.LOCK_EX)
        if folder.exists():  # no process took it for a leftover before it was locked
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            return folder


def _remove_if_left(folder: Path) -> None:
    try:
        descriptor = os.open(folder, _FOLDER)
    except OSError:
        return  # gone, or another user's
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # in use
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)

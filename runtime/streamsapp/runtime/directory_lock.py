"""One instance per state directory. Taken when an instance starts and given back when it ends, on whatever thread."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

from streamsapp.errors import ConfigError, StateStoreError

_NAME = ".lock"


class DirectoryLock:
    """Held until it is released or the process ends."""

    def __init__(self, directory: Path) -> None:
        """Raises ``ConfigError`` if another instance has it."""
        path = directory / _NAME
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w")
        except OSError as error:
            raise StateStoreError(
                f"the state directory {directory} cannot be used: {error}; give this user the right to write there, or "
                "set another state directory"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise ConfigError(
                f"state_dir: another instance uses {directory} (its lock is {path}); give each instance a state "
                "directory of its own, or stop the other one"
            ) from error

    def release(self) -> None:
        """Others may have it."""
        self._file.close()


def delete_state(directory: Path) -> None:
    """Deletes an application's state directory. Raises ``ConfigError`` if an instance uses it, and ``StateStoreError``
    for what cannot be deleted."""
    if not directory.exists():
        return
    lock = DirectoryLock(directory)
    try:
        shutil.rmtree(directory)
    except OSError as error:
        raise StateStoreError(
            f"the state directory {directory} cannot be deleted: {error}; delete it by hand"
        ) from error
    finally:
        lock.release()

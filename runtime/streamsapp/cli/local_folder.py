"""The folder in which ``streamsapp local`` keeps an application: topics, state, snapshots and the broker's port.

It is ``.streamsapp/<application id>`` beside the manifest unless the user names another one, so that two projects never
share one. Used by ``local``, and by the commands that look at what it keeps or runs, on the main thread.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from streamsapp.errors import UserInputError
from streamsapp.local.broker import is_free, wait_until_ended

_LOCK, _PORT = "lock", "port"
#: The folders that are kept here, and forgotten by ``--fresh``.
_KEPT = ("kafka", "state", "snapshots")
#: Ports below the ones that systems give to clients.
_FIRST_PORT, _PORTS = 20_000, 10_000


class LocalFolder:
    """The folder of one application. Looking at it makes nothing; :meth:`in_use` makes it."""

    def __init__(self, manifest: Path, application_id: str, given: Path | None = None) -> None:
        """``given`` is the folder that the user names."""
        self.path = (given or manifest.parent / ".streamsapp" / application_id).resolve()
        self._own = given is None

    @property
    def kafka(self) -> Path:
        """The broker's data."""
        return self.path / "kafka"

    @property
    def state(self) -> Path:
        """State stores, unless the user has them elsewhere."""
        return self.path / "state"

    @property
    def snapshots(self) -> Path:
        """Snapshots, unless the manifest names an object store."""
        return self.path / "snapshots"

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """No other process uses it meanwhile; raises ``UserInputError`` where one does already."""
        with self._open_lock() as lock:
            lock.seek(0)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserInputError(
                    f"--data-dir: {self.path} is in use by another `streamsapp local` (process {lock.read().strip()}): "
                    "stop that one, or give this one a folder of its own"
                ) from None
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            yield

    def forget(self) -> None:
        """Remove topics, state and snapshots. The caller has the folder in use. The broker of a command that was killed
        may still write, and is waited for."""
        wait_until_ended(self.kafka)
        for name in _KEPT:
            with suppress(FileNotFoundError):
                shutil.rmtree(self.path / name)

    def broker_port(self, wanted: int | None) -> int:
        """The port that is wanted, else the one of the last time, else a port that follows from the folder's path."""
        port = wanted or self._remembered_port() or self._free_port()
        (self.path / _PORT).write_text(f"{port}\n", encoding="utf-8")
        return port

    def running_broker(self) -> str | None:
        """The address of the broker that ``streamsapp local`` runs there now."""
        port = self._remembered_port()
        return None if port is None or is_free(port) else f"127.0.0.1:{port}"

    def _remembered_port(self) -> int | None:
        remembered = self.path / _PORT
        there = os.path.exists(remembered)  # noqa: PTH110  # that of Path raises where one may not look
        text = remembered.read_text("utf-8").strip() if there else ""
        return int(text) if text.isascii() and text.isdigit() and 0 < int(text[:6]) < 1 << 16 else None

    def _open_lock(self) -> TextIO:
        try:
            # --fresh deletes folders of these names: never in a folder that is used for something else.
            strange = self.path.exists() and not (self.path / _LOCK).exists() and any(self.path.iterdir())
            if not strange:
                self.path.mkdir(parents=True, exist_ok=True)
                if self._own:
                    (self.path.parent / ".gitignore").write_text("*\n", encoding="utf-8")
                return (self.path / _LOCK).open("a+", encoding="utf-8")
        except OSError as error:
            raise UserInputError(
                f"--data-dir: {self.path} cannot be used: {error.strerror}; name another folder"
            ) from error
        raise UserInputError(
            f"--data-dir: {self.path} is not empty and was not made by `streamsapp local`: name a folder that is new"
        )

    def _free_port(self) -> int:
        first = zlib.crc32(os.fsencode(self.path)) % _PORTS
        for number in range(_PORTS):
            port = _FIRST_PORT + (first + number) % _PORTS
            if is_free(port):
                return port
        raise UserInputError(f"--broker-port: no port from {_FIRST_PORT} to {_FIRST_PORT + _PORTS} is free; name one")

"""An object store in a folder, ``file:///folder``: for ``streamsapp local`` and for volumes that all instances share.

Called on the snapshot threads and by commands; safe on several threads and processes. An object is a file that appears
under its name in one step. It is written whole under ``~incoming`` and then linked (new) or renamed (replaced).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from streamsapp.remote.local_files import BlockHash, Took, new_file
from streamsapp.remote.object_store import (
    Moved,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    ObjectStoreError,
    UnfitObjectStoreError,
    check_key,
    unobserved,
)

#: No key can have this name.
_INCOMING = "~incoming"
#: The writer of such a file is not alive after so long.
_ABANDONED_SECONDS = 24 * 3600
_BLOCK = 1024 * 1024


class DirectoryStore:
    """Objects as files below ``root``."""

    figures = None

    def __init__(self, root: Path) -> None:
        self._root = root

    def __str__(self) -> str:
        return f"file://{self._root}"

    def put_new(self, key: str, data: bytes) -> None:
        def link(unseen: Path, path: Path) -> None:
            try:
                os.link(unseen, path)  # unlike a rename it fails where there is a file already
            except FileExistsError as error:
                raise ObjectExistsError(f"{self}/{key} exists already") from error

        try:
            self._write(key, lambda file: file.write(data), link)
        except OSError as error:
            raise self._failed("write", key, error) from error

    def upload(self, key: str, source: Path, moved: Moved = unobserved) -> None:
        def copy(file: BinaryIO) -> None:
            with source.open("rb") as blocks:
                _copy(blocks, file, lambda block: moved(len(block)))

        try:
            self._write(key, copy, os.replace)
        except OSError as error:
            raise self._failed("write", key, error) from error

    def read(self, key: str, limit: int) -> bytes:
        try:
            with self._open(key) as file:
                size = os.fstat(file.fileno()).st_size
                if size > limit:
                    raise ObjectDamagedError(f"{self}/{key} has {size} bytes, more than the {limit} it may have")
                return file.read(size)
        except OSError as error:
            raise self._failed("read", key, error) from error

    def download(self, key: str, target: Path, size: int, moved: Moved = unobserved, share: float = 1.0) -> str:
        try:
            with self._open(key) as source:
                found = os.fstat(source.fileno()).st_size
                if found != size:
                    raise ObjectDamagedError(f"{self}/{key} has {found} bytes instead of {size}")
                with new_file(target) as file:
                    hashed = BlockHash(moved)
                    _copy(source, file, hashed, size)
                    return hashed.sha256
        except OSError as error:
            raise self._failed("read", key, error) from error

    def read_range(self, key: str, begin: int, end: int, size: int) -> bytes:
        try:
            with self._open(key) as source:
                found = os.fstat(source.fileno()).st_size
                if found != size:
                    raise ObjectDamagedError(f"{self}/{key} has {found} bytes instead of {size}")
                source.seek(begin)
                data = source.read(end - begin)
        except OSError as error:
            raise self._failed("read", key, error) from error
        if len(data) < end - begin:
            raise ObjectDamagedError(f"{self}/{key} ended {end - begin - len(data)} bytes too early")
        return data

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        folder = prefix.rpartition("/")[0]
        if folder:
            check_key(folder)
        try:
            self._check_root()
            found = [info for info in self._below(self._root / folder) if info.key.startswith(prefix)]
        except OSError as error:
            raise self._failed("list", prefix, error) from error
        yield from sorted(found)

    def delete(self, keys: Collection[str]) -> None:
        for key in keys:
            try:
                self._path(key).unlink(missing_ok=True)
            except OSError as error:
                raise self._failed("delete", key, error) from error

    def probe(self) -> None:
        key = f"probe-{uuid4().hex}"
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self.put_new(key, b"probe")
            self.delete([key])
            self._forget_abandoned()
        except (OSError, ObjectStoreError) as error:
            raise UnfitObjectStoreError(
                f"{self}: cannot be written: {error}; give a folder that exists, can be written and has hard links"
            ) from error

    def _path(self, key: str) -> Path:
        check_key(key)
        return self._root / key

    @contextmanager
    def _open(self, key: str) -> Iterator[BinaryIO]:
        """An object to read. Others may have put anything here under its name: a pipe, whose writer never comes."""
        with open(self._path(key), "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ObjectDamagedError(f"{self}/{key} is not a file")
            yield file

    def _check_root(self) -> None:
        """A volume that is not mounted must not look like a store without objects."""
        if not self._root.is_dir():
            raise UnfitObjectStoreError(f"{self}: the folder does not exist; mount the volume, or make the folder")

    def _write(self, key: str, fill: Callable[[BinaryIO], object], appear: Callable[[Path, Path], object]) -> None:
        """Fill a file that no reader sees, and let it ``appear`` when it is on disk."""
        path, incoming = self._path(key), self._root / _INCOMING
        self._make_folder(incoming)
        unseen = incoming / uuid4().hex
        try:
            with unseen.open("xb") as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            self._make_folder(path.parent)
            appear(unseen, path)
        finally:
            unseen.unlink(missing_ok=True)
        _sync_folder(path.parent)

    def _make_folder(self, folder: Path) -> None:
        """Makes a folder below the root with its parents, each of them durable. If a crash took away the folder, its
        files would be gone too."""
        if folder.is_dir():
            return
        if folder == self._root:
            self._check_root()
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)

    def _below(self, folder: Path) -> Iterator[ObjectInfo]:
        for parent, folders, names in os.walk(folder, onerror=_refuse):
            if _INCOMING in folders:
                folders.remove(_INCOMING)
            for name in names:
                path = Path(parent, name)
                try:
                    status = path.stat()
                except FileNotFoundError:
                    continue  # deleted while this walked
                modified = datetime.fromtimestamp(status.st_mtime, UTC)
                yield ObjectInfo(path.relative_to(self._root).as_posix(), status.st_size, modified)

    def _forget_abandoned(self) -> None:
        """Deletes the files of processes that ended while they wrote."""
        incoming = self._root / _INCOMING
        now = incoming.stat().st_mtime  # the probe has just written in it
        for file in incoming.iterdir():
            try:
                if file.stat().st_mtime < now - _ABANDONED_SECONDS:
                    file.unlink()
            except FileNotFoundError:
                continue  # its writer is alive after all, or another probe was faster

    def _failed(self, verb: str, key: str, error: OSError) -> ObjectStoreError:
        if isinstance(error, FileNotFoundError) and verb == "read":
            self._check_root()
            return ObjectMissingError(f"{self}/{key} does not exist")
        return ObjectStoreError(f"cannot {verb} {self}/{key}: {error}; is there room and permission?")


def _refuse(error: OSError) -> None:
    """A folder that cannot be read must not look empty; a folder that is not there has no objects."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _copy(source: BinaryIO, target: BinaryIO, took: Took, limit: int | None = None) -> None:
    left = limit
    while block := source.read(_BLOCK if left is None else min(_BLOCK, left)):
        target.write(block)
        took(block)
        left = None if left is None else left - len(block)
    if left:
        raise ObjectDamagedError(f"{source.name} ended {left} bytes too early")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

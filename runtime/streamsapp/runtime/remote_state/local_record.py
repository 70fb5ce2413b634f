"""``local.json``: the record in a task's directory about the database beside it.

Written and read on the snapshot threads and on the restoration thread. A local disk is a cache: with this, an instance
that comes back to it knows whether another instance has had the task meanwhile.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import msgspec
from msgspec import Struct

from streamsapp.remote.snapshot import InputPoint, Snapshot
from streamsapp.remote.snapshot_fetch import DATABASE
from streamsapp.state.engine.missing_blocks import INCOMPLETE
from streamsapp.structs import decoded

log = logging.getLogger(__name__)

_NAME = "local.json"
#: An epoch that no chain has.
_UNKNOWN = 0


class LocalRecord(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The facts about a task's database that the database itself does not keep."""

    #: Under which an active task writes it; ``None`` for a replica's, and after an active task has ended in good order.
    epoch: int | None = None
    #: Id of each changelog's topic.
    topics: dict[str, str] = {}
    #: Committed inputs of the last snapshot of the database: of that it began with, or that was published from it.
    inputs: tuple[InputPoint, ...] = ()
    #: The next changelog offset of each store in that snapshot.
    stores: dict[str, int] = {}
    #: True if the object store did not say whether there was a snapshot to begin with.
    unknown: bool = False

    def at(self, snapshot: Snapshot) -> LocalRecord:
        """The record of a database that has this snapshot."""
        stores = {name: point.offset for name, point in snapshot.stores.items()}
        return msgspec.structs.replace(self, inputs=snapshot.inputs, stores=stores, unknown=False)


class LocalState:
    """The directory of one task, and what is written down there: by one thread at a time, whose the task is then."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def has_database(self) -> bool:
        """Says whether there is a database, all of it: one with holes is of a process that ended before they were
        filled."""
        database = self.directory / DATABASE
        return (database / "CURRENT").exists() and not (database / INCOMPLETE).exists()

    def remove_database(self) -> None:
        """Remove the database. The next one belongs to no instance until it has a record: a process may end in
        between."""
        shutil.rmtree(self.directory / DATABASE, ignore_errors=True)
        try:
            self.write(LocalRecord(epoch=_UNKNOWN))
        except OSError:  # a full disk: at least the record of the database that is gone is no other one's
            (self.directory / _NAME).unlink(missing_ok=True)

    def remove_leftovers(self) -> None:
        """Remove the files of a process that ended in the middle of a snapshot."""
        for part in self.directory.glob("*.part"):
            shutil.rmtree(part, ignore_errors=True)

    def read(self) -> LocalRecord:
        """The record; an empty one, which does not know which instance has had the task, if it cannot be read."""
        try:
            return decoded((self.directory / _NAME).read_bytes(), LocalRecord)
        except FileNotFoundError:
            return LocalRecord()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.warning("%s cannot be read: %s", self.directory / _NAME, error)
            return LocalRecord(epoch=_UNKNOWN)

    def write(self, record: LocalRecord) -> None:
        """Replaces the earlier record."""
        self.directory.mkdir(parents=True, exist_ok=True)
        unseen = self.directory / f"{_NAME}.part"
        unseen.write_bytes(msgspec.json.encode(record))
        unseen.replace(self.directory / _NAME)

    def write_epoch(self, epoch: int | None) -> None:
        """Note the epoch of the owner that writes the database from now on."""
        record = self.read()
        if record.epoch != epoch:
            self.write(msgspec.structs.replace(record, epoch=epoch))

    def write_snapshot(self, snapshot: Snapshot) -> None:
        """Note the snapshot that was published from the database."""
        self.write(self.read().at(snapshot))

"""The records of bootstraps in remote state, whose state was computed from history, for all tasks of an application at
once. Plain data, and the chain that holds it.

Written by ``streamsapp bootstrap``, read by instances before they believe in a snapshot. A bootstrap is *begun* with
offsets that are fixed from then on, and *done* when every task's snapshot is there. In between nothing may start, for
some tasks would skip what others still lack. Both are objects that are written once:

    <application id>/bootstrap/<number>-begun.json
    <application id>/bootstrap/<number>-<task>.json      what became of one task; may be written again, alike
    <application id>/bootstrap/<number>-done.json

A table that becomes a store (``df.write``) is recorded like one. Its rows are put aside before, and go when it is done:

    <application id>/seed/<write>/<partition>-<object>
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from streamsapp.errors import StateStoreError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.object_store import ObjectInfo, ObjectStore
from streamsapp.remote.snapshot import InputPoint
from streamsapp.structs import decoded

VERSION = 1
_LIMIT = 64 << 20
_NAME = re.compile(r"([0-9]{8})-(begun|done|[0-9]+_[0-9]+)\.json")
_ROWS = re.compile(r"[0-9a-f]{32}/[0-9]+-[0-9a-f]{32}")
#: In place of a history: the state is made of a table.
TABLE = "table"

_Text = Annotated[str, Meta(max_length=1_000)]
#: As many tables as a command line can name.
_Places = Annotated[str, Meta(max_length=1 << 20)]
_Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class HistoryRange(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The part of one input partition that is history: the records from ``start`` up to, and without, ``until``."""

    topic: _Text
    partition: Annotated[int, Meta(ge=0)]
    start: _Offset
    until: _Offset

    @property
    def of(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class BootstrapBegun(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The document of a bootstrap that has begun: the offsets it is to compute, which any later run of it takes."""

    version: Annotated[int, Meta(ge=VERSION, le=VERSION)]
    begun_at: _Text
    #: The place where the history is: ``kafka``, the addresses of tables, or ``TABLE``.
    history: _Places
    ranges: tuple[HistoryRange, ...]
    #: Of each task's sub-topology.
    fingerprints: dict[str, _Text]


class TaskDone(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The result of one task: where it goes on, and how much there was to do."""

    version: Annotated[int, Meta(ge=VERSION, le=VERSION)]
    task: _Text
    inputs: tuple[InputPoint, ...]
    records: int
    outputs: int
    seconds: float


class BootstrapDone(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The document of a bootstrap that is done: every task has its state."""

    version: Annotated[int, Meta(ge=VERSION, le=VERSION)]
    done_at: _Text
    tasks: tuple[TaskDone, ...]

    def inputs(self, task_id: TaskId) -> tuple[InputPoint, ...]:
        """Returns the offsets at which a task goes on."""
        return next((each.inputs for each in self.tasks if each.task == str(task_id)), ())


T = TypeVar("T", BootstrapBegun, BootstrapDone, TaskDone)


class Bootstraps:
    """The bootstraps of one application. Errors of the object store come through."""

    def __init__(self, objects: ObjectStore, application_id: str) -> None:
        self._objects = objects
        self._application_id = application_id

    def newest(self) -> BootstrapState | None:
        """The last that was begun; ``None`` if none ever was."""
        names: dict[int, set[str]] = {}
        for _, number, name in bootstrap_objects(self._objects, self._application_id):
            names.setdefault(number, set()).add(name)
        begun = [number for number, of in names.items() if "begun" in of]
        return BootstrapState(self, max(begun), frozenset(names[max(begun)])) if begun else None

    def begin(self, number: int, begun: BootstrapBegun) -> BootstrapState:
        """Raises ``ObjectExistsError`` if another process began one of this number."""
        self._objects.put_new(self._key(number, "begun"), msgspec.json.encode(begun))
        return BootstrapState(self, number, frozenset({"begun"}))

    def read(self, number: int, name: str, kind: type[T]) -> T:
        """Reads one of the documents. A program with access to the bucket may have written anything, so the document is
        checked whole."""
        data = self._objects.read(self._key(number, name), _LIMIT)
        try:
            return decoded(data, kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise StateStoreError(
                f"{self._key(number, name)} is damaged: {error}; make the state again: `streamsapp reset`, then "
                "`streamsapp bootstrap`"
            ) from error

    def write(self, number: int, name: str, document: BootstrapDone | TaskDone) -> None:
        """Write a document, or write it again."""
        with tempfile.TemporaryDirectory(prefix="streamsapp-") as folder:
            path = Path(folder, "document")
            path.write_bytes(msgspec.json.encode(document))
            self._objects.upload(self._key(number, name), path)

    def delete(self, number: int, name: str) -> None:
        """Forget a document."""
        self._objects.delete([self._key(number, name)])

    def _key(self, number: int, name: str) -> str:
        return f"{self._application_id}/bootstrap/{number:08d}-{name}.json"


class BootstrapState:
    """The state of a bootstrap at the time when it was looked for."""

    def __init__(self, bootstraps: Bootstraps, number: int, names: frozenset[str]) -> None:
        self._bootstraps = bootstraps
        self.number = number
        self._names = names

    @property
    def is_done(self) -> bool:
        return "done" in self._names

    @property
    def finished(self) -> frozenset[TaskId]:
        """Tasks that need not be done again."""
        return frozenset(TaskId.parse(name) for name in self._names if name not in {"begun", "done"})

    def begun(self) -> BootstrapBegun:
        return self._bootstraps.read(self.number, "begun", BootstrapBegun)

    def unfinished(self, application_id: str) -> str:
        """Describes a bootstrap that is not done, and says how to end it."""
        if self.begun().history == TABLE:
            return (
                f"a table was to become the state of {application_id}, and is not written whole: run `streamsapp"
                ' reset`, and then write it again, with df.write.format("streamsapp") and the same options; a'
                " bootstrap cannot go on with it"
            )
        return (
            f"a bootstrap of {application_id} was begun and is not done: run `streamsapp bootstrap` again, which goes"
            " on where it was, or give it up with `streamsapp reset`"
        )

    def done(self) -> BootstrapDone:
        return self._bootstraps.read(self.number, "done", BootstrapDone)

    def task(self, task_id: TaskId) -> TaskDone:
        return self._bootstraps.read(self.number, str(task_id), TaskDone)

    def withdraw(self) -> None:
        """Withdraws a bootstrap before anything was written, as if it had never been begun."""
        self._bootstraps.delete(self.number, "begun")

    def finish_task(self, done: TaskDone) -> None:
        """Notes that a task's snapshot is published."""
        self._bootstraps.write(self.number, done.task, done)

    def finish(self, done: BootstrapDone) -> None:
        """Finishes the bootstrap: from here on instances may start."""
        self._bootstraps.write(self.number, "done", done)


def bootstrap_objects(objects: ObjectStore, application_id: str) -> Iterator[tuple[ObjectInfo, int, str]]:
    """Everything that bootstraps left: the object, the number and the name of its part."""
    prefix = f"{application_id}/bootstrap/"
    for info in objects.list(prefix):
        found = _NAME.fullmatch(info.key.removeprefix(prefix))
        if found:
            yield info, int(found[1]), found[2]


def seed_folder(application_id: str) -> str:
    """Returns the folder of everything that writes of tables put aside for an application."""
    return f"{application_id}/seed"


def seed_objects(objects: ObjectStore, application_id: str) -> Iterator[ObjectInfo]:
    """Everything there that such a write left behind."""
    prefix = f"{seed_folder(application_id)}/"
    return (info for info in objects.list(prefix) if _ROWS.fullmatch(info.key.removeprefix(prefix)))

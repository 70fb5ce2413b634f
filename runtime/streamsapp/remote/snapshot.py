"""A snapshot, and its document: a manifest in the object store.

Written and read on the snapshot threads and by commands. A document is untrusted input: a program with access to the
bucket may write anything. So everything in it is checked before anything is done with it. Names are those of RocksDB's
files and never paths; sizes and counts are capped. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from streamsapp.errors import StreamsError
from streamsapp.record import TaskId
from streamsapp.remote.pieces import FilePieces

VERSION = 1

#: A manifest of 64,000 files has some 16 MB.
DOCUMENT_LIMIT = 32 << 20

#: The largest snapshot that is believed in at all; what a disk has free limits it further.
MAX_SNAPSHOT_BYTES = 1 << 40

_MAX_FILES = 100_000
_MAX_STORES = 1_000
_MAX_INPUTS = 100_000

#: The names that a file of a snapshot may have, as a regular expression.
FILE_NAME = r"(?:[0-9]{6,20}\.(?:sst|ldb|blob)|CURRENT|MANIFEST-[0-9]{1,20}|OPTIONS-[0-9]{1,20})"
_OBJECT = re.compile(
    rf"files/(?P<epoch>[1-9][0-9]{{0,15}})-[0-9a-f]{{16}}/"
    rf"(?P<number>[1-9][0-9]{{0,15}})-(?P<digest>[0-9a-f]{{16}})-(?P<name>{FILE_NAME})"
)
_DIGEST_LENGTH = 64
_SEAL = b',"sha256":"'
_SEAL_LENGTH = len(_SEAL) + _DIGEST_LENGTH + len(b'"}')

_Number = Annotated[int, Meta(ge=1, lt=10**16)]
_Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Size = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Partition = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Text = Annotated[str, Meta(max_length=1_000)]
_Topic = Annotated[str, Meta(max_length=249, pattern=r"\A[A-Za-z0-9._-]+\Z")]
_Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Writer = Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
_Time = Annotated[str, Meta(pattern=r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z\Z")]


class SnapshotInvalidError(StreamsError):
    """A snapshot cannot be used: damaged, foreign or unreasonable; the message says what was found."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The base of all parts of the document: immutable, and without fields that are not known."""


class StorePoint(_Part, frozen=True):
    """The position of one store: the snapshot has its changelog up to, and without, ``offset``."""

    #: RocksDB's column family.
    family: _Text
    changelog: _Topic
    partition: _Partition
    #: Of the changelog, which may have been deleted and created again since; ``None`` where the broker did not say.
    topic_id: _Text | None
    offset: _Offset


class InputPoint(_Part, frozen=True):
    """The committed position in one input partition, of the commit that the snapshot stands at."""

    topic: _Topic
    partition: _Partition
    offset: _Offset
    metadata: Annotated[str, Meta(max_length=65_536)]


class SnapshotFile(_Part, frozen=True, omit_defaults=True):
    """A file of the checkpoint, and the object that holds it."""

    name: Annotated[str, Meta(pattern=rf"\A{FILE_NAME}\Z")]
    size: _Size
    sha256: _Sha256
    #: Relative to the task's folder.
    object: Annotated[str, Meta(max_length=200)]
    #: Of a table, so that it can be read before all of it is there; ``None`` in manifests of earlier versions.
    pieces: FilePieces | None = None

    @property
    def content(self) -> tuple[str, int, str]:
        """Files that agree in this are the same."""
        return self.name, self.size, self.sha256


class Snapshot(_Part, frozen=True):
    """A task's stores at one commit, as a manifest of its chain describes them.

    ``epoch`` is the number of the manifest with which the ``writer`` claimed the task. That one repeats the files and
    points of the snapshot before, so a snapshot may be older (``created_at``) than its manifest (``written_at``).
    """

    version: Annotated[int, Meta(ge=VERSION, le=VERSION)]
    application_id: _Text
    task: _Text
    number: _Number
    epoch: _Number
    writer: _Writer
    instance: _Text
    #: ISO 8601 in UTC, by the clock of the instance.
    created_at: _Time
    written_at: _Time
    #: Of the description of the sub-topology; informs, decides nothing.
    fingerprint: _Text
    stores: Annotated[dict[_Text, StorePoint], Meta(max_length=_MAX_STORES)]
    inputs: Annotated[tuple[InputPoint, ...], Meta(max_length=_MAX_INPUTS)]
    files: Annotated[tuple[SnapshotFile, ...], Meta(max_length=_MAX_FILES)]

    @property
    def task_id(self) -> TaskId:
        return TaskId.parse(self.task)

    @property
    def claim_id(self) -> str:
        """Names one writer's life, also across chains that were deleted and begun again."""
        return f"{self.epoch}-{self.writer}"

    @property
    def total_bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def new_bytes(self) -> int:
        """The bytes that were uploaded for this snapshot."""
        fresh = f"files/{self.claim_id}/{self.number}-"
        return sum(file.size for file in self.files if file.object.startswith(fresh))


def is_file_name(name: str) -> bool:
    """Says whether a snapshot may hold a file of this name."""
    return re.fullmatch(FILE_NAME, name) is not None


def object_name(claim_id: str, number: int, name: str, sha256: str) -> str:
    """The object of a file. The digest keeps tries of one number apart: no object is ever written with other bytes."""
    return f"files/{claim_id}/{number}-{sha256[:16]}-{name}"


def object_number(name: str) -> int | None:
    """The number of the snapshot that an object was uploaded for; ``None`` if it is none of ours."""
    found = _OBJECT.fullmatch(name)
    return int(found["number"]) if found else None


def timestamp(milliseconds: int) -> str:
    """ISO 8601 in UTC."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def milliseconds(timestamp: str) -> int:
    """The reverse of :func:`timestamp`."""
    return round(datetime.fromisoformat(timestamp).timestamp() * 1000)


def encode(snapshot: Snapshot) -> bytes:
    """The document: JSON whose last field is the sha256 of all before it."""
    body = msgspec.json.encode(snapshot)
    return body[:-1] + _SEAL + hashlib.sha256(body).hexdigest().encode() + b'"}'


def decode(data: bytes, application_id: str, task_id: TaskId, number: int) -> Snapshot:
    """The snapshot in a document that was found in this place; ``SnapshotInvalidError`` says what is wrong."""
    where = f"snapshot {number} of task {task_id} of {application_id!r}"
    try:
        snapshot = _DECODER.decode(_unsealed(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise SnapshotInvalidError(f"{where} is damaged: {error}") from error
    for fault in _faults(snapshot, application_id, task_id, number):
        raise SnapshotInvalidError(f"{where} cannot be used: {fault}")
    return snapshot


_DECODER = msgspec.json.Decoder(Snapshot)


def _unsealed(data: bytes) -> bytes:
    if len(data) > DOCUMENT_LIMIT:
        raise ValueError(f"its manifest has {len(data)} bytes, at most {DOCUMENT_LIMIT} are read")
    body, seal = data[:-_SEAL_LENGTH] + b"}", data[-_SEAL_LENGTH:]
    if not (seal.startswith(_SEAL) and seal.endswith(b'"}')):
        raise ValueError("its manifest does not end with its sha256, so it is cut off, or it is not a manifest")
    if seal[len(_SEAL) : -2] != hashlib.sha256(body).hexdigest().encode():
        raise ValueError("its manifest is not the one that was written: the sha256 differs")
    return body


def _faults(snapshot: Snapshot, application_id: str, task_id: TaskId, number: int) -> Iterator[str]:
    """Returns the faults that the type of no single field shows."""
    found = (snapshot.application_id, snapshot.task, snapshot.number)
    if found != (application_id, str(task_id), number):
        yield "it is number {2} of task {1} of {0!r}, which somebody put here".format(*found)
    if snapshot.epoch > number:
        yield f"its epoch {snapshot.epoch} is above its number"
    for moment in (snapshot.created_at, snapshot.written_at):
        if not _is_time(moment):
            yield f"{moment!r} is no time"
    yield from _file_faults(snapshot)


def _file_faults(snapshot: Snapshot) -> Iterator[str]:
    files = snapshot.files
    for file in files:
        found = _OBJECT.fullmatch(file.object)
        if found is None or (found["name"], found["digest"]) != (file.name, file.sha256[:16]):
            yield f"the object {file.object!r} is none of a file {file.name}"
        elif int(found["epoch"]) > snapshot.epoch or int(found["number"]) > snapshot.number:
            yield f"the object {file.object!r} is of a later snapshot"
        if file.pieces is not None and (fault := file.pieces.fault(file.size)) is not None:
            yield f"the file {file.name}: {fault}"
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        yield f"the file {next(_repeated(names))} is there twice"
    if files and (names.count("CURRENT"), sum(name.startswith("MANIFEST-") for name in names)) != (1, 1):
        yield "RocksDB's files CURRENT and MANIFEST- are not both there, once"
    if snapshot.total_bytes > MAX_SNAPSHOT_BYTES:
        yield f"it claims to have {snapshot.total_bytes} bytes, at most {MAX_SNAPSHOT_BYTES} are believed"


def _repeated(names: Iterable[str]) -> Iterator[str]:
    seen = set()
    for name in names:
        if name in seen:
            yield name
        seen.add(name)


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True

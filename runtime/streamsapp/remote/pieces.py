"""Checksums of the pieces of a file, which allow for reading any part of it before the rest is there.

Made on the snapshot threads when a file is published; a manifest has them, and so they are untrusted input for each
reader. Pure, but for reading the file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import Path
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from streamsapp.remote.table_layout import tail_of

#: One request brings it in little more than a round trip, and its checksum takes 22 characters of a manifest.
PIECE_BYTES = 256 << 10
#: Bytes of each checksum: the first ones of a sha256.
DIGEST_BYTES = 16
#: A snapshot of more bytes has no checksums of pieces: its manifest would grow beyond 6 MB.
MOST_BYTES = 64 << 30

_SMALLEST_PIECE, _LARGEST_PIECE = 4 << 10, 64 << 20


class FilePieces(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The pieces of a table."""

    #: Of each piece but the last, in bytes.
    size: Annotated[int, Meta(ge=_SMALLEST_PIECE, le=_LARGEST_PIECE)]
    #: The offset where entries end and the table's indexes and filters begin.
    tail: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    #: In base64, one checksum after the other.
    sums: Annotated[str, Meta(max_length=24 << 20)]

    def fault(self, file_size: int) -> str | None:
        """Returns why these are not the pieces of a file of so many bytes, if so."""
        if self.tail > file_size:
            return "its indexes begin behind its end"
        try:
            sums = self.digests()
        except (binascii.Error, ValueError) as error:
            return f"the checksums of its pieces are no base64: {error}"
        needed = DIGEST_BYTES * -(-file_size // self.size)
        if len(sums) != needed:
            return f"the checksums of its pieces have {len(sums)} bytes; {file_size} bytes of content need {needed}"
        return None

    def digests(self) -> bytes:
        """The checksums, one after the other."""
        return base64.b64decode(self.sums, validate=True)


class FileContent(NamedTuple):
    """The content of a file, as a manifest has it."""

    sha256: str
    pieces: FilePieces | None


def describe(path: Path) -> FileContent:
    """Reads a file once; other threads run meanwhile. Raises ``OSError``."""
    whole, sums = hashlib.sha256(), bytearray()
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            whole.update(piece)
            sums += digest(piece)
    tail = tail_of(path) if path.suffix == ".sst" else None
    pieces = None if tail is None else FilePieces(PIECE_BYTES, tail, base64.b64encode(sums).decode())
    return FileContent(whole.hexdigest(), pieces)


def digest(piece: bytes | memoryview) -> bytes:
    """The checksum of a piece."""
    return hashlib.sha256(piece).digest()[:DIGEST_BYTES]

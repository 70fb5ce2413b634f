"""Reads of a database whose files are not all here: RocksDB's complaint of a block that is missing has it brought.

Used on whatever thread reads a store. The files have holes (``remote/partial_files.py``). RocksDB reads zeros there,
finds that the block's checksum does not fit, and names file and place: the block is brought, and the read repeated. So
a read of what is there costs nothing more. Tables are merged only when all are whole: until then nothing but reads asks
for blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")

#: In the directory of a database whose files have holes.
INCOMPLETE = "INCOMPLETE"

#: RocksDB's words (``block_fetcher.cc``, ``reader_common.cc``); tests hold them against the installed version.
_MISMATCH = re.compile(
    r"block checksum mismatch: .* in \S.*/([0-9]{6,20}\.sst) +offset ([0-9]{1,19}) size ([0-9]{1,19})"
)
#: Behind each block: how it is compressed, and its checksum.
_TRAILER = 5


class Block(NamedTuple):
    """A block of a table, ``begin`` to ``end`` in bytes, the last not included."""

    table: str
    begin: int
    end: int


class MissingBlocks(Protocol):
    """Brings the blocks that a database's files lack. Safe on several threads."""

    def bring(self, blocks: Sequence[Block]) -> bool:
        """Have these blocks here; whether any of them was missing. Raises a ``StreamsError`` if that cannot be."""
        ...

    def soon(self, work: Callable[[], None]) -> None:
        """``work``, which may wait for blocks, is done on a thread for such work."""
        ...

    def when_whole(self, act: Callable[[], None]) -> None:
        """``act`` is called, on any thread, once all files are whole."""
        ...

    def close(self) -> None:
        """The database is closed: nothing is brought any more."""
        ...


def block_of(error: Exception) -> Block | None:
    """The block that RocksDB found not to be as it was written; ``None`` if the error is another one."""
    found = _MISMATCH.search(str(error))
    if found is None:
        return None
    begin = int(found[2])
    return Block(found[1], begin, begin + int(found[3]) + _TRAILER)


class Filling:
    """One read: brings each block that it lacks. A block that is damaged although it is here ends it."""

    def __init__(self, missing: MissingBlocks) -> None:
        self._missing = missing
        self._last: Block | None = None

    def brought(self, error: Exception) -> bool:
        """Says whether the read may be tried again. It may be once even if nothing was missing: another thread may have
        brought the block after it was read."""
        block = block_of(error)
        if block is None:
            return False
        known, self._last = self._last, block
        return self._missing.bring([block]) or block != known

    def read(self, action: Callable[[], T]) -> T:
        """The result of ``action``, which is tried until all its blocks are here."""
        while True:
            try:
                return action()
            except Exception as error:
                if not self.brought(error):
                    raise


def read_each(missing: MissingBlocks, get: Callable[[bytes], T], keys: Sequence[bytes]) -> list[T]:
    """The results of ``get`` for all keys. The blocks that they lack are brought together: a round trip for all of them
    and not for each."""
    while True:
        lacking: dict[Block, None] = {}
        found: list[T] = []
        for key in keys:
            try:
                found.append(get(key))
            except Exception as error:
                if (block := block_of(error)) is None:
                    raise
                lacking[block] = None
        if not lacking:
            return found
        if not missing.bring(list(lacking)):
            # Brought meanwhile, or damaged: each by itself finds out.
            return [Filling(missing).read(lambda key=key: get(key)) for key in keys]  # type: ignore[misc]

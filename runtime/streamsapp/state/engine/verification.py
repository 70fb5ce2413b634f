"""Checks that RocksDB's files are whole: RocksDB itself reads them through, block by block, with their checksums.

Called on the snapshot threads for files that are about to be published; other threads run meanwhile.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

from rocksdict import BlockBasedOptions, Options, Rdict

from streamsapp.errors import TaskCorruptedError
from streamsapp.state.engine.rocksdb import translated_errors

#: The place where RocksDB's repair leaves the files that it could not read.
_LOST = "lost"


def verify(files: Collection[Path], scratch: Path) -> None:
    """Raises a ``TaskCorruptedError`` that names the tables among ``files`` with a damaged block.

    Repairing a database of nothing but these files reads every block of theirs, and no other file. A damaged Bloom
    filter is not found: RocksDB reads such a table without its filter. ``scratch`` is a directory on their disk that
    does not exist before and after.
    """
    tables = [file for file in files if file.suffix == ".sst"]
    if not tables:
        return
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        with translated_errors(scratch):
            scratch.mkdir()
            for table in tables:
                os.link(table, scratch / table.name)
            Rdict.repair(str(scratch), _reading_the_disk())
        lost = sorted(path.name for path in scratch.glob(f"{_LOST}/*"))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if lost:
        raise TaskCorruptedError(f"{tables[0].parent} has damaged files that must not be published: {', '.join(lost)}")


def _reading_the_disk() -> Options:
    """Returns options that read the disk: blocks that the cache has are as they were when they were read."""
    table = BlockBasedOptions()
    table.disable_cache()
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    return options

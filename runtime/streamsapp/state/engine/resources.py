"""Divides the memory that all state of one instance shares; made once from one figure.

Made by the runtime when it starts; read on every thread that opens or reads a store.
"""

from __future__ import annotations

import resource
from typing import NamedTuple

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, WriteBufferManager

_MIB = 1 << 20

#: A memtable that reaches this is flushed, whatever the shared budget says. Larger ones leave fewer files to merge,
#: which is most of the cost of a growing store, but take longer to insert into.
_MEMTABLE_BYTES = 32 * _MIB

#: Flushed memtables that are gathered before they are merged into the sorted levels: twice RocksDB's default, which
#: halves the rewriting while a store fills. Bloom filters keep reads from noticing.
_GATHERED_FILES = 8

#: With so many, no more is written until some are merged: what a write waits for at most is the merging of this many
#: files of a memtable each. RocksDB would slow writers down before, and hold the interpreter meanwhile.
MOST_FILES = 24

#: Memtables grow in steps of this: small, as the shared budget counts whole steps and a task may hold few records.
_ARENA_BYTES = 8 * 1024


#: Bytes that wait to be merged in all levels; with so many, no more is written either. As RocksDB has it by default.
_MOST_PENDING_BYTES = 256 << 30

#: Changelog records that an instance may have to replay after a crash: some seconds of work.
_BACKLOG_RECORDS = 4_000_000


class BacklogShare(NamedTuple):
    """The bounds on a task's committed writes that may wait for RocksDB."""

    records: int
    bytes: int


class StateResources:
    """Holds RocksDB's block cache and memtables, and the read cache of the write-back layers.

    Memtables are charged to the block cache, so ``block_cache_bytes`` bounds both together.
    """

    def __init__(
        self,
        block_cache_bytes: int = 128 * _MIB,
        memtable_bytes: int = 64 * _MIB,
        read_cache_bytes: int = 64 * _MIB,
        backlog_bytes: int = 64 * _MIB,
        backlog_records: int = _BACKLOG_RECORDS,
    ) -> None:
        _allow_open_files()
        self.memtable_bytes = min(memtable_bytes, block_cache_bytes)
        self.read_cache_bytes = read_cache_bytes
        self._backlog = BacklogShare(backlog_records, backlog_bytes)
        self._block_cache = Cache.new_hyper_clock_cache(block_cache_bytes, 0)
        self._memtables = WriteBufferManager.new_write_buffer_manager_with_cache(
            self.memtable_bytes, False, self._block_cache
        )
        self._open_stores = 0
        self.read_cache_share = self.read_cache_bytes
        self.options = self._make_options()
        #: Of a database whose files are not all here: RocksDB merges none of them.
        self.unmerged_options = self._make_options()
        self.unmerged_options.set_disable_auto_compactions(True)

    def store_opened(self) -> None:
        """Counts one more store that shares the read cache."""
        self._count_stores(1)

    def store_closed(self) -> None:
        self._count_stores(-1)

    def backlog_share(self, stores: int) -> BacklogShare:
        """Returns the share that the given number of the open stores may keep waiting."""
        open_stores = max(1, self._open_stores)
        records, size = self._backlog
        return BacklogShare(records * stores // open_stores, size * stores // open_stores)

    def _count_stores(self, change: int) -> None:
        self._open_stores += change
        self.read_cache_share = self.read_cache_bytes // max(1, self._open_stores)

    def _make_options(self) -> Options:
        """Makes options for the database and for each of its column families alike: RocksDB forgets options that are
        not given again."""
        table = BlockBasedOptions()
        table.set_block_cache(self._block_cache)
        table.set_bloom_filter(10, False)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        # Without it the offsets could reach the disk before the data that they stand for.
        options.set_atomic_flush(True)
        options.set_block_based_table_factory(table)
        options.set_write_buffer_manager(self._memtables)
        options.set_write_buffer_size(_MEMTABLE_BYTES)
        options.set_level_zero_file_num_compaction_trigger(_GATHERED_FILES)
        options.set_level_zero_slowdown_writes_trigger(MOST_FILES)
        options.set_level_zero_stop_writes_trigger(MOST_FILES)
        options.set_soft_pending_compaction_bytes_limit(_MOST_PENDING_BYTES)
        options.set_hard_pending_compaction_bytes_limit(_MOST_PENDING_BYTES)
        options.set_arena_block_size(_ARENA_BYTES)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_keep_log_file_num(1)
        options.set_stats_dump_period_sec(0)
        options.set_stats_persist_period_sec(0)
        return options


def _allow_open_files() -> None:
    """Raises the limit of open files: every task's database keeps some open, and the usual 1,024 is a default, not a
    need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

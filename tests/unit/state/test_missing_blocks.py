"""RocksDB's complaint of a block that is missing, and a database whose files are not all here yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from streamsapp.errors import StateStoreError, TaskCorruptedError
from streamsapp.state.engine.missing_blocks import Block, Filling, block_of, read_each
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.engine.rocksdb import TaskDatabase

TIMEOUT = 60.0


class Blocks:
    """Blocks that a test lets come; ``missing`` are those that are not here."""

    def __init__(self, *missing: Block) -> None:
        self.missing = set(missing)
        self.asked: list[list[Block]] = []
        self.come: list[Callable[[], None]] = []
        self.closed = False

    def bring(self, blocks: Sequence[Block]) -> bool:
        self.asked.append(list(blocks))
        found = self.missing & set(blocks)
        self.missing -= found
        return bool(found)

    def soon(self, work: Callable[[], None]) -> None:
        work()

    def when_whole(self, act: Callable[[], None]) -> None:
        self.come.append(act)

    def close(self) -> None:
        self.closed = True


def mismatch(block: Block) -> Exception:
    return Exception(
        "Corruption: block checksum mismatch: stored(context removed) = 1, computed = 2, type = 4  in "
        f"/state of app/0_0/rocksdb/{block.table} offset {block.begin} size {block.end - block.begin - 5}"
    )


@pytest.fixture
def database(tmp_path: Path) -> Iterator[tuple[TaskDatabase, Blocks]]:
    blocks = Blocks()
    database = TaskDatabase(tmp_path / "db", ["s"], StateResources(8 << 20), blocks)
    yield database, blocks
    database.close()
    assert blocks.closed


def write(database: TaskDatabase, number: int) -> None:
    """One more table."""
    batch = database.batch()
    batch.writes.put(b"%d" % number, b"value", batch.family("s"))
    database.write(batch)
    database.flush()


def test_the_block_is_read_from_what_rocksdb_says(tmp_path: Path) -> None:
    resources = StateResources(8 << 20)
    with_table = TaskDatabase(tmp_path / "db", ["s"], resources)
    write(with_table, 1)
    with_table.close()
    table = max((tmp_path / "db").glob("*.sst"))
    data = bytearray(table.read_bytes())
    data[:8] = bytes(8)
    table.write_bytes(data)
    # Another cache, which does not know the block as it was.
    damaged = TaskDatabase(tmp_path / "db", ["s"], StateResources(8 << 20))

    with pytest.raises(TaskCorruptedError) as raised:
        damaged.get("s", b"1")

    found = block_of(raised.value)
    damaged.close()
    assert found is not None
    assert (found.table, found.begin) == (table.name, 0)
    assert 8 < found.end < len(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Corruption: Bad table magic number: expected 1, found 0 in /db/000018.sst",
        "block checksum mismatch: stored = 1 in /db/CURRENT offset 1 size 2",
        "block checksum mismatch: stored = 1 in /db/000018.sst offset -1 size 2",
        "IO error: No space left on device: /db/000018.sst offset 1 size 2",
    ],
)
def test_other_errors_are_of_no_block(text: str) -> None:
    assert block_of(Exception(text)) is None


def test_a_read_goes_on_until_all_its_blocks_are_here() -> None:
    first, second = Block("000001.sst", 0, 100), Block("000002.sst", 50, 90)
    blocks = Blocks(first, second)

    def read() -> str:
        for block in (first, second):
            if block in blocks.missing:
                raise mismatch(block)
        return "found"

    assert Filling(blocks).read(read) == "found"
    assert blocks.asked == [[first], [second]]


def test_a_block_that_is_here_and_damaged_ends_the_read_at_its_second_try() -> None:
    blocks, tries = Blocks(), []

    def read() -> None:
        tries.append(1)
        raise mismatch(Block("000001.sst", 0, 100))

    with pytest.raises(Exception, match="checksum mismatch"):
        Filling(blocks).read(read)
    assert len(tries) == 2


def test_the_blocks_of_many_keys_come_together() -> None:
    needed = {b"%d" % number: Block("000001.sst", 100 * number, 100 * number + 90) for number in range(9)}
    blocks = Blocks(*needed.values())

    def get(key: bytes) -> bytes:
        if needed[key] in blocks.missing:
            raise mismatch(needed[key])
        return b"value of " + key

    assert read_each(blocks, get, list(needed)) == [b"value of " + key for key in needed]
    assert blocks.asked == [list(needed.values())]


def test_rocksdb_merges_no_files_until_all_are_here(database: tuple[TaskDatabase, Blocks]) -> None:
    opened, blocks = database
    for number in range(12):
        write(opened, number)
    assert opened.property("s", "num-files-at-level0") == 12
    assert not opened.whole

    for act in blocks.come:
        act()
    write(opened, 12)

    assert opened.whole
    give_up = time.monotonic() + TIMEOUT
    while opened.property("s", "num-files-at-level0") > 8:
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_files_that_come_after_the_database_was_closed_change_nothing(tmp_path: Path) -> None:
    blocks = Blocks()
    opened = TaskDatabase(tmp_path / "db", ["s"], StateResources(8 << 20), blocks)
    opened.close()
    (tmp_path / "db" / "INCOMPLETE").touch()  # of the next one there

    for act in blocks.come:
        act()

    assert (tmp_path / "db" / "INCOMPLETE").exists()
    with pytest.raises(StateStoreError, match="closed"):
        opened.get("s", b"1")

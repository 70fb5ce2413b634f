"""RocksDB's own checksums are asked about every block of the files that are given, and of no other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from streamsapp.errors import TaskCorruptedError
from streamsapp.state.engine.verification import verify


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    """Those of a database with two."""
    database = Rdict(str(tmp_path / "db"), Options(raw_mode=True))
    for part in range(2):
        for number in range(2_000):
            database[b"%d-%05d" % (part, number)] = random.Random(number).randbytes(30)
        database.flush()
    database.close()
    found = sorted((tmp_path / "db").glob("*.sst"))
    assert len(found) == 2
    return found


def flip(path: Path, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)


def test_whole_files_pass_and_leave_nothing_behind(tables: list[Path], tmp_path: Path) -> None:
    before = [path.read_bytes() for path in tables]

    verify(tables, tmp_path / "scratch")

    assert [path.read_bytes() for path in tables] == before
    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.9, 0.999])
def test_one_flipped_bit_anywhere_is_found_and_its_file_named(tables: list[Path], tmp_path: Path, share: float) -> None:
    damaged = tables[1]
    verify(tables, tmp_path / "scratch")  # nothing that was read before is believed
    flip(damaged, int(damaged.stat().st_size * share))

    with pytest.raises(TaskCorruptedError, match=damaged.name) as told:
        verify(tables, tmp_path / "scratch")

    assert tables[0].name not in str(told.value)
    assert not (tmp_path / "scratch").exists()


def test_files_that_are_not_given_are_not_read(tables: list[Path], tmp_path: Path) -> None:
    flip(tables[1], 100)

    verify([tables[0], tables[0].with_name("CURRENT")], tmp_path / "scratch")

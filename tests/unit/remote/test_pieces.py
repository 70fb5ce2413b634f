"""Checksums of a file's pieces, and the place where a table's indexes begin."""

from __future__ import annotations

import base64
import hashlib
import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st
from rocksdict import BlockBasedOptions, Options, Rdict

from checkpoints import chain_of, checkpoint, claimed, published
from memory_objects import MemoryObjects
from streamsapp.remote import pieces
from streamsapp.remote.pieces import DIGEST_BYTES, FilePieces, describe
from streamsapp.remote.snapshot import SnapshotInvalidError, decode, encode
from streamsapp.remote.table_layout import first_block, tail_of
from streamsapp.state.engine.resources import StateResources


def table(directory: Path, options: Options | None = None, entries: int = 2_000) -> Path:
    """A table of RocksDB's, with keys and values of 100 bytes together."""
    options = options or StateResources(8 << 20).options
    database = Rdict(str(directory), options)
    for number in range(entries):
        database.put(b"%08d" % number, random.Random(number).randbytes(92))
    database.flush()
    found = directory / str(database.live_files()[0]["name"]).lstrip("/")
    database.close()
    return found


def test_indexes_begin_where_entries_end(tmp_path: Path) -> None:
    found = table(tmp_path / "db")
    tail = tail_of(found)

    assert tail is not None
    data = found.read_bytes()
    assert 0.9 * len(data) < tail < len(data)
    assert random.Random(1_999).randbytes(92) in data[:tail]


def test_a_table_of_another_format_has_no_such_place(tmp_path: Path) -> None:
    layout, options = BlockBasedOptions(), Options(raw_mode=True)
    options.create_if_missing(True)
    layout.set_format_version(5)
    options.set_block_based_table_factory(layout)

    assert tail_of(table(tmp_path / "db", options)) is None


@pytest.mark.parametrize("cut", [1, 52, 53, 60, 1_000])
def test_a_table_that_is_cut_off_has_no_such_place(tmp_path: Path, cut: int) -> None:
    found = table(tmp_path / "db")
    (tmp_path / "cut").write_bytes(found.read_bytes()[:-cut])
    (tmp_path / "rest").write_bytes(found.read_bytes()[-cut:])

    assert tail_of(tmp_path / "cut") is None
    assert tail_of(tmp_path / "rest") is None


def test_any_flipped_byte_of_its_end_gives_no_place_or_one_inside_of_it(tmp_path: Path) -> None:
    found = table(tmp_path / "db", entries=100)
    data, wrong = found.read_bytes(), tmp_path / "wrong"
    for at in range(len(data) - 400, len(data)):
        for flipped in (data[at] ^ 1, 0, 255):
            wrong.write_bytes(data[:at] + bytes([flipped]) + data[at + 1 :])
            tail = tail_of(wrong)
            assert tail is None or 0 <= tail < len(data)


@given(st.binary(max_size=300), st.integers(0, 2**64))
def test_any_bytes_are_no_block_of_names_or_name_blocks_before_it(block: bytes, end: int) -> None:
    found = first_block(block + b"\0\0\0\0", end)
    assert found is None or 0 <= found < end


def test_each_piece_has_its_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 4096)
    found = table(tmp_path / "db")
    data = found.read_bytes()

    sha256, described = describe(found)

    assert sha256 == hashlib.sha256(data).hexdigest()
    assert described is not None
    assert described.fault(len(data)) is None
    each = [hashlib.sha256(data[at : at + 4096]).digest()[:DIGEST_BYTES] for at in range(0, len(data), 4096)]
    assert described.digests() == b"".join(each)


def test_a_file_that_is_no_table_has_no_pieces(tmp_path: Path) -> None:
    (tmp_path / "CURRENT").write_bytes(b"MANIFEST-000005\n")

    assert describe(tmp_path / "CURRENT").pieces is None


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (FilePieces(4096, 5, base64.b64encode(bytes(16)).decode()), "its indexes begin behind its end"),
        (FilePieces(4096, 2, "!"), "are no base64"),
        (FilePieces(4096, 2, ""), "have 0 bytes; 4 bytes of content need 16"),
        (FilePieces(4096, 2, base64.b64encode(bytes(32)).decode()), "have 32 bytes; 4 bytes of content need 16"),
    ],
)
def test_a_manifest_whose_pieces_do_not_fit_to_its_files_is_refused(
    tmp_path: Path, wrong: FilePieces, told: str
) -> None:
    objects = MemoryObjects()
    snapshot = published(claimed(objects), checkpoint(tmp_path / "1", {8: b"four"}), 10)
    files = tuple(
        msgspec.structs.replace(file, pieces=wrong) if file.name.endswith(".sst") else file for file in snapshot.files
    )

    with pytest.raises(SnapshotInvalidError, match=told):
        decode(
            encode(msgspec.structs.replace(snapshot, files=files)), "orders", chain_of(objects).task_id, snapshot.number
        )


def test_a_manifest_without_pieces_is_as_in_earlier_versions(tmp_path: Path) -> None:
    snapshot = published(claimed(MemoryObjects()), checkpoint(tmp_path / "1", {8: b"no table of RocksDB's"}), 10)

    assert b"pieces" not in encode(snapshot)

"""All that any client of Kafka's compressed is decompressed, and neither broken data nor a bomb does harm."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable

import pytest

from fetched_batches import CODECS, flipped, xerial
from streamsapp.errors import OversizedBatchError
from streamsapp.kafka.fetching.decompression import all_decompressed, decompressed as decompressed_up_to

COMPRESSED = {name: codec for name, codec in CODECS.items() if name != "none"}

each_codec = pytest.mark.parametrize(("number", "compress"), COMPRESSED.values(), ids=COMPRESSED)


MOST = 300_000


def decompressed(number: int, data: bytes, most: int = 16 << 20) -> bytes | OversizedBatchError:
    return decompressed_up_to(number, data, most)


def all_sorts(size: int) -> bytes:
    """Some of it is easily compressed."""
    rng = random.Random(size)
    return (b"again" * (size // 10 + 1) + rng.randbytes(size))[:size]


@each_codec
@pytest.mark.parametrize("size", [1, 100, 70_000, 3_000_000])
def test_what_was_compressed_comes_back(number: int, compress: Callable[[bytes], bytes], size: int) -> None:
    data = all_sorts(size)

    assert decompressed(number, compress(data)) == data


@each_codec
def test_what_was_compressed_a_thousandfold_comes_back(number: int, compress: Callable[[bytes], bytes]) -> None:
    data = bytes(8_000_000)

    assert decompressed(number, compress(data)) == data


def test_gzip_in_several_members_is_one() -> None:
    assert decompressed(1, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


@pytest.mark.parametrize("size", [1, 7, 1 << 15, 1 << 20])
def test_snappy_comes_in_blocks_of_any_size(size: int) -> None:
    data = all_sorts(40_000 if size > 100 else 50)

    assert decompressed(2, xerial(data, size)) == data


@each_codec
def test_what_was_cut_off_is_refused(number: int, compress: Callable[[bytes], bytes]) -> None:
    data = compress(all_sorts(300))
    # A header and no block is a whole stream of nothing.
    for size in set(range(len(data))) - ({16} if compress is xerial else set()):
        with pytest.raises(ValueError, match="cannot be decompressed"):
            decompressed(number, data[:size])


def test_the_last_block_of_snappy_has_to_be_whole() -> None:
    data = xerial(all_sorts(500), 200)
    ends = {16}
    while max(ends) < len(data):
        ends.add(max(ends) + 4 + int.from_bytes(data[max(ends) :][:4], "big"))
    assert len(ends) == 4
    for size in range(17, len(data)):
        if size not in ends:
            with pytest.raises(ValueError, match="last block is not whole"):
                decompressed(2, data[:size])


@pytest.mark.parametrize("codec", [-1, 0, 5, 6, 7])
def test_a_codec_that_is_not_known_is_named(codec: int) -> None:
    with pytest.raises(ValueError, match=f"codec {codec}, which is not known"):
        decompressed(codec, b"data")


@each_codec
def test_records_may_have_so_many_bytes_and_no_more(number: int, compress: Callable[[bytes], bytes]) -> None:
    for data in (bytes(MOST), all_sorts(MOST)):
        assert decompressed(number, compress(data), MOST) == data
    for size in (MOST + 1, 100 * MOST):
        data = compress(bytes(size))
        error = decompressed(number, data, MOST)
        assert isinstance(error, OversizedBatchError)
        assert f"more than {MOST} bytes" in str(error)
        with pytest.raises(OversizedBatchError, match=r"larger max\.partition\.fetch\.bytes"):
            all_decompressed(number, data, MOST)


def test_a_block_of_snappy_that_lies_about_its_size_is_refused() -> None:
    for lie in (b"\xff\xff\xff\xff\x0f", b"\xff" * 12, b""):
        for data in (lie, b"\x82SNAPPY\0" + b"\0\0\0\1" * 2 + len(lie).to_bytes(4, "big") + lie):
            with pytest.raises(ValueError, match="record batch"):
                decompressed(2, data)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_nothing_but_an_error_comes_of_anything_else(codec: int) -> None:
    rng = random.Random(codec)
    good = [compress(all_sorts(300)) for number, compress in CODECS.values() if number == codec]
    refused = 0
    for _ in range(500):
        data = rng.choice([rng.randbytes(rng.randrange(100)), flipped(rng.choice(good), rng)])
        try:
            found = decompressed(codec, data, MOST)
            assert isinstance(found, OversizedBatchError) or len(found) <= MOST
        except ValueError:
            refused += 1
    assert refused > 100

"""Messages are the bytes that kafka-python writes, which has types of its own, and are read as it reads them."""

from __future__ import annotations

import struct
from importlib import import_module
from random import Random
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from fetched_batches import changed, fetched_batch
from random_messages import kinds, random_message
from streamsapp.brokers.codec import Asking, Structure, Whole, decoded, encoded
from streamsapp.brokers.messages.api_versions import ApiVersionsResponse

_MODULES = [
    import_module(f"kafka.protocol.{name}")
    for name in ("admin", "consumer", "consumer.metadata", "metadata", "producer", "sasl")
]
_BY_NAME = {each.__name__: each for each in kinds()}
#: Requests and answers; the other kind has no versions in kafka-python's calls.
_KINDS = [pytest.param(each, id=name) for name, each in _BY_NAME.items() if name.endswith(("Request", "Response"))]


def _theirs(kind: type[Whole]) -> Any:
    return next(getattr(each, kind.__name__) for each in _MODULES if hasattr(each, kind.__name__))


#: Fields that a later release of Kafka renamed; kafka-python may have their first name.
_FIRST_NAMES = {"generation_id_or_member_epoch": "generation_id"}


def _same(ours: Any, theirs: Any) -> bool:
    """True if all that kafka-python has read is what we have written."""
    if isinstance(ours, Structure):
        lacking = type(ours)()
        return theirs is None or all(
            (_read(theirs, name) is None and getattr(ours, name) == getattr(lacking, name))
            or _same(getattr(ours, name), _read(theirs, name))
            for name in ours.__struct_fields__
            if not name.endswith("authorized_operations")  # it makes sets of these
        )
    if isinstance(ours, list) and theirs is not None:
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    return bool(ours == (theirs.bytes if hasattr(theirs, "bytes") else theirs))


def _read(theirs: Any, name: str) -> Any:
    return getattr(theirs, name, getattr(theirs, _FIRST_NAMES.get(name, name), None))


def _header(kind: type[Whole], version: int) -> bytes:
    """Its header, which kafka-python wants before it."""
    tags = b"\0" if version >= kind.FIRST_COMPACT and kind is not ApiVersionsResponse else b""
    if issubclass(kind, Asking):
        return struct.pack(">hhih", kind.API_KEY, version, 7, 1) + b"c" + tags
    return struct.pack(">i", 7) + tags


@pytest.mark.seeds(3)
@pytest.mark.parametrize("kind", _KINDS)
def test_both_write_the_same_bytes_and_read_the_same_values(kind: type[Whole], seed: int) -> None:
    random, their_kind = Random(seed), _theirs(kind)
    for version in range(kind.VERSIONS[0], kind.VERSIONS[1] + 1):
        header = _header(kind, version)
        for _ in range(5):
            message = random_message(kind, version, random)
            if isinstance(message, ApiVersionsResponse):
                message.error_code = 0  # kafka-python takes one with an error for the first version
            written = encoded(message, version)
            theirs = their_kind.decode(header + written, version=version, header=True)
            assert _same(message, theirs), version
            again = bytes(theirs.encode(header=True))
            assert again == header + written, version
            assert decoded(kind, again[len(header) :], version) == message


@pytest.mark.seeds(5)
def test_batches_that_tests_are_given_are_the_same_bytes(seed: int) -> None:
    random = Random(seed)
    theirs, given = DefaultRecordBatchBuilder(2, 0, False, 7, 0, 0, 1 << 30), []
    for offset in sorted(random.sample(range(300), random.randrange(1, 40))):
        time, key = (
            random.choice([-1, 0, 1, 1_700_000_000_000, 1 << 61]),
            random.choice([None, b"", random.randbytes(70)]),
        )
        given.append((offset, time, key, random.randbytes(9000), [("\u00fc", key)] * random.randrange(70)))
        theirs.append(*given[-1])
    assert fetched_batch(0, given, producer=7) == changed(bytes(theirs.build()), epoch=0)

"""Messages between the two sides of a foreign-key join, as Kafka Streams writes them (KIP-213, KIP-775).

Used by sources, sinks and operators of such joins, on processing threads. A subscription, by foreign key::

    version (1 byte, the highest bit says that there is no hash) ‖ instruction (1) ‖ [hash (16)] ‖ primary key
    ‖ partition of the primary key (4; not in version 0)

A response, by primary key::

    version (as above) ‖ [hash (16)] ‖ value of the foreign table's row, nothing if there is none
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple

from streamsapp.serdes.api import AnySerde, Serde
from streamsapp.serdes.wrapping import WrappingSerde

_NO_HASH = 0x80
_HASH_SIZE = 16
_PARTITION = Struct(">i")
_packed_partition = _PARTITION.pack


class Instruction(IntEnum):
    """Instructs the foreign table's side what to do with a subscription."""

    DELETE_NO_PROPAGATE = 0
    DELETE_AND_PROPAGATE = 1
    PROPAGATE_NULL_IF_NO_FK = 2
    PROPAGATE_ONLY_IF_FK = 3


#: By number: to look a member up in its class takes longer than all the rest of reading a subscription.
_INSTRUCTIONS = tuple(Instruction)
#: The first two bytes, by version, by whether there is no hash, and by instruction.
_STARTS = [
    [[bytes((version | no_hash, instruction)) for instruction in Instruction] for no_hash in (0, _NO_HASH)]
    for version in (0, 1)
]


class ForeignKeySubscription(NamedTuple):
    """A row of the left table asks for a row of the foreign one. ``row_hash`` is that of the asking row's value,
    ``None`` where it was deleted; ``partition`` is ``None`` in version 0."""

    row_hash: bytes | None
    instruction: Instruction
    primary_key: Any
    partition: int | None


class SubscriptionResponse(NamedTuple):
    """The foreign row for a subscription with this hash. ``partition`` says where it goes and is not written."""

    row_hash: bytes | None
    foreign_value: Any
    partition: int | None = None


class _PrimaryKeySerde(WrappingSerde[ForeignKeySubscription]):
    """Serialises a primary key. Its inner serde has a topic name of its own, so that a schema registry keeps the keys'
    schemas apart."""

    def bind(self, topic: str, is_key: bool) -> Serde[ForeignKeySubscription]:
        return self.build(self.inner.bind(f"{topic}-pk", is_key=True))


def subscription_serde(primary_key: AnySerde) -> Serde[ForeignKeySubscription]:
    """Subscriptions of rows with such keys; reads versions 0 and 1, and writes each as the one it has."""
    serialize_key, deserialize_key = primary_key.serialize, primary_key.deserialize

    def serialize(subscription: ForeignKeySubscription) -> bytes:
        row_hash, instruction, key, partition = subscription
        start = _STARTS[partition is not None][row_hash is None][instruction]
        end = b"" if partition is None else _packed_partition(partition)
        return start + (row_hash or b"") + serialize_key(key) + end

    def deserialize(data: bytes) -> ForeignKeySubscription:
        version, row_hash, rest = _start(data, "subscription", (0, 1), extra=1)
        end = len(data) - _PARTITION.size * version
        if end < rest:
            raise ValueError(f"a subscription of version {version} ends with a partition, only {len(data)} bytes came")
        if data[1] >= len(_INSTRUCTIONS):
            raise ValueError(f"a subscription has an instruction from 0 to 3, got {data[1]}")
        partition = _PARTITION.unpack_from(data, end)[0] if version else None
        return ForeignKeySubscription(row_hash, _INSTRUCTIONS[data[1]], deserialize_key(data[rest:end]), partition)

    return _PrimaryKeySerde(
        serialize, deserialize, primary_key.immutable, "subscription", inner=primary_key, build=subscription_serde
    )


def response_serde(foreign_value: AnySerde) -> Serde[SubscriptionResponse]:
    """Responses with rows of such values."""
    serialize_value, deserialize_value = foreign_value.serialize, foreign_value.deserialize

    def serialize(response: SubscriptionResponse) -> bytes:
        row_hash, value, _ = response
        start = bytes((_NO_HASH,)) if row_hash is None else b"\x00" + row_hash
        return start if value is None else start + serialize_value(value)

    def deserialize(data: bytes) -> SubscriptionResponse:
        _, row_hash, rest = _start(data, "subscription response", (0,), extra=0)
        return SubscriptionResponse(row_hash, deserialize_value(data[rest:]) if len(data) > rest else None)

    return WrappingSerde(
        serialize, deserialize, foreign_value.immutable, "response", inner=foreign_value, build=response_serde
    )


def _start(data: bytes, kind: str, versions: tuple[int, ...], extra: int) -> tuple[int, bytes | None, int]:
    """Version, hash, and where what follows begins; ``extra`` bytes stand between version and hash."""
    begin = 1 + extra
    if data and data[0] in versions and len(data) >= begin + _HASH_SIZE:  # most have a hash
        return data[0], data[begin : begin + _HASH_SIZE], begin + _HASH_SIZE
    version = data[0] & ~_NO_HASH if data else -1
    if version not in versions or len(data) < begin:
        raise ValueError(
            f"a {kind} begins with its version, {' or '.join(map(str, versions))}; got {data[:2].hex(' ')}"
        )
    if data[0] & _NO_HASH:
        return version, None, begin
    raise ValueError(f"a {kind} announces a hash of {_HASH_SIZE} bytes, only {len(data) - begin} follow")

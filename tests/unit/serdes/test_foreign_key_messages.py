"""The messages that foreign-key joins send, byte by byte, and the hash in them."""

from __future__ import annotations

from struct import unpack

import pytest

from streamsapp import Serdes
from streamsapp.serdes.foreign_key_messages import (
    ForeignKeySubscription,
    Instruction,
    SubscriptionResponse,
    response_serde,
    subscription_serde,
)
from streamsapp.serdes.murmur3 import murmur3_128

_HASH = bytes(range(16))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (b"21", (5857341059704281894, -5288187638297930763)),
        (b"foobar", (-351361463397418609, 8959716011862540668)),
    ],
)
def test_hashes_are_those_of_kafka_streams(text: bytes, numbers: tuple[int, int]) -> None:
    assert unpack(">qq", murmur3_128(text, seed=123)) == numbers


def test_hashes_of_more_than_a_block_are_those_of_murmur3() -> None:
    fox = b"The quick brown fox jumps over the lazy dog"
    assert murmur3_128(fox, seed=0).hex() == "e34bbc7bbc071b6c7a433ca9c49a9347"


@pytest.mark.parametrize(
    ("subscription", "written"),
    [
        (
            ForeignKeySubscription(_HASH, Instruction.PROPAGATE_ONLY_IF_FK, "k", 5),
            b"\x01\x03" + _HASH + b"k\x00\x00\x00\x05",
        ),
        (ForeignKeySubscription(None, Instruction.DELETE_AND_PROPAGATE, "k", 0), b"\x81\x01k\x00\x00\x00\x00"),
        (ForeignKeySubscription(_HASH, Instruction.PROPAGATE_NULL_IF_NO_FK, "k", None), b"\x00\x02" + _HASH + b"k"),
        (ForeignKeySubscription(None, Instruction.DELETE_NO_PROPAGATE, "key", None), b"\x80\x00key"),
    ],
    ids=["version 1", "version 1 without hash", "version 0", "version 0 without hash"],
)
def test_subscriptions_of_both_versions_are_written_as_they_were_read(
    subscription: ForeignKeySubscription, written: bytes
) -> None:
    serde = subscription_serde(Serdes.string())
    assert serde.serialize(subscription) == written
    assert serde.deserialize(written) == subscription


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "version"),
        (b"\x01", "version"),
        (b"\x02\x00" + _HASH + b"k\x00\x00\x00\x00", "version"),
        (b"\x81\x04k\x00\x00\x00\x00", "instruction"),
        (b"\x01\x00short", "hash"),
        (b"\x81\x00k", "partition"),
    ],
)
def test_what_is_no_subscription_is_told(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        subscription_serde(Serdes.string()).deserialize(data)


@pytest.mark.parametrize(
    ("response", "written"),
    [
        (SubscriptionResponse(_HASH, "row"), b"\x00" + _HASH + b"row"),
        (SubscriptionResponse(None, "row"), b"\x80row"),
        (SubscriptionResponse(_HASH, None), b"\x00" + _HASH),
    ],
)
def test_responses_are_written_without_their_partition(response: SubscriptionResponse, written: bytes) -> None:
    serde = response_serde(Serdes.string())
    assert serde.serialize(response._replace(partition=3)) == written
    assert serde.deserialize(written) == response


def test_a_schema_registry_sees_the_primary_keys_under_a_name_of_their_own() -> None:
    topics: list[tuple[str, bool]] = []

    class Bound(type(Serdes.string())):  # type: ignore[misc]
        def bind(self, topic: str, is_key: bool) -> Bound:
            topics.append((topic, is_key))
            return self

    inner = Serdes.string()
    subscription_serde(Bound(inner.serialize, inner.deserialize)).bind("app-x-topic", is_key=False)
    assert topics == [("app-x-topic-pk", True)]

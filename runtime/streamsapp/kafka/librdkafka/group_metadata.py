"""A member's proof that a transaction's offsets are its own to commit, in librdkafka's form. Polling thread only."""

from __future__ import annotations

import struct
from functools import cache

from confluent_kafka import Consumer

from streamsapp.errors import StreamsError
from streamsapp.kafka.group_member import Member


def group_metadata(member: Member) -> bytes:
    """The proof of membership by which a transaction's offsets are fenced, as librdkafka writes it for itself.

    librdkafka's own says generation -1 for a consumer that was assigned its partitions, which no broker fences.
    """
    head = b"CGMDv2:" + struct.pack("=i", member.generation)
    names = f"{member.group_id}\0{member.member_id}\0".encode()
    return head + names + (b"\x01" if member.instance_id is None else f"\0{member.instance_id}\0".encode())


@cache
def check_group_metadata() -> None:
    """Raise ``StreamsError`` if this librdkafka writes group metadata in another way: a transaction would carry offsets
    that nothing fences."""
    for instance_id in (None, "instance"):
        static = {} if instance_id is None else {"group.instance.id": instance_id}
        consumer = Consumer({"group.id": "format", **static})
        try:
            found = consumer.consumer_group_metadata()
        finally:
            consumer.close()
        if found != group_metadata(Member("format", -1, "", instance_id)):
            raise StreamsError(
                f"confluent-kafka writes group metadata in an unknown form ({found!r}): install the release that"
                " requirements.lock names"
            )

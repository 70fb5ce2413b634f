"""An instance that cannot join a group reports the group, and what to do about it."""

from __future__ import annotations

import socket
import struct

import pytest

from instances import eventually
from kafka_cluster import Kafka
from members import ENDLESS, Members, tasks_of
from streamsapp.errors import StreamsError

ALTER_SHARE_GROUP_OFFSETS, DELETE_GROUPS = 91, 42


def asked(kafka: Kafka, key: int, version: int, body: bytes) -> bytes:
    """A broker's answer to a request that the client has no method for (KIP-482: flexible)."""
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    message = struct.pack(">hhih4s", key, version, 1, 4, b"test") + b"\0" + body
    with socket.create_connection((host, int(port)), 30) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">i", len(message)) + message)
        return answers.read(struct.unpack(">i", answers.read(4))[0])


def text(given: str) -> bytes:
    return bytes([len(given) + 1]) + given.encode()


def make_share_group(kafka: Kafka, group: str, topic: str) -> None:
    """A share group without members (KIP-932), as resetting its offsets makes one."""
    partition = struct.pack(">iq", 0, 0) + b"\0"
    body = text(group) + b"\2" + text(topic) + b"\2" + partition + b"\0" + b"\0"
    eventually(lambda: topic.encode() in asked(kafka, ALTER_SHARE_GROUP_OFFSETS, 0, body), "a share group")


def refusal(members: Members, app: str, topic: str) -> str:
    one = members.join(app, tasks_of(topic, 1), kafka=ENDLESS)
    with pytest.raises(StreamsError) as raised:
        members.until(lambda: False, "the error")
    members.leave(one)
    return str(raised.value)


def test_an_empty_share_group_is_told_with_the_command_that_deletes_it(kafka: Kafka, members: Members) -> None:
    app, topic = kafka.unique("app"), kafka.create_topic()
    first = members.join(kafka.unique("app"), tasks_of(topic, 1), kafka=ENDLESS)
    members.settled(first, partitions=[0])  # a broker coordinates no group before the topic of offsets is there
    members.leave(first)
    make_share_group(kafka, app, topic)

    told = refusal(members, app, topic)

    assert f"there is a share group with the application id {app}; it has no members" in told
    assert f"kafka-share-groups.sh --bootstrap-server <broker> --delete --group {app}, or choose another" in told
    asked(kafka, DELETE_GROUPS, 2, b"\2" + text(app) + b"\0")
    again = members.join(app, tasks_of(topic, 1), kafka=ENDLESS)
    members.settled(again, partitions=[0])


def test_members_of_another_application_are_told(kafka: Kafka, members: Members) -> None:
    app, topic = kafka.unique("app"), kafka.create_topic()
    other = kafka.consumer_in_group(app, topic)
    try:
        assert f"another kind of application runs under application id {app}, as members" in refusal(
            members, app, topic
        )
    finally:
        other.close()

"""A broker that lets sessions be short and takes credentials, and members of groups on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from kafka_cluster import Kafka
from members import TIMEOUT, Members
from secured_broker import SecuredBroker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The broker all tests here share: never stop it."""
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as running:
        assert isinstance(running, SecuredBroker)
        # The first transaction of all waits for the topic of transactions, which says nothing about members.
        first = Producer({"bootstrap.servers": running.bootstrap_servers, "transactional.id": "first"})
        first.init_transactions(TIMEOUT)
        yield running


@pytest.fixture
def members(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> Iterator[Members]:
    """Makes members; members that are left after the test leave the group."""
    # A busy broker answers late: it must still hear a member that leaves, and a member must find what the dead left
    # open. No commit may begin in a join that takes longer than usual.
    monkeypatch.setattr("streamsapp.membership.classic_protocol.GOODBYE", TIMEOUT)
    monkeypatch.setattr("streamsapp.membership.member.LEAVE", TIMEOUT)
    monkeypatch.setattr("streamsapp.membership.member.COMMIT", TIMEOUT)
    monkeypatch.setattr("streamsapp.membership.fencing._REQUEST", TIMEOUT)
    monkeypatch.setattr("streamsapp.membership.mailbox.JOIN_WAIT", TIMEOUT)
    made = Members(kafka)
    yield made
    made.close()

"""A broker that lets sessions be short and takes credentials, and members of groups on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from kafka_cluster import Kafka
from members import Members
from secured_broker import SecuredBroker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The broker all tests here share: never stop it."""
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as running:
        assert isinstance(running, SecuredBroker)
        # The first transaction of all waits for the topic of transactions, which says nothing about members.
        Producer({"bootstrap.servers": running.bootstrap_servers, "transactional.id": "first"}).init_transactions(30)
        yield running


@pytest.fixture
def members(kafka: Kafka) -> Iterator[Members]:
    """Makes members; what is left of them after the test leaves."""
    made = Members(kafka)
    yield made
    made.close()

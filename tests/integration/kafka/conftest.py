"""A broker with each kind of connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from secured_broker import SecuredBroker
from secured_reading import Properties, Reading


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The broker all tests here share: never stop it."""
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as running:
        assert isinstance(running, SecuredBroker)
        running.introduce("anna", "secret")
        yield running


@pytest.fixture
def reading() -> Iterator[Callable[[str, Properties], Reading]]:
    """Makes consumers that are closed after the test."""
    made: list[Reading] = []

    def begin(topic: str, properties: Properties) -> Reading:
        made.append(Reading(topic, properties))
        return made[-1]

    yield begin
    for each in made:
        each.consumer.close()

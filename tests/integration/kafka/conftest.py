"""A broker with each kind of connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from secured_broker import SecuredBroker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The broker all tests here share: never stop it."""
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as running:
        assert isinstance(running, SecuredBroker)
        running.introduce("anna", "secret")
        yield running

"""What every test runs under, and the API server that tests of the operator share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from api_server import ApiServer

# How long an example takes says nothing on a machine that runs brokers beside it; a hang meets the timeout.
settings.register_profile("house", deadline=None)
settings.load_profile("house")


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The API server all tests share: never stop it; a test that wants to makes its own."""
    from api_server import ApiServer  # late: few tests need the Kubernetes client, and it takes half a second to import

    with ApiServer(tmp_path_factory.mktemp("api-server")) as running:
        yield running

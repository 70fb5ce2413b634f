"""A real S3 server for tests of remote state: one for the whole run, or one of a test's own to break."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from s3_server import S3Server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The server all tests share, each under a prefix of its own: never stop it."""
    with S3Server(tmp_path_factory.mktemp("s3") / "server") as running:
        yield running


@pytest.fixture
def own_s3_server(tmp_path: Path) -> Iterator[S3Server]:
    """A running server for one test, which may stop, freeze and restart it."""
    with S3Server(tmp_path / "s3") as running:
        yield running

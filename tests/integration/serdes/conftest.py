"""A real schema registry, one for the tests of this folder."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

import schema_registry
from instances import TIMEOUT, eventually
from streamsapp.local.broker import free_port


@pytest.fixture(scope="session")
def registry_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address, with the path of Confluent's API."""
    port, log = free_port(), tmp_path_factory.mktemp("registry") / "log"
    url = f"http://127.0.0.1:{port}{schema_registry.PATH}"
    process = schema_registry.start(port, log)
    try:

        def answers() -> bool:
            assert process.poll() is None, log.read_text()[-4000:]
            try:
                with urllib.request.urlopen(f"{url}/subjects", timeout=5):  # noqa: S310 - http, as written above
                    return True
            except (urllib.error.URLError, OSError):
                return False

        eventually(answers, "the registry")
        yield url
    finally:
        process.terminate()
        process.wait(TIMEOUT)

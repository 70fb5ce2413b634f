"""The native data path, compiled once, and a broker of librdkafka's own in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from data_paths import take
from streamsapp import native
from streamsapp.native import build


@pytest.fixture(scope="session")
def compiled() -> native.DataPath:
    try:
        return native._loaded(str(build.library()))
    except build.UnavailableError as error:
        pytest.skip(f"no native data path here: {error}")


@pytest.fixture(params=["Python", "native"])
def path(request: pytest.FixtureRequest, compiled: native.DataPath, monkeypatch: pytest.MonkeyPatch) -> str:
    """Clients that the test makes take this one."""
    take(compiled if request.param == "native" else None, monkeypatch)
    return str(request.param)


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """The address of a broker that makes every topic it hears of, with four partitions."""
    home = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": f"mock-{os.getpid()}"})
    [only] = home.list_topics(timeout=60).brokers.values()
    yield f"{only.host}:{only.port}"
    home.close()

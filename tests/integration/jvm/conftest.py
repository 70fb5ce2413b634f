"""Kafka Streams for the tests of this folder: as an oracle that reads bytes, and as an application."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from jvm import Jvm
from oracle import Oracle
from streamsapp import StreamsConfig


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """A running Kafka Streams that answers requests."""
    with Oracle() as running:
        yield running


@pytest.fixture
def start_jvm(tmp_path: Path) -> Iterator[Callable[..., Jvm]]:
    """Starts the program on Kafka Streams; closes after the test what still runs."""
    started: list[Jvm] = []

    def start(
        topics: Iterable[str], config: StreamsConfig, program: str = "Lines", more: Mapping[str, str] | None = None
    ) -> Jvm:
        started.append(Jvm(topics, config, tmp_path, program, more))
        return started[-1]

    yield start
    for jvm in started:
        jvm.close()

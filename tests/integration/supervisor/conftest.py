"""An application of counts and the topic it reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_cluster import Kafka
from pods import Pods


@pytest.fixture
def words(kafka: Kafka) -> str:
    """Its input."""
    return kafka.create_topic("words", 4)


@pytest.fixture
def pods(kafka: Kafka, words: str, tmp_path: Path) -> Iterator[Pods]:
    made = Pods(kafka.bootstrap_servers, kafka.unique("counting"), words, tmp_path)
    yield made
    made.close()

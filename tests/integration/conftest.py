"""A real broker for integration tests, one for the whole run or one of a test's own to break, and instances on it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from instances import Instances
from kafka_cluster import START_TIMEOUT, Kafka
from pods import Pods
from streamsapp.local.broker import EmbeddedBroker

#: Records of tests have times of 1970, so changelogs of windows would lose them whenever the broker looks for old ones.
KEEPS_OLD_TIMES = {"log.retention.check.interval.ms": "86400000"}


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """The broker all tests share: never stop it."""
    folder = tmp_path_factory.mktemp("kafka")
    with EmbeddedBroker(folder, properties=KEEPS_OLD_TIMES, start_timeout=START_TIMEOUT) as running:
        yield running


@pytest.fixture
def kafka(broker: EmbeddedBroker) -> Kafka:
    """Topics and records on the shared broker."""
    return Kafka(broker.bootstrap_servers)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A running broker for one test, which may stop, kill and restart it."""
    folder = tmp_path / "kafka"
    with EmbeddedBroker(folder, properties=KEEPS_OLD_TIMES, start_timeout=START_TIMEOUT) as running:
        yield running


@pytest.fixture
def instances(kafka: Kafka, tmp_path: Path) -> Iterator[Instances]:
    """Makes instances; closes after the test those still running."""
    made = Instances(kafka, tmp_path)
    yield made
    made.close()


@pytest.fixture
def there(own_broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Instances]:
    """Instances on a broker that may be stopped."""
    made = Instances(Kafka(own_broker.bootstrap_servers), tmp_path)
    yield made
    made.close()


@pytest.fixture
def words(kafka: Kafka) -> str:
    """The topic that an application of counts reads."""
    return kafka.create_topic("words", 4)


@pytest.fixture
def pods(kafka: Kafka, words: str, tmp_path: Path) -> Iterator[Pods]:
    """Pods of an application of counts; closes after the test those still running."""
    made = Pods(kafka.bootstrap_servers, kafka.unique("counting"), words, tmp_path)
    yield made
    made.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for a few megabytes."""
    directory = tmp_path / "small-disk"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(directory)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk is a file system that only root may mount, and not in every container")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


@pytest.fixture(params=["exactly_once", pytest.param("at_least_once", marks=pytest.mark.long)])
def guarantee(request: pytest.FixtureRequest) -> str:
    """Both processing guarantees."""
    name: str = request.param
    return name

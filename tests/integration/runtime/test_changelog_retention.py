"""Windows of records that are years old survive the loss of their disk, though the broker deletes by its clock."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource

from instances import Instances, eventually, produce
from kafka_cluster import START_TIMEOUT, Kafka
from streamsapp import ClientState, Materialized, StreamsBuilder, StreamsRuntime, TimeWindows, Topology
from streamsapp.local.broker import EmbeddedBroker

#: Expired segments are looked for so often, in milliseconds, and not every 15 seconds.
ROUND_MS = 200
#: A full minute.
YEARS_AGO = 1_500_000_000_000


@pytest.fixture
def eager(tmp_path: Path) -> Iterator[Kafka]:
    """A broker that deletes what has expired at once."""
    properties = {"log.cleaner.backoff.ms": str(ROUND_MS)}
    with EmbeddedBroker(tmp_path / "kafka", properties=properties, start_timeout=START_TIMEOUT) as running:
        yield Kafka(running.bootstrap_servers)


def counting(source: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream(source).group_by_key().windowed_by(TimeWindows.of(60_000)).count(Materialized("counts"))
    return builder.build()


def kept_ms(kafka: Kafka, topic: str) -> int:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    (settings,) = kafka.admin.describe_configs([resource]).values()
    return int(settings.result(60)["retention.ms"].value)


def count_of(instance: StreamsRuntime, start_ms: int) -> int | None:
    """The count of a window as it is committed, once the instance runs."""
    if instance.state is not ClientState.RUNNING:
        return None
    found = list(instance.query("counts", b"k", from_time=start_ms, to_time=start_ms))
    return found[0][1].value if found else None


def test_windows_of_years_ago_survive_the_loss_of_the_disk(eager: Kafka, tmp_path: Path) -> None:
    source = eager.create_topic("in", config={"retention.ms": "-1"})
    instances = Instances(eager, tmp_path)
    config = instances.config()
    changelog = f"{config.application_id}-counts-changelog"
    first = instances.start(counting(source), config)
    produce(eager, source, [(b"k", b"v", YEARS_AGO)])
    eventually(lambda: first.state is ClientState.RUNNING)
    eventually(lambda: kept_ms(eager, changelog) > time.time() * 1000 - YEARS_AGO)

    produce(eager, source, [(b"k", b"v", YEARS_AGO + 60_000)] * 3)
    eventually(lambda: count_of(first, YEARS_AGO + 60_000) == 3)
    assert first.close()
    time.sleep(20 * ROUND_MS / 1000)
    shutil.rmtree(config.state_dir)

    second = instances.start(counting(source), config)
    produce(eager, source, [(b"k", b"v", YEARS_AGO + 60_000)])
    eventually(lambda: count_of(second, YEARS_AGO + 60_000) == 4)
    instances.close()

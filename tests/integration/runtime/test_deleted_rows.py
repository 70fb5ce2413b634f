"""A row that was deleted does not come back from an old disk once the broker has compacted its deletion away."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from instances import Instances, eventually, produce
from kafka_cluster import START_TIMEOUT, Kafka
from streamsapp import ClientState, Materialized, StreamsBuilder, StreamsRuntime, Topology
from streamsapp.errors import StoreNotAvailableError
from streamsapp.local.broker import EmbeddedBroker

COMPACTED = {
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "500",
    "delete.retention.ms": "500",
}


@pytest.fixture
def cleaned(tmp_path: Path) -> Iterator[Instances]:
    """Instances on a broker that compacts several times a second."""
    with EmbeddedBroker(
        tmp_path / "kafka", properties={"log.cleaner.backoff.ms": "200"}, start_timeout=START_TIMEOUT
    ) as running:
        instances = Instances(Kafka(running.bootstrap_servers), tmp_path)
        yield instances
        instances.close()


def table(source: str) -> Topology:
    builder = StreamsBuilder()
    builder.table(source, materialized=Materialized("rows"))
    return builder.build()


def has(instance: StreamsRuntime, *keys: bytes) -> bool:
    try:
        return {key for key, _ in instance.query("rows", from_=None, to=None)} == set(keys)
    except StoreNotAvailableError:
        return False


@pytest.mark.long
def test_a_deleted_row_does_not_come_back_from_an_old_disk(
    cleaned: Instances, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = cleaned.kafka
    source = kafka.create_topic("rows")
    config = cleaned.config(processing_guarantee="exactly_once", topic_properties=COMPACTED)
    instance = cleaned.start(table(source), config)
    produce(kafka, source, [(key, b"1", 0) for key in (b"a", b"b", b"c")])
    eventually(lambda: has(instance, b"a", b"b", b"c"))
    assert instance.close()
    shutil.copytree(config.state_dir, tmp_path / "old")

    again = cleaned.start(table(source), config)
    produce(kafka, source, [(b"a", None, 1)])
    changelog, number = f"{config.application_id}-rows-changelog", 0

    def compacted() -> bool:
        nonlocal number
        number += 1
        produce(kafka, source, [(b"z", b"%d" % number, 1 + number)])
        return b"a" not in {message.key() for message in kafka.read(changelog)}

    eventually(lambda: has(again, b"b", b"c"))
    eventually(compacted)
    assert again.close()

    caplog.clear()
    old = cleaned.start(table(source), replace(config, state_dir=tmp_path / "old"))
    eventually(lambda: has(old, b"b", b"c", b"z"))
    assert old.state is ClientState.RUNNING
    assert "for longer than the broker keeps deletions" in caplog.text

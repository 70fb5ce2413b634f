"""Topics that are missing, have the wrong partitions, or may not be read: refused by name, with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from instances import TIMEOUT, Instances, eventually, produce
from kafka_cluster import START_TIMEOUT, Kafka
from streamsapp import ClientState, Materialized, StreamsBuilder, Topology
from streamsapp.errors import TopicError
from streamsapp.local.broker import EmbeddedBroker

GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Kafka]:
    """A broker with access control."""
    with EmbeddedBroker(tmp_path / "kafka", properties=GUARDED, start_timeout=START_TIMEOUT) as running:
        yield Kafka(running.bootstrap_servers)


def counting(source: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream(source).group_by_key().count(Materialized("counts"))
    return builder.build()


def copying(source: str, sink: str) -> Topology:
    return Topology().add_source("source", source).add_sink("sink", sink, "source")


def failure(instances: Instances, topology: Topology, application_id: str = "") -> str:
    """Returns the text of the error that ends an instance that cannot run."""
    instance = instances.start(topology, instances.config(application_id))
    error = instance.wait(TIMEOUT)
    assert isinstance(error, TopicError), error
    assert instance.state is ClientState.ERROR
    return str(error)


def test_a_missing_source_topic_is_named(instances: Instances, kafka: Kafka) -> None:
    message = failure(instances, counting(kafka.unique("nowhere")))
    assert "nowhere" in message
    assert "create it" in message


def test_a_changelog_with_another_number_of_partitions_is_refused(instances: Instances, kafka: Kafka) -> None:
    source = kafka.create_topic("in", partitions=2)
    config = instances.config()
    first = instances.start(counting(source), config)
    eventually(lambda: first.state is ClientState.RUNNING)
    assert first.close()
    grow(kafka.admin, source, 3)

    message = failure(instances, counting(source), config.application_id)

    assert f"{config.application_id}-counts-changelog has 2 partitions and needs 3" in message
    assert "reset" in message


def test_a_source_topic_that_gains_partitions_ends_a_running_application(
    instances: Instances, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamsapp.runtime.layouts._PERIOD", 0.2)
    source = kafka.create_topic("in", partitions=2)
    instance = instances.start(counting(source), instances.config())
    eventually(lambda: instance.state is ClientState.RUNNING)

    grow(kafka.admin, source, 3)

    error = instance.wait(TIMEOUT)
    assert isinstance(error, TopicError), error
    assert f"source topic {source} had 2 partitions" in str(error)
    assert "now has 3" in str(error)


def test_topics_that_are_grouped_differently_cannot_be_read_together(instances: Instances, kafka: Kafka) -> None:
    few, many = kafka.create_topic("few", partitions=2), kafka.create_topic("many", partitions=3)
    topology = Topology().add_source("a", few).add_source("b", many)
    topology.copartition_sources(["a", "b"])
    topology.add_sink("sink", kafka.create_topic("out"), "a", "b")

    message = failure(instances, topology)

    assert few in message
    assert many in message


def test_a_topic_that_may_not_be_read_is_named_with_the_right_that_is_missing(guarded: Kafka, tmp_path: Path) -> None:
    source, sink = guarded.create_topic("secret"), guarded.create_topic("out")
    produce(guarded, source, [(b"k", b"v", 1000)])
    deny(guarded.admin, source, "READ")
    instances = Instances(guarded, tmp_path)

    message = failure(instances, copying(source, sink))

    assert f"not authorised to read {source}" in message
    assert "grant READ" in message
    instances.close()


def test_a_topic_that_may_not_be_written_is_named_with_the_right_that_is_missing(
    guarded: Kafka, tmp_path: Path
) -> None:
    source, sink = guarded.create_topic("in"), guarded.create_topic("guarded")
    produce(guarded, source, [(b"k", b"v", 1000)])
    deny(guarded.admin, sink, "WRITE")
    instances = Instances(guarded, tmp_path)

    instance = instances.start(copying(source, sink), instances.config(processing_guarantee="at_least_once"))

    message = str(instance.wait(TIMEOUT))
    assert f"cannot write to topic {sink}" in message
    assert "grant WRITE" in message
    instances.close()


def grow(admin: AdminClient, topic: str, partitions: int) -> None:
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(TIMEOUT)
    # The controller creates them; a busy broker may hear of it later.
    eventually(lambda: len(admin.list_topics(topic, timeout=60).topics[topic].partitions) == partitions)


def deny(admin: AdminClient, topic: str, operation: str) -> None:
    """Allow everything on a topic but one operation."""
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    of_all = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")

    def rule(what: str, permission: AclPermissionType) -> AclBinding:
        return AclBinding(*of_all, AclOperation[what], permission)

    rules = [rule("ALL", AclPermissionType.ALLOW), rule(operation, AclPermissionType.DENY)]
    for created in admin.create_acls(rules).values():
        created.result(TIMEOUT)
    # The controller takes them; a busy broker may hear of it later.
    wanted = AclBindingFilter(*of_all, AclOperation.ANY, AclPermissionType.ANY)
    eventually(lambda: len(admin.describe_acls(wanted).result(TIMEOUT)) == len(rules))

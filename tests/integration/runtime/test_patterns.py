"""Sources that read every topic that matches a pattern: it reads topics that come later, and leaves topics that go."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from instances import Instances, eventually
from streamsapp import ClientState, Consumed, Materialized, Produced, Serdes, StreamsBuilder, StreamsRuntime, Topology

TEXT = Serdes.string()


class Application:
    """Instances that look for topics every half second."""

    def __init__(self, instances: Instances, guarantee: str, **settings: Any) -> None:
        self._instances, self.kafka = instances, instances.kafka
        self._id = self.kafka.unique("app")
        self._settings: dict[str, Any] = {
            "processing_guarantee": guarantee,
            "commit_interval_ms": 100,
            "kafka": {"metadata.max.age.ms": "500"},
            **settings,
        }
        self.prefix = self.kafka.unique("events")
        self.sink = self.kafka.create_topic("out")
        self.sent: Counter[bytes] = Counter()

    def start(self, name: str, topology: Topology) -> StreamsRuntime:
        directory = self._instances.directory / name
        config = self._instances.config(self._id, state_dir=directory, client_id=name, host_id=name, **self._settings)
        instance = self._instances.start(topology, config)
        eventually(lambda: instance.state is ClientState.RUNNING)
        return instance

    def begun(self, topic: str) -> bool:
        """Says whether the group knows where the topic is read from."""
        return bool(self.kafka.committed(self._id, topic))

    def copying(self, reset: str = "earliest") -> Topology:
        builder = StreamsBuilder()
        read = builder.stream(re.compile(f"{self.prefix}-.*"), Consumed(TEXT, TEXT, offset_reset=reset))
        read.to(self.sink, Produced(TEXT, TEXT))
        return builder.build()

    def counting(self) -> Topology:
        builder = StreamsBuilder()
        read = builder.stream(re.compile(f"{self.prefix}-.*"), Consumed(TEXT, TEXT))
        counts = read.group_by_key().count(Materialized("counts"))
        counts.to_stream().to(self.sink, Produced(TEXT, Serdes.long()))
        return builder.build()

    def topic(self, name: str, partitions: int = 1) -> str:
        return self.kafka.create_topic(f"{self.prefix}-{name}", partitions=partitions)

    def send(self, topic: str, *values: str) -> None:
        self.kafka.produce(topic, [(b"key", value.encode()) for value in values])
        self.sent.update(value.encode() for value in values)

    def all_copied(self) -> bool:
        return Counter(message.value() for message in self.kafka.read(self.sink)) == self.sent


@pytest.mark.parametrize(
    ("guarantee", "reset"),
    [
        ("exactly_once", "earliest"),
        ("at_least_once", "latest"),
        pytest.param("at_least_once", "earliest", marks=pytest.mark.long),
        pytest.param("exactly_once", "latest", marks=pytest.mark.long),
    ],
)
def test_topics_that_come_are_read_whole_by_all_instances_and_topics_that_go_end_none(
    instances: Instances, guarantee: str, reset: str
) -> None:
    app = Application(instances, guarantee)
    first_topic = app.topic("a")
    first, second = (app.start(name, app.copying(reset)) for name in ("one", "two"))
    if reset == "latest":
        eventually(lambda: app.begun(first_topic), "the place where the first topic is read from")

    late = app.topic("b", partitions=4)
    app.send(late, *(f"late {number}" for number in range(20)))
    eventually(app.all_copied, "the records of the topic that came")
    eventually(lambda: all(len(each.status()["tasks"]) == 2 for each in (first, second)), "tasks of both instances")

    third = app.start("three", app.copying(reset))
    eventually(lambda: len(third.status()["tasks"]) == 1, "a task of the instance that joined later")

    app.kafka.admin.delete_topics([late])[late].result(30)
    eventually(lambda: sum(len(each.status()["tasks"]) for each in (first, second, third)) == 1, "tasks that go")
    app.send(first_topic, "still read")
    eventually(app.all_copied, "the records of the topic that stayed")
    assert {each.state for each in (first, second, third)} == {ClientState.RUNNING}


def test_an_application_waits_for_the_first_topic_that_matches(instances: Instances) -> None:
    app = Application(instances, "exactly_once")
    instance = app.start("one", app.copying())
    assert instance.status()["tasks"] == []

    app.send(app.topic("a"), "first")

    eventually(app.all_copied, "the records of the first topic")


def test_tasks_with_state_and_their_standbys_go_on_with_what_they_had(instances: Instances) -> None:
    app = Application(instances, "exactly_once", standby_replicas=1)
    before = app.topic("a")
    one, two = (app.start(name, app.counting()) for name in ("one", "two"))
    app.send(before, "x", "x")
    eventually(lambda: len(app.kafka.read(app.sink)) == 2)

    late = app.topic("b")
    app.send(late, "x")
    eventually(lambda: len(app.kafka.read(app.sink)) == 3, "the record of the topic that came")
    app.send(before, "x")
    eventually(lambda: len(app.kafka.read(app.sink)) == 4)
    assert [int.from_bytes(each.value() or b"") for each in app.kafka.read(app.sink)] == [1, 2, 3, 4]

    active = one if one.status()["tasks"][0]["role"] == "active" else two
    other = two if active is one else one
    active.close()
    app.send(late, "x")
    eventually(lambda: len(app.kafka.read(app.sink)) == 5, "the standby that took over")
    assert int.from_bytes(app.kafka.read(app.sink)[-1].value() or b"") == 5
    assert other.state is ClientState.RUNNING


def test_a_topic_with_more_partitions_than_the_changelog_ends_the_instance_by_name(instances: Instances) -> None:
    app = Application(instances, "exactly_once")
    app.topic("a")
    instance = app.start("one", app.counting())

    late = app.topic("b", partitions=3)

    told = str(instance.wait(60))
    assert late in told
    assert "counts-changelog has 1 partitions and needs 3" in told

"""``idle_after`` on a broker: windows close in silence, and at the same places in every run over the same input."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from random import Random

import pytest

from instances import Instances, Process, end_offsets, eventually, produce
from kafka_cluster import Kafka
from killable import idle_windows
from streamsapp import StreamsConfig
from streamsapp.cli.kafka_cluster import KafkaCluster
from streamsapp.cli.topology_topics import topics_of
from streamsapp.kafka.groups import GroupAdmin
from streamsapp.record import TopicPartition

IDLE_AFTER_MS = 400
#: A record as it was written: key, value, time and headers.
Written = tuple[object, ...]


class Bursts:
    """Input that comes in bursts, with the time that it comes; each window closes in the silence after it."""

    def __init__(self, instances: Instances, partitions: int = 1) -> None:
        self.instances, self.kafka = instances, instances.kafka
        self.source = self.kafka.create_topic("bursts", partitions=partitions)
        self.sink = self.new_sink()
        self._random = Random(5)
        self.sent: set[bytes] = set()

    def new_sink(self) -> str:
        return self.kafka.create_topic("finals", partitions=1)

    def burst(self) -> None:
        """Some records of now: with them the windows of a second or two are open."""
        now = int(time.time() * 1000)
        keys = [b"key%d" % self._random.randrange(8) for _ in range(40)]
        times = [now - 100 + at for at in range(len(keys))]
        produce(self.kafka, self.source, [(key, key, at) for key, at in zip(keys, times, strict=True)])
        self.sent.update(b"%s@%d" % (key, at // 1000 * 1000) for key, at in zip(keys, times, strict=True))

    def topology_arguments(self, sink: str, **more: object) -> dict[str, object]:
        return {"source": self.source, "sink": sink, "idle_after_ms": IDLE_AFTER_MS, **more}

    def results(self, sink: str) -> dict[bytes, list[Written]]:
        """Everything that was sent, by key."""
        found: defaultdict[bytes, list[Written]] = defaultdict(list)
        for each in self.kafka.read(sink):
            found[each.key() or b""].append((each.value(), each.timestamp(), each.headers()))
        return dict(found)

    def all_told(self, sink: str) -> bool:
        """Say whether each window has sent its result."""
        return self.results(sink).keys() >= self.sent

    def start_over(self, config: StreamsConfig, **more: object) -> None:
        """As ``streamsapp reset`` does: nothing is left but the input and the time markers."""
        topology = idle_windows(**self.topology_arguments(self.sink, **more))  # type: ignore[arg-type]
        cluster = KafkaCluster(config)
        topics = topics_of(topology, config.application_id)
        assert topics.time_markers
        partitions = range(len(self.kafka.partitions_of(self.source)))
        group = GroupAdmin(config)
        eventually(lambda: group.activity() is None, "the end of the members that were killed")
        group.commit({TopicPartition(self.source, each): 0 for each in partitions})
        existing = cluster.partitions()
        cluster.delete_topics(tuple((topics.internal - topics.time_markers).intersection(existing)))
        shutil.rmtree(config.state_dir, ignore_errors=True)


def markers(kafka: Kafka, config: StreamsConfig) -> int:
    """The number of markers that were recorded by now."""
    return end_offsets(kafka, f"{config.application_id}-seconds-time-markers-changelog")


@pytest.mark.parametrize("repartitioned", [False, True], ids=["at_the_source", "behind_a_topic"])
def test_windows_close_in_silence_and_a_run_from_the_beginning_writes_the_same_bytes(
    instances: Instances, guarantee: str, repartitioned: bool
) -> None:
    bursts, config = Bursts(instances), instances.config(processing_guarantee=guarantee)
    topology = idle_windows(**bursts.topology_arguments(bursts.sink, repartitioned=repartitioned))  # type: ignore[arg-type]
    instance = instances.start(topology, config)
    for _ in range(3):
        bursts.burst()
        eventually(lambda: bursts.all_told(bursts.sink), "a result without another record")
    instance.close(20)
    first = [(it.key(), it.value(), it.timestamp(), it.headers()) for it in instances.kafka.read(bursts.sink)]
    recorded = markers(instances.kafka, config)
    assert recorded > 0

    bursts.start_over(config, repartitioned=repartitioned)
    again = bursts.new_sink()
    topology = idle_windows(**bursts.topology_arguments(again, repartitioned=repartitioned))  # type: ignore[arg-type]
    instance = instances.start(topology, config)
    eventually(lambda: len(instances.kafka.read(again)) >= len(first))
    instance.close(20)
    assert [(it.key(), it.value(), it.timestamp(), it.headers()) for it in instances.kafka.read(again)] == first


def _kill_after_a_marker(process: Process, instances: Instances, config: StreamsConfig, before: int) -> None:
    """Between a marker and the commit after it, or a little later."""
    topic = f"{config.application_id}-seconds-time-markers-changelog"
    eventually(lambda: process.assert_running() and end_offsets(instances.kafka, topic) > before)
    process.kill()


@pytest.mark.parametrize(
    "repartitioned", [False, pytest.param(True, marks=pytest.mark.long)], ids=["at_the_source", "behind_a_topic"]
)
def test_a_process_that_is_killed_between_marker_and_commit_changes_no_result(
    instances: Instances, guarantee: str, repartitioned: bool
) -> None:
    bursts = Bursts(instances)
    # The interval is longer than silences: whatever is killed has markers that no commit has, or just has.
    config = instances.config(processing_guarantee=guarantee, commit_interval_ms=300)
    arguments = bursts.topology_arguments(bursts.sink, repartitioned=repartitioned)
    for wipe in (False, True, False):
        process = instances.process("idle_windows", config, **arguments)
        topic_is_there = f"{config.application_id}-seconds-time-markers-changelog" in KafkaCluster(config).partitions()
        before = markers(instances.kafka, config) if topic_is_there else 0
        bursts.burst()
        if not topic_is_there:
            eventually(lambda: bursts.all_told(bursts.sink))
        else:
            _kill_after_a_marker(process, instances, config, before)
        process.kill()
        if wipe:
            shutil.rmtree(config.state_dir, ignore_errors=True)
    process = instances.process("idle_windows", config, **arguments)
    bursts.burst()
    eventually(lambda: process.assert_running() and bursts.all_told(bursts.sink))
    assert process.close() == 0
    killed = bursts.results(bursts.sink)

    bursts.start_over(config, repartitioned=repartitioned)
    again = bursts.new_sink()
    process = instances.process("idle_windows", config, **bursts.topology_arguments(again, repartitioned=repartitioned))
    eventually(lambda: process.assert_running() and bursts.all_told(again))
    assert process.close() == 0
    replayed = bursts.results(again)
    assert all(len(results) == 1 for results in replayed.values())  # each window is final once
    if guarantee == "exactly_once":
        assert killed == replayed
    else:  # results may come twice, and are the same then
        assert {key: set(map(repr, results)) for key, results in killed.items()} == {
            key: set(map(repr, results)) for key, results in replayed.items()
        }


def test_a_standby_that_takes_over_goes_on_with_the_same_time(instances: Instances) -> None:
    bursts = Bursts(instances)
    shared: dict[str, object] = {
        "processing_guarantee": "exactly_once",
        "standby_replicas": 1,
        "application_id": instances.kafka.unique("app"),
    }
    arguments = bursts.topology_arguments(bursts.sink)
    configs = [
        instances.config(**shared, client_id=f"c{each}", state_dir=instances.directory / f"state{each}")  # type: ignore[arg-type]
        for each in range(2)
    ]
    processes = [instances.process("idle_windows", each, **arguments) for each in configs]
    bursts.burst()
    eventually(lambda: bursts.all_told(bursts.sink))
    bursts.burst()
    time.sleep(0.5)
    processes[0].kill()
    eventually(lambda: processes[1].assert_running() and bursts.all_told(bursts.sink))
    assert processes[1].close() == 0
    first = bursts.results(bursts.sink)
    for each in configs:
        bursts.start_over(each)
    again = bursts.new_sink()
    process = instances.process("idle_windows", configs[0], **bursts.topology_arguments(again))
    eventually(lambda: process.assert_running() and bursts.all_told(again))
    assert process.close() == 0
    assert bursts.results(again) == first

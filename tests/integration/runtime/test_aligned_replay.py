"""A replay of hours of input gives the results that live input gave: no record is late because its task was behind."""

from __future__ import annotations

import time

import pytest

from instances import Instances, eventually, long, produce
from kafka_cluster import Kafka
from streamsapp import ClientState, StreamsRuntime
from streamsapp.serdes.windowed import time_windowed
from streamsapp import Serdes
from trips import DURATION, GRACE, PARTITIONS, WINDOW, Event, events, per_line, truth

#: Records of the replay. Its times are past: nothing in it is live.
COUNT = 50_000
_KEY = time_windowed(Serdes.string(), WINDOW)


class Replay:
    """Topics with a history, and the results that an application made of it."""

    def __init__(self, instances: Instances, count: int = COUNT, **settings: object) -> None:
        self.instances, self.kafka = instances, instances.kafka
        self.source = self.kafka.create_topic("events", PARTITIONS)
        self.updates = self.kafka.create_topic("updates", 1)
        self.finals = self.kafka.create_topic("finals", 1)
        self.application_id = self.kafka.unique("replay")
        self.settings = settings
        self.begin = int(time.time() * 1000) - 10 * DURATION
        self.events = events(count, self.begin)
        self.truth = truth(self.events)
        for number, partition in enumerate(self.events):
            self.write(number, partition)

    def write(self, partition: int, records: list[Event]) -> None:
        written = [(vehicle.encode(), line.encode(), at) for vehicle, line, at in records]
        produce(self.kafka, self.source, written, partition=partition)

    def start(self, name: str = "one") -> StreamsRuntime:
        config = self.instances.config(
            self.application_id, state_dir=self.instances.directory / name, client_id=name, host_id=name, **self.settings
        )
        return self.instances.start(per_line(self.source, self.updates, self.finals), config)

    def counts(self, topic: str) -> dict[tuple[str, int], list[int]]:
        found: dict[tuple[str, int], list[int]] = {}
        for message in self.kafka.read(topic):
            key = _KEY.deserialize(message.key())
            found.setdefault((key.key, key.start_ms), []).append(long(message.value()))
        return found

    def wait(self, *running: StreamsRuntime) -> None:
        """Everything was read, and the results are written."""
        records = 2 * sum(map(len, self.events))

        def done() -> bool:
            assert not any(each.state is ClientState.ERROR for each in running)
            return sum(map(processed, running)) >= records

        eventually(done)

    def check(self) -> None:
        """Every count is right, and so is every final result; all windows that can be closed are."""
        assert {key: counts[-1] for key, counts in self.counts(self.updates).items()} == self.truth
        finals = self.counts(self.finals)
        assert all(counts == [self.truth[key]] for key, counts in finals.items())
        closed = self.begin + DURATION - 10 * WINDOW - GRACE
        assert finals.keys() >= {key for key in self.truth if key[1] < closed}


def processed(instance: StreamsRuntime) -> int:
    """The records that the tasks of an instance have processed."""
    return sum(task["processedRecords"] or 0 for task in instance.tasks())


def dropped(*running: StreamsRuntime) -> int:
    """The records that came too late."""
    samples = [sample for each in running for sample in each.samples()]
    return int(sum(each.value for each in samples if each.name.endswith("dropped_records_total")))


@pytest.mark.parametrize("threads", [1, 3])
def test_a_replay_drops_nothing_and_its_final_results_are_right(
    instances: Instances, guarantee: str, threads: int
) -> None:
    replay = Replay(instances, processing_guarantee=guarantee, threads=threads)
    instance = replay.start()
    replay.wait(instance)
    assert dropped(instance) == 0
    assert instance.close()
    replay.check()


def test_without_alignment_the_same_replay_drops_records(instances: Instances) -> None:
    replay = Replay(instances, max_stream_time_skew_ms=100 * DURATION)
    instance = replay.start()
    replay.wait(instance)
    assert dropped(instance) > COUNT / 10


def test_two_instances_drop_nothing_either(instances: Instances, guarantee: str) -> None:
    replay = Replay(instances, processing_guarantee=guarantee)
    running = [replay.start("one"), replay.start("two")]
    replay.wait(*running)
    assert all(processed(each) for each in running)
    assert dropped(*running) == 0
    for each in running:
        assert each.close()
    replay.check()

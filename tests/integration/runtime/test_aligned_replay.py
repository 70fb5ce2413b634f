"""A replay of hours of input gives the results that live input gave: no record is late because its task was behind."""

from __future__ import annotations

import time
from typing import Any

import pytest

from instances import PATIENT, Instances, eventually, long, produce
from replayed_trips import DURATION, GRACE, PARTITIONS, WINDOW, Event, events, per_line, truth
from streamsapp import ClientState, Serdes, StreamsRuntime
from streamsapp.serdes.windowed import time_windowed
from streamsapp.tasks import alignment

#: Records of the replay. Its times are past: nothing in it is live.
COUNT = 50_000
#: Of instances that wait for each other's commits: they go on by half of it with each.
LONG_GRACE = 300_000
_KEY = time_windowed(Serdes.string(), WINDOW)


class Replay:
    """Topics with a history, and the results that an application made of it."""

    def __init__(self, instances: Instances, grace: int = GRACE, **settings: Any) -> None:
        self.instances, self.kafka = instances, instances.kafka
        self.source = self.kafka.create_topic("events", PARTITIONS)
        self.updates = self.kafka.create_topic("updates", 1)
        self.finals = self.kafka.create_topic("finals", 1)
        self.application_id = self.kafka.unique("replay")
        self.grace, self.settings = grace, settings
        self.begin = int(time.time() * 1000) - 10 * DURATION
        self.events = events(COUNT, self.begin)
        for number, partition in enumerate(self.events):
            self.write(number, partition)

    def write(self, partition: int, records: list[Event]) -> None:
        written = [(vehicle.encode(), line.encode(), at) for vehicle, line, at in records]
        produce(self.kafka, self.source, written, partition=partition)

    def start(self, name: str = "one", **settings: Any) -> StreamsRuntime:
        config = self.instances.config(
            self.application_id,
            state_dir=self.instances.directory / name,
            client_id=name,
            host_id=name,
            **self.settings,
            **settings,
        )
        return self.instances.start(per_line(self.source, self.updates, self.finals, self.grace), config)

    def counts(self, topic: str) -> dict[tuple[str, int], list[int]]:
        found: dict[tuple[str, int], list[int]] = {}
        for message in self.kafka.read(topic):
            key = _KEY.deserialize(message.key() or b"")
            found.setdefault((key.key, key.start_ms), []).append(long(message.value()))
        return found

    def read(self) -> int:
        """The records of the source that are processed and committed."""
        return sum(offset for offset, _ in self.kafka.committed(self.application_id, self.source).values())

    def wait(self, *running: StreamsRuntime) -> None:
        """Everything is read, counted, and written."""

        def done(wanted: int) -> bool:
            assert not any(each.state is ClientState.ERROR for each in running)
            return self.read() >= wanted

        total = sum(map(len, self.events))
        eventually(lambda: done(total))
        eventually(lambda: sum(map(len, self.counts(self.updates).values())) + dropped(*running) >= total)

    def check(self) -> None:
        """Every count is right, and so is every final result; all windows that can be closed are."""
        expected = truth(self.events)
        assert {key: max(counts) for key, counts in self.counts(self.updates).items()} == expected
        finals = self.counts(self.finals)
        assert all(set(counts) == {expected[key]} for key, counts in finals.items())
        if self.settings.get("processing_guarantee") != "at_least_once":
            assert all(len(counts) == 1 for counts in finals.values())
        closed = self.begin + DURATION - 10 * WINDOW - self.grace
        assert finals.keys() >= {key for key in expected if key[1] < closed}


def dropped(*running: StreamsRuntime) -> int:
    """The records that came too late."""
    samples = [sample for each in running for sample in each.samples()]
    return int(sum(each.value for each in samples if each.name.endswith("dropped_records_total")))


def aligned(instance: StreamsRuntime) -> dict[str, Any]:
    """The report of an instance on the tasks that wait for each other."""
    (group,) = instance.status()["timeAlignment"]
    assert isinstance(group, dict)
    return group


@pytest.mark.parametrize("threads", [1, 3])
def test_a_replay_drops_nothing_and_its_final_results_are_right(
    instances: Instances, guarantee: str, threads: int
) -> None:
    replay = Replay(instances, processing_guarantee=guarantee, threads=threads)
    instance = replay.start()
    replay.wait(instance)
    assert dropped(instance) == 0
    eventually(lambda: not aligned(instance)["aligning"])
    assert instance.close()
    replay.check()


def test_without_alignment_the_same_replay_drops_records(instances: Instances) -> None:
    replay = Replay(instances, max_stream_time_skew_ms=100 * DURATION)
    instance = replay.start()
    replay.wait(instance)
    assert dropped(instance) > COUNT / 10


def test_two_instances_drop_nothing_either(instances: Instances, guarantee: str) -> None:
    replay = Replay(instances, LONG_GRACE, processing_guarantee=guarantee, commit_interval_ms=-1)
    running = [replay.start("one"), replay.start("two")]
    replay.wait(*running)
    assert dropped(*running) == 0
    for each in running:
        assert each.close()
    replay.check()


def test_a_partition_that_stands_still_at_another_instance_is_waited_for_and_then_left_out(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment, "STANDS_STILL", 3.0)
    replay = Replay(instances, LONG_GRACE, kafka=PATIENT)
    running = [replay.start("one"), replay.start("two")]
    eventually(lambda: all(each.state is ClientState.RUNNING for each in running) and replay.read() > 0)
    running[1].pause()
    waits = eventually_aligned(running[0], "waitsFor")
    assert waits
    left_out = eventually_aligned(running[0], "leftOut")
    assert set(left_out) <= set(waits)
    running[1].resume()
    eventually(lambda: replay.read() >= COUNT)


def eventually_aligned(instance: StreamsRuntime, field: str) -> list[str]:
    """Something that comes to be reported of waiting tasks."""
    eventually(lambda: aligned(instance)[field], field)
    found = aligned(instance)[field]
    assert isinstance(found, list)
    return found

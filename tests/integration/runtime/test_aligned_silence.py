"""Tasks that wait for each other in a backlog, and time that moves on in silence: the two go together."""

from __future__ import annotations

import shutil
import time
from functools import partial
from typing import Any

import pytest

from instances import Instances, Process, end_offsets, eventually, long, produce
from replayed_trips import PARTITIONS, Event, events, per_line, truth
from streamsapp import Serdes, StreamsConfig, StreamsRuntime
from streamsapp.serdes.windowed import time_windowed

WINDOW, GRACE, IDLE_AFTER = 1_000, 2_000, 300
#: Of instances that wait for each other's commits: they go on by half of the grace with each.
LONG_GRACE, SHORT_DURATION = 5_000, 60_000
COUNT, DURATION = 12_000, 300_000
_KEY = time_windowed(Serdes.string(), WINDOW)
Results = dict[tuple[str, int], list[tuple[int, int]]]


class History:
    """Records of some minutes, an hour ago. The last partition has none of the second half."""

    def __init__(self, instances: Instances, grace: int = GRACE, duration: int = DURATION, **settings: Any) -> None:
        self.instances, self.kafka, self._settings = instances, instances.kafka, settings
        self._grace = grace
        self.source = self.kafka.create_topic("events", PARTITIONS)
        self._application_id = self.kafka.unique("silence")
        begin = int(time.time() * 1000) - 3_600_000
        self.events = events(COUNT, begin, duration=duration)
        half = begin + duration // 2
        self.events[-1] = [each for each in self.events[-1] if each[2] < half]
        for number, partition in enumerate(self.events):
            self._write(number, partition)

    def _write(self, partition: int, records: list[Event]) -> None:
        written = [(vehicle.encode(), line.encode(), at) for vehicle, line, at in records]
        produce(self.kafka, self.source, written, partition=partition)

    def arguments(self) -> dict[str, Any]:
        """Of the topology, with new topics for its results."""
        sinks = {name: self.kafka.create_topic(name, 1) for name in ("updates", "finals")}
        return {"source": self.source, **sinks, "grace": self._grace, "window": WINDOW, "idle_after": IDLE_AFTER}

    def config(self, name: str = "one") -> StreamsConfig:
        return self.instances.config(
            self._application_id,
            state_dir=self.instances.directory / name,
            client_id=name,
            host_id=name,
            **self._settings,
        )

    def results(self, topic: str) -> Results:
        """Counts and times of each line and window."""
        found: Results = {}
        for message in self.kafka.read(topic):
            key = _KEY.deserialize(message.key() or b"")
            found.setdefault((key.key, key.start_ms), []).append((long(message.value()), message.timestamp()[1]))
        return found

    def is_final(self, topic: str) -> bool:
        """Say whether each window has a final result: the last ones close in silence."""
        return self.results(topic).keys() >= truth(self.events, WINDOW).keys()

    def check(self, arguments: dict[str, Any], *, killed: bool = False) -> None:
        """Each final result is right, and was sent once; at least once a kill may count some records twice."""
        wanted, finals = truth(self.events, WINDOW), self.results(arguments["finals"])
        assert finals.keys() == wanted.keys()
        if killed and self._settings["processing_guarantee"] == "at_least_once":
            assert all(min(counts)[0] >= wanted[key] for key, counts in finals.items())
        else:
            assert {key: [count for count, _ in counts] for key, counts in finals.items()} == {
                key: [count] for key, count in wanted.items()
            }
            assert sum(map(len, self.results(arguments["updates"]).values())) == sum(map(len, self.events))


def dropped(runtime: StreamsRuntime) -> int:
    """The records that came too late."""
    return int(sum(each.value for each in runtime.samples() if each.name.endswith("dropped_records_total")))


@pytest.mark.parametrize("threads", [1, 3])
def test_a_replay_drops_nothing_and_its_last_windows_close_in_the_silence_behind_it(
    instances: Instances, guarantee: str, threads: int
) -> None:
    history = History(instances, processing_guarantee=guarantee, threads=threads)
    arguments = history.arguments()
    runtime = instances.start(per_line(**arguments), history.config())
    eventually(lambda: history.is_final(arguments["finals"]), "a final result of each window")
    assert dropped(runtime) == 0
    (group,) = runtime.status()["timeAlignment"]
    assert not group["aligning"]
    assert runtime.close()
    history.check(arguments)


@pytest.mark.parametrize("wipe", [True, pytest.param(False, marks=pytest.mark.long)], ids=["state_wiped", "state_kept"])
def test_kills_in_the_replay_and_in_the_silence_change_no_result(
    instances: Instances, guarantee: str, wipe: bool
) -> None:
    history = History(instances, processing_guarantee=guarantee)
    arguments = history.arguments()
    config = history.config()
    for share in (0.3, 0.7):
        process = _start(history, config, arguments)
        eventually(partial(_wrote, process, history, arguments["updates"], share))
        process.kill()
        if wipe:
            shutil.rmtree(config.state_dir)
    process = _start(history, config, arguments)
    markers = f"{config.application_id}-trips-time-markers-changelog"
    eventually(lambda: process.assert_running() and end_offsets(instances.kafka, markers) > 0, "a marker")
    process.kill()
    process = _start(history, config, arguments)
    eventually(lambda: process.assert_running() and history.is_final(arguments["finals"]))
    assert process.close() == 0
    history.check(arguments, killed=True)


def _wrote(process: Process, history: History, topic: str, share: float) -> bool:
    return process.assert_running() and end_offsets(history.kafka, topic) > share * sum(map(len, history.events))


def _start(history: History, config: StreamsConfig, arguments: dict[str, Any]) -> Process:
    return history.instances.process("per_line", config, **arguments)


def test_two_instances_drop_nothing_either(instances: Instances, guarantee: str) -> None:
    history = History(instances, LONG_GRACE, SHORT_DURATION, processing_guarantee=guarantee)
    arguments = history.arguments()
    running = [instances.start(per_line(**arguments), history.config(name)) for name in ("one", "two")]
    eventually(lambda: history.is_final(arguments["finals"]), "a final result of each window")
    assert sum(map(dropped, running)) == 0
    for each in running:
        assert each.close()
    history.check(arguments)

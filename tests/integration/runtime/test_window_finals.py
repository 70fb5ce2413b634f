"""kill -9 in the middle of open windows: every final result comes once, and is complete."""

from __future__ import annotations

import shutil

import pytest

from finals import Seconds
from instances import Instances, eventually
from kafka_cluster import Kafka
from killable import window_finals
from streamsapp import ClientState, StreamsConfig, Windowed


def _kill_in_the_middle(instances: Instances, config: StreamsConfig, seconds: Seconds) -> None:
    """Start with new input, and kill when some of the output is written."""
    wanted = len(instances.kafka.read(seconds.sink)) + 40
    seconds.go_on(9_300)
    process = instances.process("window_finals", config, source=seconds.source, sink=seconds.sink)
    # Results that the process before this one had on the way may come after it was killed.
    eventually(lambda: process.assert_running() and config.state_dir.exists() and seconds.closed(wanted))
    process.kill()


@pytest.mark.parametrize("wipe", [True, pytest.param(False, marks=pytest.mark.long)], ids=["state_wiped", "state_kept"])
def test_final_results_come_once_and_complete_when_the_process_is_killed(
    kafka: Kafka, instances: Instances, wipe: bool
) -> None:
    config = instances.config(processing_guarantee="exactly_once", threads=2)
    seconds = Seconds(kafka)
    for _ in range(3):
        _kill_in_the_middle(instances, config, seconds)
        if wipe:
            shutil.rmtree(config.state_dir)
    seconds.end()
    process = instances.process("window_finals", config, source=seconds.source, sink=seconds.sink)
    eventually(lambda: process.assert_running() and seconds.is_told())
    assert process.close() == 0
    seconds.check()


def test_windows_can_be_asked_for_while_they_are_open(kafka: Kafka, instances: Instances) -> None:
    seconds = Seconds(kafka)
    # One second, as no more are kept.
    seconds.go_on(900)
    instance = instances.start(window_finals(seconds.source, seconds.sink), instances.config())
    name, start = next(iter(seconds.truth)).decode().split("@")

    def counts() -> dict[bytes, int]:
        found = instance.query("counts", from_="key")
        return {b"%s@%d" % (each.key.encode(), each.start_ms): count.value for each, count in found}

    eventually(lambda: instance.state is ClientState.RUNNING and counts() == seconds.truth)
    ((window, count),) = instance.query("counts", name, from_time=int(start), to_time=int(start))
    assert (window, count.value) == (
        Windowed(name, int(start), int(start) + 1000),
        seconds.truth[b"%s@%s" % (name.encode(), start.encode())],
    )

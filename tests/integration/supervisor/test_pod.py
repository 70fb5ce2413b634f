"""A pod of two instances on a real broker: one port, one status, and no instance left behind."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from instances import eventually, produce
from kafka_cluster import Kafka
from pods import IMMORTAL, Pods, RunningPod, alive

KEYS = [f"key{number}" for number in range(12)]
TASKS = ["0_0", "0_1", "0_2", "0_3"]


def write(kafka: Kafka, topic: str, times: int = 1) -> None:
    produce(kafka, topic, [(key.encode(), b"x", 1) for _ in range(times) for key in KEYS])


def counts(pod: RunningPod) -> set[int | None]:
    return {pod.count(key) for key in KEYS}


@pytest.fixture
def pod(kafka: Kafka, words: str, pods: Pods) -> RunningPod:
    """Two instances that share four tasks and have counted every key once."""
    return sharing(kafka, words, pods.start(instances=2))


def sharing(kafka: Kafka, words: str, pod: RunningPod) -> RunningPod:
    write(kafka, words)
    pod.wait_ready()
    eventually(lambda: pod.active() == TASKS and shares(pod) == [2, 2], "two tasks each")
    eventually(lambda: counts(pod) == {1}, "counts")
    return pod


def standbys(pod: RunningPod) -> list[str]:
    return sorted(each["id"] for each in pod.ask("/status")[1]["tasks"] if each["role"] == "standby")


def shares(pod: RunningPod) -> list[int]:
    """Active tasks per instance, from the joined metrics."""
    lines = [line for line in pod.text("/metrics").splitlines() if line.startswith("kafka_stream_task_process_total{")]
    names = [line.partition('instance="')[2].partition('"')[0] for line in lines]
    return sorted(names.count(name) for name in set(names))


@pytest.mark.long
def test_one_port_answers_for_both(kafka: Kafka, words: str, pod: RunningPod) -> None:
    eventually(lambda: pod.ask("/status")[1]["state"] == "RUNNING", "both run")
    assert len(pod.ask("/status")[1]["instances"]) == 2
    whole: dict[str, Any] = {}

    def all_here() -> bool:
        """An instance that the other one keeps waiting for too long leaves out what that one has."""
        whole.update(pod.ask("/state/counts")[1] or {})
        return (whole.get("partitions"), whole.get("elsewhere")) == ([0, 1, 2, 3], {})

    eventually(all_here, "an answer from both")
    assert [each["key"] for each in whole["entries"]] == sorted(KEYS)
    write(kafka, words, 2)
    eventually(lambda: counts(pod) == {3}, "counts")


def test_a_standby_is_never_on_the_pod_of_its_active_task(pods: Pods, pod: RunningPod) -> None:
    other = pods.start(instances=2)
    other.wait_ready()
    eventually(lambda: len(pod.active()) == len(other.active()) == 2, "two tasks for each pod")
    eventually(lambda: (standbys(pod), standbys(other)) == (other.active(), pod.active()), "standbys")


def test_a_killed_instance_is_replaced_before_its_session_ends_and_nothing_is_lost(
    kafka: Kafka, words: str, pods: Pods, guarantee: str
) -> None:
    pod = sharing(kafka, words, pods.start(instances=2, session_ms=IMMORTAL, guarantee=guarantee))

    def counted(times: int) -> bool:
        """At least once, what was not committed counts again."""
        found = {-1 if count is None else count for count in counts(pod)}
        return found == {times} if guarantee == "exactly_once" else min(found) >= times

    before = pod.pids()
    os.kill(before[1], signal.SIGKILL)
    write(kafka, words)
    eventually(lambda: pod.active() == TASKS and counted(2), "takeover")
    eventually(lambda: shares(pod) == [2, 2], "the share back")
    after = pod.pids()
    assert after[0] == before[0]
    assert after[1] != before[1]
    # All of them at once: those that come back take the members of the processes before them out.
    for pid in after:
        os.kill(pid, signal.SIGKILL)
    write(kafka, words)
    eventually(lambda: pod.active() == TASKS and shares(pod) == [2, 2] and counted(3), "both back")


def test_a_signal_ends_all_in_good_order(pod: RunningPod) -> None:
    pids = pod.pids()
    assert pod.terminate() == 0
    assert not any(alive(pid) for pid in pids)


def test_without_their_supervisor_instances_end(pod: RunningPod) -> None:
    pids = pod.pids()
    pod.signal(signal.SIGKILL)
    eventually(lambda: not any(alive(pid) for pid in pids), "the end of the instances")


def test_a_drained_pod_has_nothing_left_and_stays_until_it_is_stopped(
    kafka: Kafka, words: str, pods: Pods, pod: RunningPod
) -> None:
    other = pods.start()
    other.wait_ready()
    assert pod.ask("/drain?timeout=90", "POST") == (200, {"drained": True})
    assert pod.active() == []
    write(kafka, words)
    eventually(lambda: counts(other) == {2}, "the other has all")
    assert pod.ask("/drain", "POST")[0] == 200
    assert pod.running()
    assert pod.terminate() == 0

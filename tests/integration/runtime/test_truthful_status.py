"""The replicas in ``/status`` while something stands still are never newer than what was really seen."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from instances import PATIENT, Instances, eventually, produce
from kafka_cluster import Kafka
from killable import count_per_key
from pods import Pods
from streamsapp.local.broker import EmbeddedBroker

#: Longer than several observations take.
STOPPED = 3.0
#: Between asking and being stopped, an answer may still be on its way.
ON_ITS_WAY = 0.2


@contextmanager
def stopped(pid: int) -> Iterator[float]:
    """A process that does nothing meanwhile; gives the time since when."""
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)  # it takes the signal when its turn comes, and its threads go on until then
    try:
        yield time.time()
    finally:
        os.kill(pid, signal.SIGCONT)


def whole_milliseconds() -> float:
    """Now, as precisely as ``/status`` shows times: an observation in the next moment is not earlier."""
    return int(time.time() * 1000) / 1000


def replicas(status: dict[str, Any]) -> list[dict[str, Any]]:
    """The stores of replicas."""
    return [store for task in status["tasks"] if task["role"] != "active" for store in task["stores"]]


def times(status: dict[str, Any]) -> list[float]:
    """When the stores of replicas were seen; without the stores that were not."""
    found = [store["observedAt"] for store in replicas(status)]
    return [datetime.fromisoformat(each).timestamp() for each in found if each is not None]


def has_a_replica_for_good(status: dict[str, Any]) -> bool:
    """Says whether an instance has its share, and its replica was seen; a warm-up replica is about to change places."""
    return sorted(task["role"] for task in status["tasks"]) == ["active", "standby"] and len(times(status)) == 1


def test_a_replica_was_not_seen_since_the_broker_does_not_answer(own_broker: EmbeddedBroker, tmp_path: Path) -> None:
    there = Instances(Kafka(own_broker.bootstrap_servers), tmp_path)
    source, sink = there.kafka.create_topic("in", partitions=2), there.kafka.create_topic("out", partitions=2)
    produce(there.kafka, source, [(b"k%d" % number, b"", 1000) for number in range(100)])
    application = there.kafka.unique("app")
    configs = [
        there.config(application, state_dir=tmp_path / name, standby_replicas=1, kafka=PATIENT) for name in ("a", "b")
    ]
    pods = [there.start(count_per_key(source, sink), config) for config in configs]
    try:
        eventually(lambda: all(has_a_replica_for_good(each.status()) for each in pods), "a replica at each")
        assert own_broker.pid is not None
        with stopped(own_broker.pid) as since:
            time.sleep(STOPPED)
            seen = [each for pod in pods for each in times(pod.status())]
            assert len(seen) == 2
            assert max(seen) <= since + ON_ITS_WAY
        back = whole_milliseconds()
        eventually(lambda: min((each for pod in pods for each in times(pod.status())), default=0) >= back)
    finally:
        there.close()


def test_a_pod_that_stood_still_does_not_claim_to_have_looked_meanwhile(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.create_topic("words", partitions=2)
    pods = Pods(kafka.bootstrap_servers, kafka.unique("app"), topic, tmp_path)
    try:
        produce(kafka, topic, [(b"k%d" % number, b"", 1000) for number in range(100)])
        first, second = pods.start(), pods.start()
        for pod in (first, second):
            pod.wait_ready()
        eventually(lambda: len(times(second.ask("/status")[1])) > 0, "a replica at the second pod")

        with stopped(second.process.pid) as since:
            time.sleep(STOPPED)
            back = whole_milliseconds()
        for _ in range(20):
            _, status = second.ask("/status")
            assert all(seen <= since + ON_ITS_WAY or seen >= back for seen in times(status))
        eventually(lambda: min(times(second.ask("/status")[1]), default=0) >= back)
    finally:
        pods.close()

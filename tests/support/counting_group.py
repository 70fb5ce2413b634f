"""Instances of one application that counts per key under load, and what is expected of it."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from typing import Any

from instances import TIMEOUT, Instances, counts_per_key, eventually, produce
from kafka_cluster import Kafka
from killable import count_per_key
from streamsapp import StreamsConfig, StreamsRuntime, TaskId

PARTITIONS = 6
TASKS = {TaskId(0, number) for number in range(PARTITIONS)}

#: A death is missed soon.
MORTAL = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "100"}


class Load:
    """Records that keep coming until ``stop``, and the truth about them."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka, self._topic = kafka, topic
        self.truth: Counter[bytes] = Counter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for number in itertools.count():
            if self._stopping.wait(0.05):
                return
            keys = [b"key%d" % ((number * 40 + each) % 200) for each in range(40)]
            produce(self._kafka, self._topic, [(key, b"x", 1000 + number) for key in keys])
            self.truth.update(keys)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(TIMEOUT)  # the truth is whole when its last records are written
        assert not self._thread.is_alive()


class Group:
    """Instances of one application that counts per key."""

    def __init__(self, instances: Instances, guarantee: str = "exactly_once", **settings: Any) -> None:
        self.instances, self.kafka = instances, instances.kafka
        self.source = self.kafka.create_topic("keys", partitions=PARTITIONS)
        self.sink = self.kafka.create_topic("counts", partitions=PARTITIONS)
        self.application_id = self.kafka.unique("app")
        self.settings = {
            "standby_replicas": 1,
            "acceptable_recovery_lag": 100,
            "processing_guarantee": guarantee,
            "probing_rebalance_interval_ms": 60_000,
            **settings,
        }
        self.topology = count_per_key(self.source, self.sink)
        self.load: Load | None = None

    def config(self, name: str, **settings: Any) -> StreamsConfig:
        return self.instances.config(
            self.application_id,
            state_dir=self.instances.directory / name,
            client_id=name,
            host_id=name,
            **{**self.settings, **settings},
        )

    def start(self, name: str, **settings: Any) -> StreamsRuntime:
        return self.instances.start(count_per_key(self.source, self.sink), self.config(name, **settings))

    def feed(self) -> None:
        self.load = Load(self.kafka, self.source)

    def verify(self) -> None:
        """Everything was counted, once and in order."""
        assert self.load is not None
        self.load.stop()
        truth = self.load.truth
        eventually(lambda: sum(map(len, counts_per_key(self.kafka.read(self.sink)).values())) >= truth.total())
        updates = counts_per_key(self.kafka.read(self.sink))
        if self.settings["processing_guarantee"] == "exactly_once":
            assert updates == {key: list(range(1, count + 1)) for key, count in truth.items()}
        else:
            assert all(max(updates[key]) >= count for key, count in truth.items())


def running(instance: StreamsRuntime, role: str = "active") -> set[TaskId]:
    """The tasks of one role that an instance runs."""
    return {
        TaskId.parse(task["id"]) for task in instance.tasks() if task["role"] == role and task["state"] == "RUNNING"
    }


def handed_over(instance: StreamsRuntime) -> set[str]:
    """The tasks that an instance took over from one that gave them up, with results since."""
    return {each["task"] for each in instance.status()["handOvers"] if each["kind"] == "planned"}


def caught_up(*instances: StreamsRuntime) -> bool:
    """Says whether every task runs, and has a standby that is not far behind."""
    if set().union(*(running(each) for each in instances)) != TASKS:
        return False
    lags: dict[str, int | None] = {}
    for instance in instances:
        for task in instance.tasks():
            if task["role"] == "standby":
                lags[task["id"]] = task["stores"][0]["lag"]
    return len(lags) == PARTITIONS and all(lag is not None and lag < 100 for lag in lags.values())

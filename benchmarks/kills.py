"""Measures how long results stay away when an instance is killed (``kill -9``), and if each came once.

``python -m benchmarks.kills`` with tests/support on PYTHONPATH, on a broker of its own. An application counts words
that come all the time. One of its two instances is killed, and the figure is the longest time without a result of some
partition of the input. ``supervised``: both are in one pod, whose supervisor sees the process end. ``session``: each
is a pod of its own, and the group misses the dead one when its session ends.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, Producer, TopicPartition

from instances import eventually
from kafka_cluster import START_TIMEOUT, Kafka
from pods import RunningPod
from streamsapp.local.broker import EmbeddedBroker

PARTITIONS, KEYS = 4, 400
KINDS = ("supervised", "session")
#: Seconds of input before the kill and after it, the session among them.
BEFORE, AFTER = 2.0, 12.0

MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {{name: {name}}}
spec:
  topology: {{entrypoint: "counting:topology"}}
  kafka: {{bootstrapServers: "{servers}"}}
  processing: {{instances: {instances}, guarantee: {guarantee}, commitIntervalMs: 100, standbyReplicas: 1}}
  code:
    files:
      counting.py: |
        from streamsapp import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder
        text = Serdes.string()
        def topology():
            builder = StreamsBuilder()
            words = builder.stream("{source}", Consumed(key_serde=text, value_serde=text))
            counted = words.group_by_key(Grouped(key_serde=text, value_serde=text)).count(Materialized("counts"))
            counted.to_stream().to("{sink}", Produced(key_serde=text, value_serde=Serdes.long()))
            return builder.build()
"""


def moments(over: threading.Event, rate: float) -> Iterator[int]:
    """Yields the number of each record when it is due, so many a second, until it is over."""
    began = time.monotonic()
    for number in itertools.count():
        if over.wait(max(0.0, began + number / rate - time.monotonic())):
            return
        yield number


class Load(threading.Thread):
    """Writes words, each key in turn, until it is stopped."""

    def __init__(self, servers: str, topic: str, rate: int) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": servers, "linger.ms": 5, "enable.idempotence": True, "max.in.flight": 1}
        )
        self._topic, self._rate = topic, rate
        self._stopped = threading.Event()
        self.written: Counter[str] = Counter()

    def run(self) -> None:
        for number in moments(self._stopped, self._rate):
            key = f"key{number % KEYS}"
            self._producer.produce(self._topic, b"x", key.encode(), partition=_partition(key))
            self._producer.poll(0)
            self.written[key] += 1

    def stop(self) -> None:
        self._stopped.set()
        self.join()
        assert self._producer.flush(60) == 0


class Results(threading.Thread):
    """Reads committed results, and notes when they come."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed"}
        self._consumer = Consumer({**settings, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 20})
        self._consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
        self._stopped = threading.Event()
        #: By the partition of the input.
        self.came: dict[int, list[float]] = {each: [] for each in range(PARTITIONS)}
        #: When each word was written, in seconds of the wall clock, and how long until its count was read.
        self.latencies: list[tuple[float, float]] = []
        self.counts: Counter[str] = Counter()
        self.results: Counter[tuple[str, int]] = Counter()

    def run(self) -> None:
        while not self._stopped.is_set():
            for message in self._consumer.consume(500, 0.05):
                key, value = message.key(), message.value()
                assert key is not None, message.error()
                assert value is not None
                written = message.timestamp()[1] / 1000  # a count has the time of its word
                self.latencies.append((written, time.time() - written))
                count = int.from_bytes(value, "big")
                self.results[key.decode(), count] += 1
                self.counts[key.decode()] = max(self.counts[key.decode()], count)
                self.came[_partition(key.decode())].append(time.monotonic())

    def stop(self) -> None:
        self._stopped.set()
        self.join()
        self._consumer.close()

    def longest_gap(self, since: float) -> float:
        gaps = [0.0]
        for times in self.came.values():
            moments = [since, *(each for each in times if each > since)]
            gaps += (later - earlier for earlier, later in itertools.pairwise(moments))
        return max(gaps)


def measure(kafka: Kafka, kind: str, guarantee: str, rate: int, folder: Path) -> tuple[float, int]:
    """Kill one of two instances; returns the gap in seconds, and how many results came too often."""
    source, sink = (kafka.create_topic(each, PARTITIONS) for each in ("words", "counts"))
    settings = {"servers": kafka.bootstrap_servers, "source": source, "sink": sink, "guarantee": guarantee}
    manifest = folder / "app.yaml"
    text = MANIFEST.format(name=kafka.unique("kills"), instances=2 if kind == "supervised" else 1, **settings)
    manifest.write_text(text)
    pods = [RunningPod(manifest, folder / f"pod-{each}") for each in range(1 if kind == "supervised" else 2)]
    load, results = Load(kafka.bootstrap_servers, source, rate), Results(kafka.bootstrap_servers, sink)
    try:
        load.start()
        results.start()
        for pod in pods:
            pod.wait_ready()
        eventually(lambda: sorted(task for pod in pods for task in pod.active()) == [f"0_{n}" for n in range(4)])
        eventually(lambda: all(_shares(pod) == 2 for pod in pods) or kind == "supervised", "two tasks each")
        time.sleep(BEFORE)
        killed = time.monotonic()
        os.kill(pods[0].pids()[1] if kind == "supervised" else pods[1].process.pid, signal.SIGKILL)
        time.sleep(AFTER)
        load.stop()
        # At least once records that were processed again count again.
        eventually(lambda: all(results.counts[key] >= load.written[key] for key in load.written), "all results")
        return results.longest_gap(killed), results.results.total() - load.written.total()
    finally:
        results.stop()
        for pod in pods:
            pod.close()


def _partition(key: str) -> int:
    return int(key.removeprefix("key")) % PARTITIONS


def _shares(pod: RunningPod) -> int:
    return len(pod.active())


def main() -> None:
    parser = argparse.ArgumentParser(prog="kills", description="The gap when an instance is killed.")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="kills of each kind; default: 5")
    parser.add_argument("--rate", type=int, default=400, metavar="N", help="words a second; default: 400")
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--guarantee", choices=("exactly_once", "at_least_once"))
    options = parser.parse_args()
    guarantees = [options.guarantee] if options.guarantee else ["exactly_once", "at_least_once"]
    kinds = [options.only] if options.only else KINDS
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedBroker(Path(folder) / "kafka", start_timeout=START_TIMEOUT) as broker,
    ):
        for guarantee in guarantees:
            gaps: dict[str, list[float]] = {kind: [] for kind in kinds}
            for run, kind in itertools.product(range(options.runs), kinds):
                place = Path(folder) / f"{guarantee}-{kind}-{run}"
                place.mkdir()
                gap, doubled = measure(Kafka(broker.bootstrap_servers), kind, guarantee, options.rate, place)
                gaps[kind].append(gap)
                print(f"  {guarantee} {kind}: {gap:.2f} s, {doubled} results too many", flush=True)
            for kind, found in gaps.items():
                print(f"{guarantee:14} {kind:10} median {median(found):.2f} s, longest {max(found):.2f} s")


if __name__ == "__main__":
    main()

"""Measures how soon an instance with an empty disk sends results, at several sizes of state.

``python -m benchmarks.first_results --gb 0.1,1,10`` with tests/support and tools on PYTHONPATH, on a broker and an S3
server of its own; a proxy answers each request 50 ms later. A table is filled and its snapshots are written. Then the
disk is deleted, and the instance starts while records of keys at random come all the time. Earlier builds sent their
first result when all files were here. A size of 10 GB needs 60 GB of disk for topics, state and snapshots.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles

from benchmarks.kills import moments
from benchmarks.topics import Topics
from confluent_kafka import Consumer, Producer, TopicPartition

from instances import eventually
from kafka_cluster import START_TIMEOUT, Kafka
from pods import RunningPod
from s3_proxy import S3Proxy
from s3_server import BUCKET, S3Server
from streamsapp.local.broker import EmbeddedBroker

PARTITIONS, VALUE_BYTES, RATE = 4, 1000, 400
_CREDENTIALS = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
#: Seconds of a measurement at least, between snapshots, and without a new one until the last one counts as written.
MINUTE, SNAPSHOT_SECONDS, SETTLED = 60.0, 10, 30.0
#: For filling 10 GB on a busy machine, and for downloading it.
LONG = 7200.0

MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {{name: {name}}}
spec:
  topology: {{entrypoint: "latest:topology"}}
  kafka: {{bootstrapServers: "{servers}"}}
  processing: {{instances: 1, guarantee: exactly_once, commitIntervalMs: 100}}
  remoteState: {{url: "s3://{bucket}/first", endpoint: "{endpoint}", snapshotIntervalSeconds: {snapshots}}}
  code:
    files:
      latest.py: |
        from streamsapp import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder
        raw = Serdes.bytes()
        def topology():
            builder = StreamsBuilder()
            rows = builder.stream("{source}", Consumed(key_serde=raw, value_serde=raw))
            table = rows.group_by_key(Grouped(key_serde=raw, value_serde=raw)).reduce(
                lambda old, new: old[:8] + new[8:], Materialized("latest", key_serde=raw, value_serde=raw))
            table.to_stream().map_values(lambda value: value[:8]).to("{sink}", Produced(key_serde=raw, value_serde=raw))
            return builder.build()
"""


@dataclass(frozen=True)
class Found:
    """Seconds from the start of the process, and the latencies of a minute in seconds."""

    gigabytes: float
    running: float
    first: float
    whole: float
    latencies: list[float]
    requests: int

    def line(self) -> str:
        """Returns the row of the table that is printed."""
        cuts = quantiles(self.latencies, n=100)
        return (
            f"{self.gigabytes:>8.2f}{self.running:>12.1f}{self.first:>14.1f}{self.whole:>16.1f}"
            f"{cuts[49]:>10.2f}{cuts[98]:>10.2f}{self.requests:>10}"
        )


HEAD = f"{'GB':>8}{'tasks run':>12}{'first result':>14}{'all files here':>16}{'p50 s':>10}{'p99 s':>10}{'requests':>10}"


class Application:
    """One application, its topics and its manifest."""

    def __init__(self, kafka: Kafka, server: S3Server, keys: int, folder: Path) -> None:
        self._kafka, self._server, self._keys, self._folder = kafka, server, keys, folder
        self._source, self._sink = (kafka.create_topic(each, PARTITIONS) for each in ("rows", "sizes"))
        self._topics = Topics(kafka.bootstrap_servers)
        self._name = kafka.unique("first-results")

    def start(self, endpoint: str) -> RunningPod:
        """Start its instance, which reaches the object store there."""
        manifest = self._folder / "app.yaml"
        manifest.write_text(
            MANIFEST.format(
                name=self._name, servers=self._kafka.bootstrap_servers, source=self._source, sink=self._sink,
                bucket=BUCKET, endpoint=endpoint, snapshots=SNAPSHOT_SECONDS,
            )
        )  # fmt: skip
        access, secret = ((self._server.credentials / f"AWS_{each}").read_text().strip() for each in _CREDENTIALS)
        return RunningPod(
            manifest, self._folder / "pod", AWS_ACCESS_KEY_ID=access, AWS_SECRET_ACCESS_KEY=secret,
            AWS_DEFAULT_REGION="us-east-1",
        )  # fmt: skip

    def fill(self) -> None:
        """Write every key once, and its snapshots; then delete the disk."""
        pod = self.start(self._server.endpoint)
        try:
            draw, producer = random.Random(1), self._producer()
            for number in range(self._keys):
                _send(producer, self._source, number, draw.randbytes(VALUE_BYTES))
            assert producer.flush(LONG) == 0
            committed = partial(self._topics.committed, self._name, self._source)
            eventually(lambda: sum(committed().values()) == self._keys, "all results", LONG)
            _settle(lambda: pod.log().count(" snapshot "))
            assert pod.terminate() == 0  # it leaves its group, whose session would be waited for
        finally:
            pod.close()
        shutil.rmtree(self._folder / "pod")

    def measure(self) -> Found:
        """Start without a disk, and wait for all its files."""
        over = threading.Event()
        came: list[tuple[float, float]] = []
        load = threading.Thread(target=self._load, args=(over,))
        results = threading.Thread(target=self._results, args=(over, came))
        with delayed(self._server.port) as (endpoint, requests):
            for each in (load, results):
                each.start()
            began, wall = time.monotonic(), time.time()
            pod = self.start(endpoint)
            try:
                eventually(lambda: len(pod.active()) == PARTITIONS, "all tasks", LONG)
                running = time.monotonic() - began
                eventually(lambda: came, "a result", LONG)
                eventually(lambda: _missing(pod) == 0, "all files", LONG)
                whole = time.monotonic() - began
                time.sleep(max(0.0, MINUTE - whole))
            finally:
                over.set()
                load.join()
                results.join()
                pod.close()
            first = came[0][1]
            minute = [at - written for written, at in came if first < written < first + MINUTE]
            return Found(self._keys * VALUE_BYTES / 1e9, running, first - wall, whole, minute, requests())

    def _producer(self) -> Producer:
        settings = {"bootstrap.servers": self._kafka.bootstrap_servers, "linger.ms": 5, "max.in.flight": 1}
        return Producer({**settings, "batch.size": 262_144, "queue.buffering.max.messages": 100_000, "log_level": 2})

    def _load(self, over: threading.Event) -> None:
        draw, producer = random.Random(2), self._producer()
        for _ in moments(over, RATE):
            _send(producer, self._source, draw.randrange(self._keys), draw.randbytes(VALUE_BYTES))
        assert producer.flush(LONG) == 0

    def _results(self, over: threading.Event, came: list[tuple[float, float]]) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._kafka.bootstrap_servers,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
            }
        )
        ends = self._topics.offsets(self._sink)
        consumer.assign([TopicPartition(self._sink, each, end) for each, (_, end) in ends.items()])
        while not over.is_set():
            came += [(message.timestamp()[1] / 1000, time.time()) for message in consumer.consume(500, 0.05)]
        consumer.close()


def _send(producer: Producer, topic: str, number: int, value: bytes) -> None:
    key = b"%016x" % (number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)
    while True:
        try:
            return producer.produce(topic, value, key, partition=number % PARTITIONS)
        except BufferError:
            producer.poll(0.05)


def _settle(count: Callable[[], int]) -> None:
    """Return when a figure has not changed for a while."""
    seen, since = count(), time.monotonic()
    while time.monotonic() - since < SETTLED:
        time.sleep(1)
        if (now := count()) != seen:
            seen, since = now, time.monotonic()


def _missing(pod: RunningPod) -> int:
    """Returns the bytes that are still to be fetched; without an answer, more than none."""
    _, document = pod.ask("/status")
    if document is None:
        return 1
    return sum((each.get("restore") or {}).get("missingBytes", 0) for each in document["tasks"])


@contextmanager
def delayed(port: int) -> Iterator[tuple[str, Callable[[], int]]]:
    """A way to the server that takes 50 ms longer, in a process of its own: its address, and the requests so far."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_delay, args=(port, there), daemon=True)
    process.start()
    endpoint = here.recv()

    def requests() -> int:
        here.send(None)
        return int(here.recv())

    try:
        yield endpoint, requests
    finally:
        process.terminate()
        process.join()


def _delay(port: int, pipe: Connection) -> None:
    with S3Proxy(port) as proxy:
        proxy.delay = 0.05
        pipe.send(proxy.endpoint)
        while True:
            pipe.recv()
            pipe.send(len(proxy.requests))


def main() -> None:
    parser = argparse.ArgumentParser(prog="first_results", description="The first result of an empty disk.")
    parser.add_argument("--gb", default="0.1,1", help="sizes of state; default: 0.1,1")
    sizes = [float(each) for each in parser.parse_args().gb.split(",")]
    print(HEAD, flush=True)
    for size in sizes:
        with (
            tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder,
            EmbeddedBroker(Path(folder) / "kafka", start_timeout=START_TIMEOUT) as broker,
            S3Server(Path(folder) / "s3") as server,
        ):
            keys = int(size * 1e9 / VALUE_BYTES)
            application = Application(Kafka(broker.bootstrap_servers), server, keys, Path(folder))
            application.fill()
            print(application.measure().line(), flush=True)


if __name__ == "__main__":
    main()

"""Measures what a batch of ``engine: spark`` costs, and the time from Kafka to Kafka, with a batch per second.

``python -m benchmarks.spark_batches`` from the root of the tree; two cores, one broker.

``batch-N``: word count over N tasks, half of them behind a repartition topic, 200 words a second to all partitions;
``batch-512-idle``: as ``batch-4``, but the application has 508 tasks more, which have no input; ``continuous-N``: as
``batch-N``, with ``trigger: continuous batches``. Spark reports how long batches take. ``latency-…``: 1,000 records a
second over 1,000 keys and four partitions are counted by the engine with either trigger, by one instance (exactly
once), and by PySpark as one writes it by hand. A record's latency ends when a count is read that includes it. Every
last count is compared with what was sent. Start is that of the process, until it runs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks import family, launch
from benchmarks.spark_driver import Driver, Started
from benchmarks.systems.job import Job
from benchmarks.topics import PREFIX, Topics
from confluent_kafka import Consumer, Producer, TopicPartition

from streamsapp.cache_folder import cache_dir
from streamsapp.local.broker import EmbeddedBroker

RESULTS = Path(__file__).parent / "results" / "spark_batches.json"
#: Seconds' worth of records.
_WARM, _MEASURED = 12.0, 20.0
_SMOKE = 3.0
#: Batches that an engine has ended before it is measured: the first ones open tasks, and those with many of them take
#: seconds, in which more records come than ``_WARM`` asks for.
_WARM_BATCHES, _WARM_CONTINUOUS = 12, 2
_TICK = 0.02
_COUNT_BYTES = 8

_CODE = """
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()

def topology():
    builder = StreamsBuilder()
    records = builder.stream("{input}", Consumed(TEXT, TEXT))
    counts = records.{grouped}.count(Materialized("counts", key_serde=TEXT, value_serde=LONG))
    counts.to_stream().to("{output}", Produced(TEXT, LONG))
    return builder.build()
"""
_BY_VALUE, _BY_KEY = "group_by(lambda key, word: word, Grouped(TEXT, TEXT))", "group_by_key(Grouped(TEXT, TEXT))"
_CONTINUOUS = "engine-spark-continuous"
_SPECS: dict[str, dict[str, Any]] = {
    "engine-spark": {"engine": "spark", "spark": {"trigger": "1s"}},
    _CONTINUOUS: {"engine": "spark", "spark": {"trigger": "continuous batches"}},
    "streamsapp": {"processing": {"instances": 1, "threads": 1, "guarantee": "exactly_once"}},
}


@dataclass(frozen=True)
class Variant:
    """One case. ``partitions`` are those of the input, and ``written`` of them get records, with ``keys`` different
    keys."""

    system: str
    partitions: int
    written: int
    keys: int
    pace: int
    #: Says whether records go through a repartition topic, where there are as many tasks again.
    repartitioned: bool


_VARIANTS = {
    **{
        f"batch-{2 * half}": Variant("engine-spark", half, half, 1_000, 200, repartitioned=True)
        for half in (2, 32, 256)
    },
    "batch-512-idle": Variant("engine-spark", 256, 2, 2, 200, repartitioned=True),
    **{
        f"latency-{system}": Variant(system, 4, 4, 1_000, 1_000, repartitioned=False)
        for system in ("engine-spark", _CONTINUOUS, "streamsapp", "pyspark-sql", "pyspark-python")
    },
    **{
        f"continuous-{2 * half}": Variant(_CONTINUOUS, half, half, 1_000, 200, repartitioned=True)
        for half in (2, 32, 256)
    },
}


@dataclass(frozen=True)
class Figures:
    """One row; milliseconds and CPU per batch are ``None`` where no program reports batches. The broker's CPU is in
    neither figure."""

    name: str
    #: From the start of the process until its status is RUNNING, and the CPU of all of its processes until then.
    start_seconds: float | None
    start_cpu_seconds: float | None
    batches: int | None
    batch_p50_ms: int | None
    batch_p90_ms: int | None
    cpu_seconds_per_batch: float | None
    cpu_seconds_per_second: float
    latency_p50_ms: int
    latency_p99_ms: int
    rss_mb: int
    load_average: float


class Sent:
    """Keys as they are sent, and counts of them as they are read."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self._sent: Counter[bytes] = Counter()
        self._counted: Counter[bytes] = Counter()
        self._waiting: dict[bytes, deque[float]] = defaultdict(deque)

    def sent(self, key: bytes) -> None:
        self._sent[key] += 1
        self._waiting[key].append(time.perf_counter())

    def received(self, key: bytes, count: int) -> None:
        """A count includes all records of its key that were sent before."""
        waiting = self._waiting[key]
        for _ in range(min(count - self._counted[key], len(waiting))):
            self.latencies.append(time.perf_counter() - waiting.popleft())
        self._counted[key] = count

    @property
    def complete(self) -> bool:
        """Says whether every last count is right."""
        return self._counted == self._sent


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_batches")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), help="variants whose name this matches")
    parser.add_argument("--runs", type=int, default=1, help="runs of each, in turn; the medians are kept")
    parser.add_argument("--smoke", action="store_true", help="does it work? Figures mean nothing and are not kept")
    options = parser.parse_args()
    family.end_on_sigterm()
    warm, measured = (_SMOKE, _SMOKE) if options.smoke else (_WARM, _MEASURED)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, variant in options.runs * list(_VARIANTS.items()):
        if options.only.search(name):
            with tempfile.TemporaryDirectory(prefix="streamsapp-bench-") as directory:
                rows[name].append(asdict(_measured(name, variant, Path(directory), warm, measured)))
            print(json.dumps(rows[name][-1]), flush=True)
    if not options.smoke:
        _write([_medians(runs) for runs in rows.values()])
    return 0


def _medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Of every figure that there is."""
    return {
        key: value if value is None or isinstance(value, str) else median(run[key] for run in runs)
        for key, value in runs[0].items()
    }


def _write(rows: list[dict[str, Any]]) -> None:
    """A row that was measured again replaces its old one."""
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    merged = {row["name"]: row for row in (*before, *rows)}
    RESULTS.write_text(json.dumps([merged[name] for name in _VARIANTS if name in merged], indent=2) + "\n")


def _measured(name: str, variant: Variant, directory: Path, warm: float, seconds: float) -> Figures:
    sent = Sent()
    with EmbeddedBroker(directory / "broker") as broker:
        topics = Topics(broker.bootstrap_servers)
        source, results = f"{PREFIX}{name}-in", f"{PREFIX}{name}-out"
        topics.create(source, variant.partitions)
        topics.create(results, variant.partitions)
        with (
            _started(name, variant, directory, topics, source, results) as system,
            _receiving(topics, results, variant.partitions, sent),
        ):
            began = time.monotonic()
            start = _started_up(system, began) if isinstance(system, Driver) else (None, None)
            with _sending(topics, source, variant, sent):
                system.until(lambda: len(sent.latencies) > warm * variant.pace and _is_warm(system, variant))
                figures = _watched(name, start, system, sent, int(seconds * variant.pace))
            system.until(lambda: sent.complete)
    return figures


def _is_warm(system: Started, variant: Variant) -> bool:
    """Says whether it has had its first batches, if it reports them."""
    if variant.system == _CONTINUOUS:  # its batches are longer
        return system.status().get("batches", 0) > _WARM_CONTINUOUS
    return variant.system != "engine-spark" or system.status().get("batches", 0) > _WARM_BATCHES


def _started_up(system: Started, began: float) -> tuple[float, float]:
    """Seconds until it runs, and CPU-seconds."""
    taken = family.CpuTime(system.pid)
    system.until(lambda: system.status().get("state") == "RUNNING")
    return round(time.monotonic() - began, 1), round(taken.seconds(), 1)


def _watched(name: str, start: tuple[float | None, float | None], system: Started, sent: Sent, records: int) -> Figures:
    """The figures from now on until so many more records are in results."""
    taken = family.CpuTime(system.pid)
    before, first, began = taken.seconds(), system.status().get("batches", 0), time.monotonic()
    sent.latencies.clear()
    took: dict[int, int] = {}

    def done() -> bool:
        progress = system.status().get("progress")
        if progress and progress["numInputRows"]:
            took[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
        return len(sent.latencies) >= records

    system.until(done)
    latencies, passed = quantiles(sent.latencies, n=100), time.monotonic() - began
    cpu = taken.seconds() - before
    batches = system.status().get("batches", 0) - first or None
    durations = quantiles(took.values(), n=10) if len(took) > 1 else None
    return Figures(
        name,
        *start,
        batches,
        round(durations[4]) if durations else None,
        round(durations[8]) if durations else None,
        round(cpu / batches, 3) if batches else None,
        round(cpu / passed, 2),
        round(1_000 * latencies[49]),
        round(1_000 * latencies[98]),
        round(family.rss_mb(system.pid)),
        round(os.getloadavg()[0], 1),
    )


# ---- what runs meanwhile -------------------------------------------------------------------------------------------


def _started(name: str, variant: Variant, directory: Path, topics: Topics, source: str, results: str) -> Started:
    folder = directory / f"{PREFIX}{name}"
    if variant.system.startswith("pyspark"):
        kind = variant.system.removeprefix("pyspark-")
        # Without an end.
        job = Job("w3", f"{kind}-w3", folder.name, topics.bootstrap_servers, source, results, 0, str(folder), {})
        return Started([*launch.prepare("pyspark", cache_dir()), job.to_json()], folder)
    code = _CODE.format(input=source, output=results, grouped=_BY_VALUE if variant.repartitioned else _BY_KEY)
    return Driver(folder, topics.bootstrap_servers, code, _SPECS[variant.system])


@contextmanager
def _sending(topics: Topics, topic: str, variant: Variant, sent: Sent) -> Iterator[None]:
    """Records at the variant's pace, each as soon as its time has come, on a thread of its own."""
    over = threading.Event()

    def send() -> None:
        settings = {"bootstrap.servers": topics.bootstrap_servers, "linger.ms": 0, "partitioner": "murmur2_random"}
        producer, number, began = Producer(settings), 0, time.monotonic()
        while not over.wait(_TICK):
            while number < (time.monotonic() - began) * variant.pace:
                key = b"word%d" % (number % variant.keys)
                sent.sent(key)
                producer.produce(topic, key, key, number % variant.written if variant.repartitioned else -1)
                number += 1
            producer.poll(0)
        producer.flush()

    with _beside(send, over):
        yield


@contextmanager
def _receiving(topics: Topics, topic: str, partitions: int, sent: Sent) -> Iterator[None]:
    """Takes results on a thread of its own."""
    over = threading.Event()
    consumer = Consumer(
        {
            "bootstrap.servers": topics.bootstrap_servers,
            "group.id": f"{PREFIX}reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])

    def receive() -> None:
        while not over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                sent.received(message.key() or b"", int.from_bytes((message.value() or b"")[-_COUNT_BYTES:], "big"))
        consumer.close()

    with _beside(receive, over):
        yield


@contextmanager
def _beside(run: Any, over: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())

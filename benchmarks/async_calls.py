"""Measures how many calls of a slow service one task makes in a second.

``python -m benchmarks.async_calls`` with tests/support and tests/oracle on PYTHONPATH, on a broker of its own.
``map_async`` awaits an answer for 50 ms, and ``blocking`` sleeps for as long in ``map_values``. One partition, one
task, one instance. With ``--faust`` the same work is done by Faust's documented way, too: an agent that awaits, with
one actor, which is its default, and with as many as ``map_async`` makes calls.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.launch import environment, prepare
from confluent_kafka import Message

from instances import Instances, end_offsets, eventually, produce
from kafka_cluster import START_TIMEOUT, Kafka
from streamsapp import Consumed, Produced, Serdes, StreamsBuilder, Topology
from streamsapp.cache_folder import cache_dir
from streamsapp.local.broker import EmbeddedBroker

WAIT, KEYS = 0.05, 500
TEXT = Serdes.string()


async def awaited(value: str) -> str:
    await asyncio.sleep(WAIT)
    return value


def blocked(value: str) -> str:
    time.sleep(WAIT)
    return value


def topology(kind: str, source: str, sink: str, concurrency: int) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(source, Consumed(TEXT, TEXT))
    order = kind.partition("-")[2]
    asked = stream.map_values(blocked) if not order else stream.map_async(awaited, concurrency, order)  # type: ignore[arg-type]
    asked.to(sink, Produced(TEXT, TEXT))
    return builder.build()


def reorders(messages: list[Message]) -> int:
    """Results that come after a later one of their key."""
    last: defaultdict[bytes, int] = defaultdict(int)
    count = 0
    for message in messages:
        key, number = message.key() or b"", int(message.value() or b"0")
        count += number < last[key]
        last[key] = max(last[key], number)
    return count


def measure(kafka: Kafka, kind: str, guarantee: str, concurrency: int, seconds: float, folder: Path) -> str:
    """Returns the calls of a second, from the first result to the last, and how many results came out of order."""
    records = int(seconds * (1 / WAIT if kind == "blocking" else concurrency / WAIT))
    source, sink = (kafka.create_topic(each) for each in ("asked", "answers"))
    produce(kafka, source, [(b"k%d" % (at % KEYS), b"%d" % at, 1_000 + at) for at in range(records)])
    instances = Instances(kafka, folder)
    try:
        instances.start(topology(kind, source, sink, concurrency), instances.config(processing_guarantee=guarantee))
        return rate(kafka, sink, records)
    finally:
        instances.close()


def measure_faust(kafka: Kafka, concurrency: int, seconds: float, folder: Path) -> str:
    """The same of Faust, in a process and an environment of its own."""
    records = int(seconds * concurrency / WAIT)
    source, sink = (kafka.create_topic(each) for each in ("asked", "answers"))
    produce(kafka, source, [(b"k%d" % (at % KEYS), b"%d" % at, 1_000 + at) for at in range(records)])
    cache = cache_dir() / "benchmarks"
    cache.mkdir(parents=True, exist_ok=True)
    command = [*prepare("faust", cache), kafka.bootstrap_servers, source, sink, str(concurrency)]
    with (folder / "faust.log").open("wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env={**os.environ, **environment()})
    try:
        return rate(kafka, sink, records)
    finally:
        running.kill()
        running.wait()


def rate(kafka: Kafka, sink: str, records: int) -> str:
    """Waits for all results, and returns those of a second from the first one on."""
    eventually(lambda: end_offsets(kafka, sink) > 0)
    began, first = time.monotonic(), end_offsets(kafka, sink)
    eventually(lambda: end_offsets(kafka, sink) >= records)
    took = time.monotonic() - began
    return f"{(records - first) / took:,.0f} calls a second, {reorders(kafka.read(sink))} results out of order"


def main() -> None:
    parser = argparse.ArgumentParser(prog="async_calls", description="Calls of a slow service in a second.")
    parser.add_argument("--concurrency", type=int, default=200, metavar="N", help="at the same time; default: 200")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="of calls; default: 10")
    parser.add_argument("--guarantee", choices=("exactly_once", "at_least_once"), default="exactly_once")
    parser.add_argument("--faust", action="store_true", help="Faust as well, installed into an environment of its own")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedBroker(Path(folder) / "kafka", start_timeout=START_TIMEOUT) as broker,
    ):
        for kind in ("blocking", "map_async-key", "map_async-partition", "map_async-none"):
            kafka, place = Kafka(broker.bootstrap_servers), Path(folder) / kind
            found = measure(kafka, kind, options.guarantee, options.concurrency, options.seconds, place)
            print(f"{kind}, {options.guarantee}: {found}", flush=True)
        for concurrency in (1, options.concurrency) if options.faust else ():
            found = measure_faust(Kafka(broker.bootstrap_servers), concurrency, options.seconds, Path(folder))
            print(f"faust with {concurrency} actors, at_least_once: {found}", flush=True)


if __name__ == "__main__":
    main()

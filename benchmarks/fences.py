"""Measures how long it takes to keep a producer out that writes outside of transactions (decision 53): its successor
takes its id and carries the newer epoch to the partitions, by the markers of a transaction without records.

``python -m benchmarks.fences`` with tests/support on PYTHONPATH, on a broker of its own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from kafka_cluster import START_TIMEOUT, Kafka
from stale_producers import Writer
from streamsapp.local.broker import EmbeddedBroker


def measure(kafka: Kafka, writer: Writer, partitions: int, runs: int) -> list[float]:
    """The seconds of each fence of one writer to so many partitions."""
    topic, taken = kafka.create_topic(partitions=partitions), []
    for _ in range(runs):
        name = kafka.unique("writer")
        writer.init(name)
        began = time.monotonic()
        writer.mark(name, writer.init(name), [(topic, each) for each in range(partitions)])
        taken.append(time.monotonic() - began)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(prog="fences", description="The time that a fence takes.")
    parser.add_argument(
        "--runs", type=int, default=30, metavar="N", help="fences of each size, at least 2; default: 30"
    )
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedBroker(Path(folder) / "kafka", start_timeout=START_TIMEOUT) as broker,
    ):
        writer = Writer.of(broker.bootstrap_servers)
        for partitions in (4, 64, 320):
            taken = measure(Kafka(broker.bootstrap_servers), writer, partitions, options.runs)
            first, *later = (round(1000 * each) for each in taken)
            print(f"{partitions:4} partitions: first {first}, then {median(later):.0f}, at most {max(later)} ms")
        writer.connection.close(5.0)


if __name__ == "__main__":
    main()

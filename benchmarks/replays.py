"""Measures a replay whose tasks stay together in stream time, beside one whose tasks do not, and what is dropped.

``python -m benchmarks.replays`` with tests/support on PYTHONPATH, on a broker of its own. Hours of events in four
partitions go through a repartition topic into windows with a short grace; ``tests/support/trips.py`` has the program.
The time is from the first record that was processed to the last, of both sub-topologies. Runs alternate.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from instances import Instances, produce
from kafka_cluster import START_TIMEOUT, Kafka
from replayed_trips import DURATION, PARTITIONS, events, per_line
from streamsapp import StreamsRuntime
from streamsapp.local.broker import EmbeddedBroker


def processed(running: list[StreamsRuntime]) -> int:
    """The records that all tasks have processed."""
    return sum(task["processedRecords"] or 0 for each in running for task in each.tasks())


def dropped(running: list[StreamsRuntime]) -> int:
    """The records that came too late."""
    samples = [sample for each in running for sample in each.samples()]
    return int(sum(each.value for each in samples if each.name.endswith("dropped_records_total")))


def measure(instances: Instances, source: str, skew_ms: int | None, options: argparse.Namespace) -> tuple[float, int]:
    """Returns records per second, those of the repartition topic included, and how many were dropped."""
    kafka = instances.kafka
    updates, finals = kafka.create_topic("updates", 1), kafka.create_topic("finals", 1)
    application_id = kafka.unique("replay")
    running = [
        instances.start(
            per_line(source, updates, finals, options.grace),
            instances.config(
                application_id,
                state_dir=instances.directory / f"{application_id}-{each}",
                client_id=f"{application_id}-{each}",
                processing_guarantee=options.guarantee,
                commit_interval_ms=-1,
                threads=options.threads,
                max_stream_time_skew_ms=skew_ms,
            ),
        )
        for each in range(options.instances)
    ]
    wanted, began, count = 2 * options.records, 0.0, 0
    while count < wanted:
        time.sleep(0.01)
        count, now = processed(running), time.monotonic()
        began = began or (now if count else 0.0)
    took, lost = time.monotonic() - began, dropped(running)
    for each in running:
        each.close()
    return wanted / took, lost


def main() -> None:
    """Prints the medians, their ratio, and every run."""
    parser = argparse.ArgumentParser(prog="replays", description="A replay with aligned stream times and without.")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of each kind; default: 5")
    parser.add_argument("--records", type=int, default=1_000_000, metavar="N", help="records of 3.5 hours")
    parser.add_argument("--grace", type=int, default=20_000, metavar="MS", help="grace of the windows")
    parser.add_argument("--instances", type=int, default=1, metavar="N")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--guarantee", default="exactly_once")
    options = parser.parse_args()
    kinds = {"aligned": None, "unaligned": 100 * DURATION}
    found: dict[str, list[tuple[float, int]]] = {kind: [] for kind in kinds}
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedBroker(Path(folder, "kafka"), start_timeout=START_TIMEOUT) as broker,
    ):
        kafka = Kafka(broker.bootstrap_servers)
        source = kafka.create_topic("events", PARTITIONS)
        begin = int(time.time() * 1000) - 10 * DURATION
        for number, partition in enumerate(events(options.records, begin)):
            records = ((vehicle.encode(), line.encode(), at) for vehicle, line, at in partition)
            produce(kafka, source, records, partition=number)
        for run in range(options.runs):
            for kind, skew_ms in kinds.items():
                instances = Instances(kafka, Path(folder))
                rate, lost = measure(instances, source, skew_ms, options)
                found[kind].append((rate, lost))
                print(f"{run + 1} {kind:9} {rate:10,.0f} records/s, {lost:,} dropped", flush=True)
    rates = {kind: median(rate for rate, _ in runs) for kind, runs in found.items()}
    print(f"ratio {rates['aligned'] / rates['unaligned']:.3f}")


if __name__ == "__main__":
    main()

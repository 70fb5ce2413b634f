"""Measures how a backlog of one query delays the results of another query of the same application.

Started by hand: ``python -m benchmarks.priorities`` from the root of the tree. One application has two sub-topologies:
one counts the keys of a backlog that takes all cores, and one forwards records that come at a fixed pace. The latency
of a record begins when it is handed to a producer that waits for no others, and ends when a consumer that reads only
committed records has its result. Throughput is that of processed records of the backlog, over the same seconds. Each
runs alone and beside the other, without and with ``scheduling``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import family, launch, run
from benchmarks.systems.streamsapp_priorities import APPLICATION, BACKLOG, COUNTS, FAST, FAST_OUT
from benchmarks.topics import Topics
from confluent_kafka import Consumer, Producer, TopicPartition

from streamsapp.cache_folder import cache_dir

_TASKS, _KEYS = 4, 10_000
#: Seconds until the work goes evenly, and until a program must have given its first result.
_WARM, _TIMEOUT = 4.0, 120.0
GUARANTEES = ("at_least_once", "exactly_once")


@dataclass(frozen=True)
class Figures:
    """Latencies in milliseconds, and records of the backlog per second; ``None`` for what did not run."""

    p50: float | None
    p99: float | None
    rate: float | None
    #: Records of the backlog per second of CPU time that the program took.
    of_cpu: float | None


def main() -> int:
    options = _parse()
    family.end_on_sigterm()
    directory = cache_dir() / "benchmarks"
    directory.mkdir(parents=True, exist_ok=True)
    with run.broker(options.bootstrap_servers, directory) as servers:
        topics = Topics(servers)
        topics.remove(APPLICATION)
        topics.create(BACKLOG, _TASKS)
        _fill(topics, options.records)
        print(f"{'':44}{'p50 ms':>10}{'p99 ms':>10}{'backlog records/s':>20}{'per CPU second':>18}")
        for guarantee in GUARANTEES if options.guarantee is None else (options.guarantee,):
            for name, backlog, pace, scheduled in CASES:
                if options.only and name not in options.only.split(","):
                    continue
                found = _measure(topics, directory, options, guarantee, backlog, options.pace if pace else 0, scheduled)
                cells = (found.p50, found.p99, found.rate, found.of_cpu)
                print(
                    f"{guarantee + ', ' + name:<44}"
                    + "".join(
                        ("" if each is None else f"{each:,.1f}").rjust(width)
                        for each, width in zip(cells, (10, 10, 20, 18), strict=True)
                    ),
                    flush=True,
                )
        topics.remove(APPLICATION)
    return 0


#: The parts of a run: the backlog, the paced records, and the scheduling.
CASES = (
    ("latency alone", False, True, False),
    ("bulk alone", True, False, False),
    ("both", True, True, False),
    ("both scheduled", True, True, True),
    ("bulk alone scheduled", True, False, True),
)


def _measure(
    topics: Topics,
    directory: Path,
    options: argparse.Namespace,
    guarantee: str,
    backlog: bool,
    pace: int,
    scheduled: bool,
) -> Figures:
    for name in (FAST, FAST_OUT, COUNTS):
        topics.remove(name)
    for name in (FAST, FAST_OUT, COUNTS):
        topics.create(name, _TASKS)
    application = f"{APPLICATION}-{time.monotonic_ns()}"  # its group has no member that was killed
    _begin_at(topics, application, end=not backlog)
    state = directory / "state"
    shutil.rmtree(state, ignore_errors=True)
    job = {
        "application": application,
        "servers": topics.bootstrap_servers, "guarantee": guarantee, "threads": options.threads,
        "commit_ms": options.commit_ms if guarantee == "exactly_once" else 1000,
        "state": str(state), "scheduled": scheduled,
    }  # fmt: skip
    sent: list[float] = []
    latencies: list[tuple[float, float]] = []
    progress: list[tuple[float, int]] = []
    with _running(directory, job, progress) as pid, _receiving(topics, sent, latencies):
        _until(lambda: any(done for _, done in progress) if backlog else len(progress) > 0)
        if pace:
            _send(topics, sent, pace, _WARM)
            _until(lambda: len(latencies) > 0)
        else:
            time.sleep(_WARM)
        taken = family.CpuTime(pid)
        began, cpu = time.monotonic(), taken.seconds()
        if pace:
            _send(topics, sent, pace, options.seconds)
        else:
            time.sleep(options.seconds)
        ended, cpu = time.monotonic(), taken.seconds() - cpu
        if pace:
            _until(lambda: len(latencies) >= len(sent))
    timed = [took for at, took in latencies if at >= began]
    within = [each for each in progress if began <= each[0] <= ended]
    cuts = statistics.quantiles(timed, n=100) if timed else None
    rate = (within[-1][1] - within[0][1]) / (within[-1][0] - within[0][0]) if backlog else None
    of_cpu = rate * (ended - began) / cpu if rate is not None else None
    return Figures(cuts and 1000 * cuts[49], cuts and 1000 * cuts[98], rate, of_cpu)


def _fill(topics: Topics, records: int) -> None:
    producer = Producer(
        {"bootstrap.servers": topics.bootstrap_servers, "linger.ms": 20, "queue.buffering.max.messages": 500_000}
    )
    for number in range(records):
        while True:
            try:
                producer.produce(BACKLOG, b"Click abc %d" % number, b"k%d" % (number * 7919 % _KEYS))
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def _begin_at(topics: Topics, application: str, *, end: bool) -> None:
    """The application's group begins with the backlog, or behind it."""
    consumer = Consumer(
        {"bootstrap.servers": topics.bootstrap_servers, "group.id": application, "enable.auto.commit": False}
    )
    offsets = []
    for topic in (BACKLOG, FAST):
        for number in range(_TASKS):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)
            offsets.append(TopicPartition(topic, number, high if end and topic == BACKLOG else low))
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


@contextmanager
def _running(directory: Path, job: dict[str, object], progress: list[tuple[float, int]]) -> Iterator[int]:
    command = [sys.executable, "-m", "benchmarks.systems.streamsapp_priorities", json.dumps(job)]
    with (directory / "priorities.log").open("wb") as log:
        process = subprocess.Popen(
            family.command(command), stdout=subprocess.PIPE, stderr=log, env=os.environ | launch.environment(),
            start_new_session=True,
        )  # fmt: skip

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            at, done = json.loads(line)
            progress.append((at, done))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()


@contextmanager
def _receiving(topics: Topics, sent: list[float], latencies: list[tuple[float, float]]) -> Iterator[None]:
    """Takes the results of the paced records meanwhile: each has the number of its record as key."""
    consumer = Consumer(
        {
            "bootstrap.servers": topics.bootstrap_servers,
            "group.id": f"{APPLICATION}-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 5,
        }
    )
    consumer.assign([TopicPartition(FAST_OUT, number, 0) for number in range(_TASKS)])
    over = threading.Event()

    def receive() -> None:
        while not over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                began = sent[int(message.key() or b"0")]
                latencies.append((began, time.monotonic() - began))

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        consumer.close()


def _send(topics: Topics, sent: list[float], pace: int, seconds: float) -> None:
    producer = Producer({"bootstrap.servers": topics.bootstrap_servers, "linger.ms": 0})
    began = time.monotonic()
    for number in range(int(pace * seconds)):
        while (wait := began + number / pace - time.monotonic()) > 0:
            producer.poll(0)
            time.sleep(min(wait, 0.001))
        key = len(sent)
        sent.append(time.monotonic())
        producer.produce(FAST, b"event", b"%d" % key)
    producer.flush()


def _until(reached: object) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while not reached():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise RuntimeError("results are missing; the program's log is beside the benchmarks' state")
        time.sleep(0.02)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.priorities", description="Latency beside a backlog.")
    parser.add_argument("--seconds", type=float, default=20, help="length of each run; default 20")
    parser.add_argument("--pace", type=int, default=200, help="paced records per second; default 200")
    parser.add_argument("--records", type=int, default=6_000_000, help="records of the backlog; default 6,000,000")
    parser.add_argument("--threads", type=int, default=2, help="processing threads; default 2")
    parser.add_argument("--commit-ms", type=int, default=100, help="commit interval of exactly once; default 100")
    parser.add_argument("--guarantee", choices=GUARANTEES, help="only this guarantee")
    parser.add_argument("--only", default="", help=f"only some of: {', '.join(name for name, *_ in CASES)}")
    parser.add_argument("--bootstrap-servers", help="a broker to use instead of an embedded one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

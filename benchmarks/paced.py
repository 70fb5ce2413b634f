"""Measures latency from Kafka to Kafka at a fixed pace, and the CPU and memory of an instance with little to do.

Started by hand: ``python -m benchmarks.paced`` from the root of the tree; ``--help`` lists what can be chosen. Kafka
Streams and streamsapp take turns on one broker. A latency begins when a record is handed to a producer that does not
wait for others. It ends when a consumer that reads only committed records has its result. Each result of a count
belongs to the record that made it, as results of one key keep their order.

The first result is timed from the start of the process: its record is there already. Memory is that of the process in
the end, with the slope of a line through samples and its standard error; ``--seconds 7200`` shows whether it grows.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import family, launch, run
from benchmarks.memory import Memory, MemoryWatch
from benchmarks.systems.job import Job
from benchmarks.topics import PREFIX, Topics
from confluent_kafka import Consumer, Producer, TopicPartition

from streamsapp.cache_folder import cache_dir

_PREFIX = f"{PREFIX}paced"
_TASKS = 16
_KEYS = 1_000
#: A program that gives no result for so long has failed; more records than any run sends.
_TIMEOUT_SECONDS, _ENDLESS = 120.0, 1 << 60
#: An instance that has nothing to do takes a while until it rests, in seconds.
_UNTIL_IDLE = 10.0
_WINDOW_START_BYTES = 8
#: Samples of memory in a run.
_SAMPLES = 200
SYSTEMS = ("kafka-streams", "streamsapp")
GUARANTEES = ("at_least_once", "exactly_once")
#: Each workload's variant that sends every update, per system.
WORKLOADS = {
    "w1-string": {"kafka-streams": "string", "streamsapp": "string"},
    "w3": {"kafka-streams": "cache-0", "streamsapp": "emit-update"},
    "w5-tumbling-1k": {"kafka-streams": "cache-0", "streamsapp": "tumbling-1k-update"},
}


@dataclass(frozen=True)
class Setting:
    """One row: what runs, with which guarantee and commit interval, at which pace (records per second)."""

    workload: str
    exactly_once: bool
    commit_ms: int
    pace: int


@dataclass(frozen=True)
class Figures:
    """Latencies in milliseconds, none without records; ``cpu`` is the share of one core that the process took."""

    p50: float | None
    p99: float | None
    cpu: float
    #: Seconds from the start of the process to its first result.
    first: float
    memory: Memory


class Sent:
    """The times at which records were sent, by the key of their results."""

    def __init__(self, workload: str) -> None:
        self._workload = workload
        self._waiting: dict[bytes, deque[float]] = defaultdict(deque)
        self.latencies: list[float] = []

    def message(self, number: int) -> tuple[bytes, bytes]:
        """Key and value of a record; every record of the stateless workload has a key of its own."""
        return b"%d" % (number if self._workload == "w1-string" else number % _KEYS), b"click1 abc %d" % number

    def sent(self, key: bytes) -> None:
        self._waiting[key].append(time.perf_counter())

    def received(self, key: bytes) -> None:
        """A result is there; it belongs to the oldest record of its key."""
        if self._workload.startswith("w5"):
            key = key[:-_WINDOW_START_BYTES]
        self.latencies.append(time.perf_counter() - self._waiting[key].popleft())

    @property
    def left(self) -> int:
        return sum(map(len, self._waiting.values()))


def main() -> int:
    options = _parse(sys.argv[1:])
    family.end_on_sigterm()
    directory = cache_dir() / "benchmarks"
    directory.mkdir(parents=True, exist_ok=True)
    with run.broker(options.bootstrap_servers, directory) as bootstrap_servers:
        topics = Topics(bootstrap_servers)
        print(f"{'':59}{'p50 ms':>10}{'p99 ms':>10}{'CPU %':>8}{'first s':>9}{'MB':>7}{'MB an hour':>18}")
        for setting in _settings(options):
            for system in options.system.split(","):
                figures = _measure(topics, directory, system, setting, options.seconds)
                print(_row(system, setting, figures), flush=True)
    return 0


def _settings(options: argparse.Namespace) -> Iterator[Setting]:
    guarantees = [(False, 0), *((True, interval) for interval in options.commit_ms)]
    guarantees = [each for each in guarantees if options.guarantee in (None, GUARANTEES[each[0]])]
    for exactly_once, interval in guarantees:
        for pace in options.idle:
            yield Setting("w3", exactly_once, interval, pace)
    for workload in WORKLOADS if options.pace else ():
        for exactly_once, interval in guarantees:
            yield Setting(workload, exactly_once, interval, options.pace)


def _measure(topics: Topics, directory: Path, system: str, setting: Setting, seconds: float) -> Figures:
    topics.remove(_PREFIX)
    job = _job(topics, directory, system, setting)
    topics.create(job.input, _TASKS)
    topics.create(job.output, _TASKS)
    sent = Sent(setting.workload)
    try:
        _send(topics, job.input, sent, 1, 1)  # so that there is a first result as soon as the program can have one
        started = time.monotonic()
        with _running(system, directory, job) as process, _receiving(topics, job.output, sent) as receiver:
            _until(lambda: not sent.left, process, receiver)
            first = time.monotonic() - started
            _send(topics, job.input, sent, _KEYS, _KEYS)
            _until(lambda: not sent.left, process, receiver)
            sent.latencies.clear()
            if not setting.pace:
                time.sleep(_UNTIL_IDLE)
            memory = MemoryWatch(process.pid, max(0.1, seconds / _SAMPLES))
            taken = family.CpuTime(process.pid)
            began, cpu = time.monotonic(), taken.seconds()
            if setting.pace:
                _send(topics, job.input, sent, int(seconds * setting.pace), setting.pace)
            else:
                time.sleep(seconds)
            cpu = (taken.seconds() - cpu) / (time.monotonic() - began)
            _until(lambda: not sent.left, process, receiver)
            found = memory.end()
    finally:
        topics.remove(_PREFIX)
        shutil.rmtree(job.stateDir, ignore_errors=True)
    if not setting.pace:
        return Figures(None, None, cpu, first, found)
    cuts = statistics.quantiles(sent.latencies, n=100)
    return Figures(1_000 * cuts[49], 1_000 * cuts[98], cpu, first, found)


def _job(topics: Topics, directory: Path, system: str, setting: Setting) -> Job:
    application = f"{_PREFIX}-{system}-{setting.workload}"
    variant = WORKLOADS[setting.workload][system]
    if setting.exactly_once:
        variant = "eos-update" if system == "streamsapp" and setting.workload == "w3" else f"eos-{variant}"
    state = directory / "state"
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir()
    return Job(
        workload=setting.workload,
        variant=variant,
        applicationId=application,
        bootstrapServers=topics.bootstrap_servers,
        input=f"{_PREFIX}-input",
        output=f"{application}-out",
        records=_ENDLESS,
        stateDir=str(state),
        remoteState={},
        commitIntervalMs=setting.commit_ms,
    )


@contextmanager
def _running(system: str, directory: Path, job: Job) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the program meanwhile, in a session of its own."""
    command = launch.prepare(system, directory)
    if system == "streamsapp":
        command = [sys.executable, "-m", "benchmarks.systems.streamsapp_paced"]
    with (directory / f"{job.applicationId}.log").open("wb") as log:
        process = subprocess.Popen(
            family.command([*command, job.to_json()]),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=os.environ | launch.environment(),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextmanager
def _receiving(topics: Topics, topic: str, sent: Sent) -> Iterator[threading.Thread]:
    """Takes results on a thread of its own meanwhile."""
    consumer = Consumer(
        {
            "bootstrap.servers": topics.bootstrap_servers,
            "group.id": f"{_PREFIX}-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(_TASKS)])
    over = threading.Event()

    def receive() -> None:
        while not over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                sent.received(message.key() or b"")

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        over.set()
        thread.join()
        consumer.close()


def _send(topics: Topics, topic: str, sent: Sent, count: int, pace: int) -> None:
    """Sends records at a pace (records per second), each as soon as its time has come."""
    producer = Producer(
        {"bootstrap.servers": topics.bootstrap_servers, "linger.ms": 0, "partitioner": "murmur2_random"}
    )
    began = time.perf_counter()
    for number in range(count):
        due = began + number / pace
        while (wait := due - time.perf_counter()) > 0:
            producer.poll(0)
            time.sleep(min(wait, 0.001))
        key, value = sent.message(number)
        sent.sent(key)
        producer.produce(topic, value, key)
    producer.flush()


def _until(reached: Callable[[], bool], process: subprocess.Popen[bytes], receiver: threading.Thread) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not reached():
        if process.poll() is not None or not receiver.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("a program ended or results are missing; its log is beside the benchmarks' state")
        time.sleep(0.02)


def _row(system: str, setting: Setting, figures: Figures) -> str:
    guarantee = "at least once"
    if setting.exactly_once:
        guarantee = f"exactly once, {setting.commit_ms} ms"
    name = f"{setting.workload} {setting.pace}/s {guarantee}"
    latencies = "".join("".rjust(10) if each is None else f"{each:>10.1f}" for each in (figures.p50, figures.p99))
    memory = figures.memory
    growth = f"{memory.slope:.1f} ± {memory.error:.1f}".rjust(18)
    return f"{name:<44}{system:<15}{latencies}{100 * figures.cpu:>8.1f}{figures.first:>9.1f}{memory.mb:>7.0f}{growth}"


def _parse(arguments: list[str]) -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.split(",") if number]

    parser = argparse.ArgumentParser(prog="python -m benchmarks.paced", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30, help="length of each run; default 30")
    parser.add_argument(
        "--pace", type=int, default=1_000, help="records per second for latencies, 0 for none; default 1000"
    )
    parser.add_argument("--idle", type=numbers, default=[0, 100], help="paces at which CPU counts; default 0,100")
    parser.add_argument(
        "--commit-ms", type=numbers, default=[100], help="commit intervals of exactly once; default 100"
    )
    parser.add_argument("--system", default=",".join(SYSTEMS), help="which systems, in turn; default both")
    parser.add_argument("--guarantee", choices=GUARANTEES, help="only this guarantee")
    parser.add_argument("--bootstrap-servers", help="a broker to use instead of an embedded one")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

"""Words that are counted by a query of Spark's: the application, its drivers, and a cluster for its executors.

Called by the tests of ``engine: spark``. Drivers run in processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyspark

from instances import Instances, end_offsets, eventually, produce
from kafka_cluster import Kafka
from spark_apps import App, finished
from streamsapp.local.broker import free_port
from streamsapp.web.endpoint import endpoint_of

PARTITIONS = 2

PROGRAM = """
import os, signal, time
from pathlib import Path
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()
FOLDER = Path("{folder}")


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def seen(key, value):
    FOLDER.joinpath(str(os.getpid())).touch()
    if value == "poison":
        raise ValueError("it is poisonous")
    if value == "slow":  # until somebody else has come to this record
        FOLDER.joinpath(f"slow-{os.getpid()}").touch()
        until = time.monotonic() + 120
        while len(list(FOLDER.glob("slow-*"))) < 2 and time.monotonic() < until:
            time.sleep(0.02)
    if value == "deadly" and not FOLDER.joinpath("killed").exists():
        FOLDER.joinpath("killed").touch()
        os.kill(parent(parent(os.getpid())), signal.SIGKILL)  # worker, daemon, executor


def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT)).peek(seen)
    grouped = words.group_by(lambda key, value: value, Grouped(key_serde=TEXT, value_serde=TEXT))
    counted = grouped.count(Materialized("counts", key_serde=TEXT, value_serde=LONG))
    counted.to_stream().to("{counts}", Produced(key_serde=TEXT, value_serde=LONG))
    return builder.build()
"""


class Counted:
    """Words are counted; every count of each must be a result once, in order."""

    def __init__(
        self,
        instances: Instances,
        name: str,
        trigger: str,
        *,
        conf: Mapping[str, str] | None = None,
        remote_state: Mapping[str, Any] | None = None,
        partitions: int = PARTITIONS,
    ) -> None:
        self.kafka: Kafka = instances.kafka
        self.words = self.kafka.create_topic("words", partitions)
        self.counts = self.kafka.create_topic("counts", partitions)
        #: A file for each process that has seen a record.
        self.processes = instances.directory / f"{name}-processes"
        self.processes.mkdir()
        code = PROGRAM.replace("{words}", self.words).replace("{counts}", self.counts)
        code = code.replace("{folder}", str(self.processes))
        spark = {"trigger": trigger, "conf": {"spark.ui.enabled": "false", **(conf or {})}}
        spec = {"engine": "spark", "spark": spark}
        self.app = App(instances, self.kafka.unique(name), code, spec=spec, remote_state=remote_state)
        self.produced = 0
        self.expected: Counter[str] = Counter()

    def produce(self, count: int) -> None:
        self.write(f"word{number % 20}" for number in range(self.produced, self.produced + count))

    def write(self, words: Iterable[str]) -> None:
        """Words of any kind, each with the next time."""
        records = []
        for word in words:
            records.append((b"k%d" % self.produced, word.encode(), self.produced))
            self.expected[word] += 1
            self.produced += 1
        produce(self.kafka, self.words, records)

    def driver(self, *options: str, state: Path | None = None) -> subprocess.Popen[str]:
        """A driver under way."""
        return self.app.command("run", *self._options("local[2]", 0, state), *options)

    def logging_driver(self, log: Path, *, master: str, port: int) -> subprocess.Popen[bytes]:
        """A driver that may log more than fits into a pipe."""
        command = [sys.executable, "-m", "streamsapp.cli.main", "run", "-f", str(self.app.manifest)]
        with log.open("wb") as output:
            return subprocess.Popen([*command, *self._options(master, port, None)], stdout=output, stderr=output)

    def _options(self, master: str, port: int, state: Path | None) -> tuple[str, ...]:
        where = str(state or self.app.folder / "spark")
        return ("--master", master, "--http-port", str(port), "--state-dir", where)

    def catch_up(self, *options: str) -> str:
        """A driver that ends by itself, and well; returns its log."""
        code, _, errors = finished(self.driver(*options))
        assert code == 0, errors[-6000:]
        return errors

    def ends(self) -> list[int]:
        """The ends of the application's topics, its internal ones included."""
        names = self.kafka.admin.list_topics(timeout=30).topics
        return [
            end_offsets(self.kafka, each) for each in sorted(names) if each.startswith((self.app.name, self.counts))
        ]

    def results(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for message in self.kafka.read(self.counts):
            found.setdefault((message.key() or b"").decode(), []).append(int.from_bytes(message.value() or b"", "big"))
        return found

    def state(self) -> dict[tuple[int | None, bytes | None], bytes | None]:
        """The last value of every key in every partition of the changelog, as it is written."""
        changelog = f"{self.app.name}-counts-changelog"
        return {(each.partition(), each.key()): each.value() for each in self.kafka.read(changelog)}

    def done(self) -> bool:
        """Says whether there are as many results as words."""
        return self.has(self.produced)

    def has(self, count: int) -> bool:
        """Says whether there are so many results."""
        if end_offsets(self.kafka, self.counts) < count:
            return False  # reading takes longer
        return len(self.kafka.read(self.counts)) >= count

    def check(self) -> None:
        assert self.results() == {word: list(range(1, count + 1)) for word, count in self.expected.items()}


def status_of(port: int) -> dict[str, Any]:
    """A driver's ``/status``; nothing while it does not answer."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/status", timeout=10) as answer:
            shown: dict[str, Any] = json.load(answer)
            return shown
    except OSError:
        return {}


def child_of(pid: int, name: str) -> int:
    """The child process of that name."""
    children = [int(each) for path in Path(f"/proc/{pid}/task").glob("*/children") for each in path.read_text().split()]
    [found] = [each for each in children if Path(f"/proc/{each}/comm").read_text().strip() == name]
    return found


#: Of processes that do next to nothing.
_JAVA = {
    "SPARK_DAEMON_MEMORY": "192m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "PYSPARK_PYTHON": sys.executable,
}


@contextmanager
def standalone(directory: Path, workers: int, host: str = "127.0.0.1") -> Iterator[str]:
    """A cluster of Spark's, whose workers have a core each, and a host each as far as Spark knows: it runs no task
    twice on one. The master's address."""
    with ExitStack() as running:
        address = endpoint_of(host, free_port())
        at, _, port = address.rpartition(":")
        running.enter_context(_daemon("master.Master", directory / "master.log", "--host", at, "-p", port))
        for number in range(workers):
            running.enter_context(standalone_worker(directory, f"spark://{address}", number))
        yield f"spark://{address}"


@contextmanager
def standalone_worker(directory: Path, master: str, number: int) -> Iterator[None]:
    """One more worker of a cluster."""
    log = directory / f"worker-{number}.log"
    host = ("--host", "[::1]" if "[::1]" in master else f"127.0.0.{number + 2}")
    with _daemon("worker.Worker", log, *host, "-c", "1", "-m", "1g", "-d", str(directory / log.stem), master):
        eventually(lambda: "Successfully registered" in log.read_text(), f"a worker in {log}", 240.0)
        yield


@contextmanager
def _daemon(name: str, log: Path, *options: str) -> Iterator[None]:
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, "--webui-port", "0", *options], stdout=output, stderr=output, env={**os.environ, **_JAVA}
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()

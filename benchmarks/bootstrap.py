"""History against live: ``make bench ONLY=BOOTSTRAP``. Count per key over 4 partitions, on two cores.

``bootstrap`` and ``live`` make the same state from the same topic: ``streamsapp bootstrap`` with ``local[2]``, and
``streamsapp run`` with two instances. Both are timed from start to end, as a user sees them; ``bootstrap-work`` is
without the start of Spark. Then ``audit``, and ``read`` of all keys with Spark. Every state is checked. What Kafka
Streams does live with the same workload is W3.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks import report
from benchmarks.workloads import W3, first_messages
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streamsapp.local.broker import EmbeddedBroker

PARTITIONS = 4
RECORDS = 20_000_000
RESULTS = Path(__file__).parent / "results"

_CODE = """
from streamsapp import *

def topology():
    builder = StreamsBuilder()
    builder.stream("keys").group_by_key().count(Materialized("counts")).to_stream().to(
        "counts", Produced(Serdes.bytes(), Serdes.long()))
    return builder.build()
"""

_READ = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
table = spark.read.format("streamsapp").option("manifest", sys.argv[1]).option("store", "counts").load()
keys, total = table.selectExpr("count(*)", "sum(value)").first()
print("read", keys, total)
spark.stop()
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.bootstrap")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    records = round(RECORDS * options.scale)
    with (
        tempfile.TemporaryDirectory(prefix="streamsapp-bench-") as folder,
        EmbeddedBroker(Path(folder) / "kafka") as broker,
    ):
        keys = _fill(broker.bootstrap_servers, records)
        bench = _Bench(Path(folder), broker.bootstrap_servers, records, keys)
        rows = bench.rows(options.runs, smoke=options.scale < 1)
    report.write_json(rows, RESULTS / ("smoke.json" if options.scale < 1 else "latest.json"))
    for row in rows:
        rates = f"{row.records_per_second:>12,}/s {row.records_per_cpu_second:>12,}/CPU-s"
        print(f"{row.variant:20} {rates} {row.seconds:>8} s")
    return 0


def _fill(servers: str, records: int) -> int:
    """Write the input; the number of different keys in it."""
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(name, PARTITIONS) for name in ("keys", "counts")]).values():
        future.result()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "partitioner": "murmur2_random"})
    keys = set()
    for key, value in first_messages(W3, records):
        keys.add(key)
        while True:
            try:
                producer.produce("keys", value, key)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return len(keys)


class _Bench:
    """The commands, each on an application of its own."""

    def __init__(self, folder: Path, servers: str, records: int, keys: int) -> None:
        self._folder = folder
        self._servers = servers
        self._records = records
        self._keys = keys
        self._number = 0

    def rows(self, runs: int, *, smoke: bool) -> list[report.Row]:
        taken: dict[str, list[tuple[float, float]]] = {}
        for _ in range(runs):
            for variant, figures in (*self._history().items(), ("live-20m", self._timed(self._live))):
                taken.setdefault(variant, []).append(figures)
        return [self._row(variant, figures, smoke=smoke) for variant, figures in taken.items()]

    def _row(self, variant: str, figures: list[tuple[float, float]], *, smoke: bool) -> report.Row:
        seconds, cpu = (median(each) for each in zip(*figures, strict=True))
        records = self._keys if variant == "read-keys" else self._records
        rates = (round(records / seconds), round(records / cpu))
        return report.Row("BOOTSTRAP", "streamsapp", variant, records, *rates, None, None, 0, round(seconds, 2),
                          round(cpu, 2), 0.0, None, len(figures), smoke)  # fmt: skip

    def _history(self) -> dict[str, tuple[float, float]]:
        manifest = self._manifest()
        told: list[str] = []
        found = {"bootstrap-20m": self._timed(lambda: told.append(_streamsapp("bootstrap", "-f", manifest)))}
        work = re.search(r" in ([0-9.]+) s,", told[0])
        assert work is not None, told
        found["bootstrap-work-20m"] = (float(work[1]), found["bootstrap-20m"][1])
        found["audit-20m"] = self._timed(lambda: self._check(_streamsapp("audit", "-f", manifest), "no differences"))
        python = [sys.executable, "-c", _READ, manifest]
        found["read-keys"] = self._timed(lambda: self._check(_output(python), f"read {self._keys} {self._records}"))
        shutil.rmtree(Path(manifest).parent)
        return found

    @staticmethod
    def _check(said: str, wanted: str) -> None:
        assert wanted in said, said

    def _live(self) -> None:
        manifest = self._manifest()
        folder = Path(manifest).parent
        command = [_STREAMSAPP, "run", "-f", manifest, "--state-dir", str(folder / "state"), "--http-port", "0"]
        with (folder / "log").open("wb") as log:
            app = subprocess.Popen(command, stdout=log, stderr=log)
        group = Consumer({"bootstrap.servers": self._servers, "group.id": folder.name})
        partitions = [TopicPartition("keys", number) for number in range(PARTITIONS)]
        while sum(max(0, each.offset) for each in group.committed(partitions, 30)) < self._records:
            assert app.poll() is None, (folder / "log").read_text()[-4000:]
            time.sleep(0.2)
        group.close()
        app.terminate()
        app.wait(300)

    def _manifest(self) -> str:
        self._number += 1
        folder = self._folder / f"app-{self._number}"
        (folder / "objects").mkdir(parents=True)
        (folder / "counting.py").write_text(_CODE)
        path = folder / "app.yaml"
        path.write_text(
            f"apiVersion: streamsapp.dev/v1alpha1\nkind: StreamsApp\nmetadata: {{name: {folder.name}}}\nspec:\n"
            f"  topology: {{entrypoint: 'counting:topology'}}\n  kafka: {{bootstrapServers: '{self._servers}'}}\n"
            f"  processing: {{instances: 2}}\n  remoteState: {{url: '{(folder / 'objects').as_uri()}'}}\n"
        )
        return str(path)

    @staticmethod
    def _timed(action: Callable[[], None]) -> tuple[float, float]:
        """Wall time, and CPU time of all processes that were started meanwhile, wherever they belong by now."""
        before, cpu, over = set(_processes()), dict[int, float](), threading.Event()

        def watch() -> None:
            while not over.wait(0.2):
                cpu.update((pid, seconds) for pid, seconds in _processes().items() if pid not in before)

        watcher = threading.Thread(target=watch)
        watcher.start()
        began = time.monotonic()
        try:
            action()
            return time.monotonic() - began, max(0.01, sum(cpu.values()))
        finally:
            over.set()
            watcher.join()


def _processes() -> dict[int, float]:
    """CPU seconds of every process of this user's that carries the mark of this run."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if _MARK.encode() in (path / "environ").read_bytes():
                user, system = (path / "stat").read_text().rpartition(")")[2].split()[11:13]
                found[int(path.name)] = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue  # it has ended, or is somebody else's
    return found


#: In the environment of all that is started here.
_MARK = f"STREAMSAPP_BENCH={os.getpid()}"
os.environ["STREAMSAPP_BENCH"] = str(os.getpid())
_STREAMSAPP = str(Path(sys.executable).parent / "streamsapp")


def _streamsapp(*arguments: str) -> str:
    return _output([_STREAMSAPP, "--log-level", "warning", *arguments, "--master", "local[2]"])


def _output(command: list[str]) -> str:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert answer.returncode == 0, answer.stderr[-6000:]
    return answer.stdout


if __name__ == "__main__":
    sys.exit(main())

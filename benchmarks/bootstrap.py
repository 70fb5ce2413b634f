"""History against live: ``make bench ONLY=BOOTSTRAP``. Count per key over 4 partitions, on two cores.

All make the same state from the same topic: ``streamsapp bootstrap`` with ``local[2]``; ``streamsapp run`` with two
instances, at least once (``live``), exactly once (``live-eos``), and at least once with results at the commit only
(``live-commit``); Kafka Streams with two threads. Each is timed from the start of its first process to the last
record, as a user sees it. ``bootstrap-work`` is without the start of Spark. Then ``audit``, and ``read`` of all keys
with Spark, of this topic and of some with more keys. Every state is compared with counts made in plain Python.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import launch, report
from benchmarks.family import end_on_sigterm
from benchmarks.measure import Program, run_to_end
from benchmarks.processes import Taken, timed
from benchmarks.systems.job import Job
from benchmarks.topics import PREFIX, Topics
from benchmarks.verify import WrongResultError, check_output
from benchmarks.workloads import W3, W4, Message, Outcome, first_messages
from confluent_kafka import Consumer, TopicPartition

from streamsapp.cache_folder import cache_dir
from streamsapp.local.broker import EmbeddedBroker

PARTITIONS = 4
RECORDS = 20_000_000
RESULTS = Path(__file__).parent / "results"
_TIMEOUT = 3_600.0

_CODE = """
from streamsapp import *

def topology():
    builder = StreamsBuilder()
    counts = builder.stream("{topic}").group_by_key().count(Materialized("counts", emit="{emit}"))
    counts.to_stream().to("{output}", Produced(Serdes.bytes(), Serdes.long()))
    return builder.build()
"""
_MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {{name: {name}}}
spec:
  topology: {{entrypoint: 'counting:topology'}}
  kafka: {{bootstrapServers: '{servers}'}}
  processing: {{instances: 2, guarantee: {guarantee}{interval}}}
  remoteState: {{url: '{objects}', snapshotIntervalSeconds: 3600}}
"""

_READ = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
table = spark.read.format("streamsapp").option("manifest", sys.argv[1]).option("store", "counts").load()
entry = "crc32(concat(key, cast(concat('=', cast(value as string)) as binary)))"
print("read", *table.selectExpr("count(*)", f"sum({entry})").first())
spark.stop()
"""


@dataclass(frozen=True)
class Counted:
    """A topic, and what counting its keys gives."""

    topic: str
    #: Its records, as in the variants' names.
    size: str
    records: int
    expected: Outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.bootstrap")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), help="variants whose name this matches")
    options = parser.parse_args()
    end_on_sigterm()
    with (
        tempfile.TemporaryDirectory(prefix="streamsapp-bench-") as folder,
        EmbeddedBroker(Path(folder) / "kafka") as broker,
    ):
        bench = _Bench(Path(folder), Topics(broker.bootstrap_servers), options.only, smoke=options.scale < 1)
        for row in bench.rows(options.scale, options.runs):
            report.write_json([row], RESULTS / ("smoke.json" if options.scale < 1 else "latest.json"))
            rates = f"{row.records_per_second:>12,}/s {row.records_per_cpu_second:>12,}/CPU-s"
            own = f"{row.seconds:>8} s {row.cpu_seconds:>8} CPU-s {row.peak_rss_mb:>6,} MB"
            print(f"{row.system:14} {row.variant:20} {rates} {own} other load {row.other_load:.0%}", flush=True)
    return 0


class _Bench:
    """The commands, each on an application of its own."""

    def __init__(self, folder: Path, topics: Topics, only: re.Pattern[str], *, smoke: bool) -> None:
        self._folder = folder
        self._topics = topics
        self._only = only
        self._smoke = smoke
        self._number = 0

    def rows(self, scale: float, runs: int) -> Iterator[report.Row]:
        """All that were asked for, in turns, so that whatever else the machine does meets all of them. A later row of
        the same variant is the median of more runs."""
        for make, whole, workload in (
            (self._history_and_live, RECORDS, W3),
            (self._many_keys, 1_000_000, W4),
            (self._many_keys, 5_000_000, W4),
        ):
            records = round(whole * scale)
            size = _short(records)
            if not any(self._only.search(f"{each}-{size}") for each in _NAMES[make.__name__]):
                continue
            counted = self._fill(f"{PREFIX}keys-{size}", size, first_messages(workload, records))
            taken: dict[tuple[str, str], list[tuple[int, Taken]]] = {}
            for _ in range(runs):
                for system, variant, of, figures in make(counted):
                    found = taken.setdefault((system, f"{variant}-{_short(of)}"), [])
                    found.append((of, figures))
                    yield self._row(system, f"{variant}-{_short(of)}", found)

    def _row(self, system: str, variant: str, found: list[tuple[int, Taken]]) -> report.Row:
        records = found[0][0]
        seconds, cpu, rss, load = (median(each) for each in zip(*(taken for _, taken in found), strict=True))
        rates = (round(records / seconds), round(records / cpu))
        return report.Row("BOOTSTRAP", system, variant, records, *rates, None, None, round(rss), round(seconds, 2),
                          round(cpu, 2), round(load, 2), None, len(found), self._smoke)  # fmt: skip

    def _wants(self, variant: str, counted: Counted) -> bool:
        return self._only.search(f"{variant}-{counted.size}") is not None

    def _fill(self, topic: str, size: str, messages: Iterator[Message]) -> Counted:
        """Write the input, and count."""
        reckoning, number = W3.expected(), 0

        def counting() -> Iterator[Message]:
            nonlocal number
            for number, message in enumerate(messages, 1):  # noqa: B007 - how many there were
                reckoning.add(message)
                yield message

        self._topics.create(topic, PARTITIONS)
        self._topics.fill(topic, counting())
        return Counted(topic, size, number, reckoning.outcome())

    # ---- what is measured --------------------------------------------------------------------------------------

    def _history_and_live(self, counted: Counted) -> Iterator[tuple[str, str, int, Taken]]:
        if self._wants("bootstrap", counted) or self._wants("audit", counted):
            manifest, told = self._manifest(counted), list[str]()
            whole = timed(lambda: told.append(_streamsapp("bootstrap", "-f", manifest)))
            yield "streamsapp", "bootstrap", counted.records, whole
            work = re.search(r" in ([0-9.]+) s,", told[0])
            assert work is not None, told
            yield "streamsapp", "bootstrap-work", counted.records, whole._replace(seconds=float(work[1]))
            yield from self._audit_and_read(manifest, counted)
        lives = {
            "live": dict[str, str](),
            "live-eos": {"guarantee": "exactly_once"},
            "live-commit": {"emit": "commit", "interval": ", commitIntervalMs: 5000"},
        }
        for variant, settings in lives.items():
            if self._wants(variant, counted):
                manifest = self._manifest(counted, **settings)
                yield "streamsapp", variant, counted.records, self._live(manifest, counted, variant)
                _check_read(manifest, counted)
                shutil.rmtree(Path(manifest).parent)
        if self._wants("kafka-streams", counted):
            yield "kafka-streams", "kafka-streams", counted.records, self._kafka_streams(counted)

    def _many_keys(self, counted: Counted) -> Iterator[tuple[str, str, int, Taken]]:
        manifest = self._manifest(counted)
        whole = timed(lambda: _streamsapp("bootstrap", "-f", manifest))
        yield "streamsapp", "bootstrap-keys", counted.records, whole
        yield from self._audit_and_read(manifest, counted)

    def _audit_and_read(self, manifest: str, counted: Counted) -> Iterator[tuple[str, str, int, Taken]]:
        if self._wants("audit", counted):
            audit = timed(lambda: _check("no differences", _streamsapp("audit", "-f", manifest)))
            yield "streamsapp", "audit", counted.records, audit
        # In every case, the state has to be right.
        read = timed(lambda: _check_read(manifest, counted))
        yield "streamsapp", "read", counted.expected.items, read
        shutil.rmtree(Path(manifest).parent)

    def _live(self, manifest: str, counted: Counted, variant: str) -> Taken:
        """Until the last result is written; with the last results at a commit, or exactly once, until that commit."""
        folder = Path(manifest).parent
        command = [_STREAMSAPP, "run", "-f", manifest, "--state-dir", str(folder / "state"), "--http-port", "0"]

        def done() -> int:
            if variant == "live":
                return sum(end for _, end in self._topics.offsets(f"{folder.name}-out").values())
            return self._committed(folder.name, counted.topic)

        with (folder / "log").open("wb") as log:
            app: subprocess.Popen[bytes] | None = None

            def run() -> None:
                nonlocal app
                app = subprocess.Popen(command, stdout=log, stderr=log)
                while done() < counted.records:
                    assert app.poll() is None, (folder / "log").read_text()[-4000:]
                    time.sleep(0.2)

            taken = timed(run)
            assert app is not None
            app.terminate()
            app.wait(300)
        return taken

    def _committed(self, group: str, topic: str) -> int:
        consumer = Consumer({"bootstrap.servers": self._topics.bootstrap_servers, "group.id": group})
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        try:
            return sum(max(0, each.offset) for each in consumer.committed(partitions, 30))
        finally:
            consumer.close()

    def _kafka_streams(self, counted: Counted) -> Taken:
        """Until it is closed, as only then its last commit is done."""
        self._number += 1
        name = f"{PREFIX}jvm-{self._number}"
        cache = cache_dir() / "benchmarks"
        cache.mkdir(parents=True, exist_ok=True)
        command = launch.prepare("kafka-streams", cache)
        self._topics.create(f"{name}-out", PARTITIONS)
        job = Job("w3", "threads-2-cache-0", name, self._topics.bootstrap_servers, counted.topic, f"{name}-out",
                  counted.records, str(self._folder / name), {})  # fmt: skip
        log = self._folder / f"{name}.log"
        taken = timed(lambda: run_to_end([Program([*command, job.to_json()], launch.environment(), log)], _TIMEOUT))
        check_output(self._topics, f"{name}-out", W3.found(), counted.expected)
        self._topics.remove(name)
        return taken

    def _manifest(
        self, counted: Counted, *, guarantee: str = "at_least_once", emit: str = "update", interval: str = ""
    ) -> str:
        self._number += 1
        folder = self._folder / f"{PREFIX}app-{self._number}"
        (folder / "objects").mkdir(parents=True)
        output = f"{folder.name}-out"
        self._topics.create(output, PARTITIONS)
        (folder / "counting.py").write_text(_CODE.format(topic=counted.topic, emit=emit, output=output))
        path = folder / "app.yaml"
        path.write_text(
            _MANIFEST.format(
                name=folder.name,
                servers=self._topics.bootstrap_servers,
                guarantee=guarantee,
                interval=interval,
                objects=(folder / "objects").as_uri(),
            )
        )
        return str(path)


#: The names of what each of ``_Bench``'s methods measures.
_NAMES = {
    "_history_and_live": ("bootstrap", "audit", "live", "live-eos", "live-commit", "kafka-streams"),
    "_many_keys": ("bootstrap-keys", "audit", "read"),
}
_STREAMSAPP = str(Path(sys.executable).parent / "streamsapp")


def _short(number: int) -> str:
    return f"{number // 1_000_000}m" if number >= 1_000_000 else f"{number // 1_000}k"


def _check(wanted: str, said: str) -> None:
    if wanted not in said:
        raise WrongResultError(said)


def _check_read(manifest: str, counted: Counted) -> None:
    """The newest snapshots hold what was counted."""
    said = _output([sys.executable, "-c", _READ, manifest])
    _check(f"read {counted.expected.items} {counted.expected.checksum}\n", said)


def _streamsapp(*arguments: str) -> str:
    return _output([_STREAMSAPP, "--log-level", "warning", *arguments, "--master", "local[2]"])


def _output(command: list[str]) -> str:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert answer.returncode == 0, answer.stderr[-6000:]
    return answer.stdout


if __name__ == "__main__":
    sys.exit(main())

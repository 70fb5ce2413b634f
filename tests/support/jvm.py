"""Programs for both sides. ``Jvm`` runs them on Kafka Streams: ``Lines.java``, which is ``topology`` here, and
``Finals.java``, which is ``window_finals`` in ``killable.py``.

The first keeps the length of all lines of each key, the sum of those lengths by parity, and the count of each word:
three sub-topologies, two repartition topics (one of them carries the changes of a table), three changelogs.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from kafka_cluster import Kafka
from oracle import class_path
from streamsapp import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, StreamsConfig, Topology
from streamsapp.local.java import find_java

_TEXT, _LONG = Serdes.string(), Serdes.long()
_JAVA = Path(__file__).parents[1] / "integration" / "jvm" / "java"
_GUARANTEES = {"exactly_once": "exactly_once_v2", "at_least_once": "at_least_once"}


class Topics(NamedTuple):
    """The topics that the program reads and writes."""

    source: str
    lengths: str
    parities: str
    counts: str


def create_topics(kafka: Kafka, partitions: int) -> Topics:
    """Topics for one run."""
    return Topics(kafka.create_topic("lines", partitions), *output_topics(kafka))


def output_topics(kafka: Kafka) -> tuple[str, str, str]:
    """Topics for what the program writes, with as many partitions whatever the source has."""
    return (
        kafka.create_topic("lengths", partitions=2),
        kafka.create_topic("parities", partitions=2),
        kafka.create_topic("counts", partitions=2),
    )


def topology(topics: Topics, emit: Literal["update", "commit"] | None = None) -> Topology:
    """The program. ``emit`` is that of the lengths, as Kafka Streams has no caches here."""
    builder = StreamsBuilder()
    lines = builder.stream(topics.source, Consumed(_TEXT, _TEXT))
    total = lines.group_by_key().aggregate(
        lambda: 0, lambda _, line, length: length + len(line), Materialized("lengths", _TEXT, _LONG, emit=emit)
    )
    total.to_stream().to(topics.lengths, Produced(_TEXT, _LONG))
    by_parity = total.group_by(
        lambda _, length: ("odd" if length % 2 else "even", length), Grouped("parities", _TEXT, _LONG)
    )
    sums = by_parity.reduce(
        lambda total, length: total + length,
        lambda total, length: total - length,
        Materialized("parities", _TEXT, _LONG),
    )
    sums.to_stream().to(topics.parities, Produced(_TEXT, _LONG))
    words = lines.flat_map_values(lambda line: line.split(" ")).group_by(
        lambda _, word: word, Grouped("words", _TEXT, _TEXT)
    )
    words.count(Materialized("counts")).to_stream().to(topics.counts, Produced(_TEXT, _LONG))
    return builder.build()


class Jvm:
    """A program on Kafka Streams, in a process of its own, with the application's id and guarantee of ``config``."""

    def __init__(
        self,
        topics: Iterable[str],
        config: StreamsConfig,
        directory: Path,
        program: str = "Lines",
        more: Mapping[str, str] | None = None,
    ) -> None:
        """``more`` are further properties of Kafka Streams."""
        settings = {
            "application.id": config.application_id,
            "bootstrap.servers": config.bootstrap_servers,
            "processing.guarantee": _GUARANTEES[config.processing_guarantee],
            "commit.interval.ms": config.commit_interval_ms,
            "state.dir": directory / "jvm-state",
            "statestore.cache.max.bytes": 0,
            "auto.offset.reset": "earliest",
            **(more or {}),
        }
        command = [str(find_java()), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path(_JAVA), program, *topics]
        self._log = (directory / "jvm.log").open("a+")
        self._process = subprocess.Popen(
            [*command, *(f"{key}={value}" for key, value in settings.items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.description = self._read_until("STARTED")

    def assert_running(self) -> bool:
        """Fails with what it wrote when it has ended by itself."""
        assert self._process.poll() is None, self._said()
        return True

    def close(self, order: str = "leave") -> None:
        """Commit and end; ``remain`` ends as ``KafkaStreams.close()`` does, without leaving the group."""
        if self._process.poll() is None:
            self._process.communicate(order, timeout=60)
        self._log.close()

    def _read_until(self, word: str) -> str:
        assert self._process.stdout is not None
        read = ""
        for line in self._process.stdout:
            if line.strip() == word:
                return read
            read += line
        raise AssertionError(f"Kafka Streams ended before {word}: {self._said()}")

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read()[-4000:]

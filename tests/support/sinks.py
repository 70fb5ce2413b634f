"""A topic of results, and a table that a sink makes of it.

Called by tests of sinks; drivers are processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from confluent_kafka import Producer

import sink_program
from instances import eventually
from kafka_cluster import Kafka
from spark_apps import finished


@dataclass
class Lake:
    """A table, and the topic whose records are its rows: texts and their lengths."""

    kafka: Kafka
    topic: str
    path: Path
    kind: str = "parquet"
    conf: Sequence[str] = ()
    #: Other fields of the sink.
    more: Mapping[str, Any] = field(default_factory=dict)

    def start(self, when: str = "", *sinks: Mapping[str, Any]) -> subprocess.Popen[str]:
        """A driver that adds what the topic has, or dies or hangs ``when`` it comes there."""
        own = {"name": "lake", "topic": self.topic, "format": self.kind, "path": str(self.path), **self.more}
        specs = ",".join(json.dumps({**own, **sink}) for sink in sinks or [{}])
        command = [sys.executable, sink_program.__file__, self.kafka.bootstrap_servers, specs, when]
        return subprocess.Popen(
            [*command, *self.conf], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
        )

    def run(self, when: str = "", **sink: Any) -> tuple[int, str]:
        """Returns the exit code of such a driver, and what was said."""
        code, _, errors = finished(self.start(when, sink))
        return code, errors

    def adds(self, **sink: Any) -> None:
        code, errors = self.run(**sink)
        assert code == 0, errors[-6000:]

    def rows(self) -> list[dict[str, Any]]:
        """As a reader of Parquet has them that knows nothing of Spark."""
        files = [str(path) for path in self.path.glob("*.parquet")]
        rows: list[dict[str, Any]] = ds.dataset(files).to_table().to_pylist() if files else []
        return sorted(rows, key=lambda row: (row["partition"], row["offset"]))

    def planned(self) -> set[str]:
        """Batches whose offsets Spark has written down."""
        return self._checkpoint("offsets")

    def committed(self) -> set[str]:
        """Batches that Spark has done."""
        return self._checkpoint("commits")

    def _checkpoint(self, part: str) -> set[str]:
        folder = self.path / "_checkpoint" / part
        return {path.name for path in folder.glob("*") if path.name.isdecimal()}

    def records(self) -> list[tuple[int | None, int | None, str, int]]:
        """Those that are committed, as Kafka has them."""
        return sorted(
            (each.partition(), each.offset(), (each.key() or b"").decode(), int.from_bytes(each.value() or b"", "big"))
            for each in self.kafka.read(self.topic)
        )

    def check(self, rows: Sequence[dict[str, Any]] | None = None) -> None:
        """A row for each committed record, with its place."""
        assert shown(self.rows() if rows is None else rows) == self.records()


def stands_still(driver: subprocess.Popen[str]) -> None:
    """Waits until a driver does."""
    state = Path(f"/proc/{driver.pid}/stat")
    eventually(lambda: state.read_text().rsplit(")", 1)[1].split()[0] == "T", "a driver that stands still", 600.0)


def shown(rows: Sequence[dict[str, Any]]) -> list[tuple[int, int, str, int]]:
    return sorted((row["partition"], row["offset"], row["key"], row["value"]) for row in rows)


def write(kafka: Kafka, topic: str, count: int, *, commit: bool = True) -> None:
    """Records of one transaction."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": kafka.unique("writer")})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(count):
        value = (number if commit else -1).to_bytes(8, "big", signed=True)
        producer.produce(topic, key=b"k%d" % number, value=value, partition=number % 2, timestamp=1_000 + number)
    producer.flush(60)
    producer.commit_transaction(60) if commit else producer.abort_transaction(60)

"""A user's PySpark program without a manifest: it counts words, and Kafka forgets the first of them.

Run by a test in a process of its own, in which everything holds or an assertion fails. Its functions travel to
executors by their code, as those of any script do.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from instances import eventually
from kafka_archive import forget
from kafka_cluster import Kafka
from streamsapp import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    Topology,
)
from streamsapp.config import RemoteStateConfig
from streamsapp.errors import StreamsError, UserInputError
from streamsapp_spark import bootstrap, run

TEXT, LONG = Serdes.string(), Serdes.long()


def topology(words: str, counts: str, antidote: Path) -> Topology:
    def known(key: str, value: str) -> None:
        if value == "poison" and not antidote.exists():
            raise ValueError("it is poisonous")

    builder = StreamsBuilder()
    stream = builder.stream(words, Consumed(TEXT, TEXT)).peek(known)
    counted = stream.group_by(lambda key, value: value, Grouped(TEXT, TEXT)).count(Materialized("counts", TEXT, LONG))
    counted.to_stream().to(counts, Produced(TEXT, LONG))
    return builder.build()


class Program:
    """The application, and its settings."""

    def __init__(self, servers: str, folder: Path, application_id: str, words: str, counts: str) -> None:
        self.kafka = Kafka(servers)
        self.words, self.counts = words, counts
        self.antidote, self.objects = folder / "antidote", folder / "objects"
        self.objects.mkdir()
        self.config = StreamsConfig(
            application_id=application_id,
            bootstrap_servers=servers,
            state_dir=folder / "state",
            memory_bytes=256 << 20,
            remote_state=RemoteStateConfig(url=self.objects.as_uri(), snapshot_interval=1.0),
        )
        self.topology = topology(words, counts, self.antidote)
        self.spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")

    def write(self, words: list[str]) -> None:
        for number, word in enumerate(words):
            self.kafka.produce(self.words, [(b"k%d" % number, word.encode())], number % 2)

    def table(self) -> DataFrame:
        """The records that Kafka has now."""
        rows = [
            (each.partition(), each.offset(), each.key(), (each.value() or b"").decode(), each.timestamp()[1])
            for each in self.kafka.read(self.words)
        ]
        columns = "partition int, offset bigint, key binary, value string, timestamp bigint"
        return self.spark.createDataFrame(rows, columns)

    def bootstrap(self, table: DataFrame, **others: DataFrame) -> int:
        """Returns how many offsets of history there are."""
        outcome = bootstrap(self.topology, self.config, {self.words: table, **others}, spark=self.spark)
        return sum(each.until - each.start for each in outcome.begun.ranges)

    @property
    def has_begun(self) -> bool:
        return bool(list(self.objects.rglob("*-begun.json")))

    def results(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for each in self.kafka.read(self.counts):
            found.setdefault((each.key() or b"").decode(), []).append(int.from_bytes(each.value() or b"", "big"))
        return found


def refused(fault: str, function: Any, *arguments: Any, **options: Any) -> None:
    with pytest.raises(UserInputError) as raised:
        function(*arguments, **options)
    assert fault in str(raised.value)


def what_cannot_travel(program: Program, folder: Path) -> None:
    lock = threading.Lock()
    (folder / "only_here.py").write_text("def mapper(value):\n    return value\n")
    sys.path.append(str(folder))

    def mapped(mapper: Any) -> Topology:
        builder = StreamsBuilder()
        builder.stream(program.words, Consumed(TEXT, TEXT)).map_values(mapper).to(program.counts, Produced(TEXT, TEXT))
        return builder.build()

    refused("cannot be sent to executors: ", run, mapped(lambda value: lock), program.config)
    refused("trigger, max_records_per_batch or sinks: ", run, program.topology, program.config, trigger="soon")
    mapper = importlib.import_module("only_here").mapper
    fault = "executors cannot load the application: ModuleNotFoundError: No module named 'only_here'; "
    refused(fault, run, mapped(mapper), program.config, spark=program.spark)


class Seen(StreamingQueryListener):
    """Notes what Spark reports of the queries: of the application, and of its sink."""

    def __init__(self) -> None:
        self.started: list[str | None] = []
        self.ended = 0
        self.batches: list[dict[str, int]] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        self.started.append(event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        row = event.progress.observedMetrics.get("streamsapp")
        if row is not None and row["records"]:
            self.batches.append(row.asDict())

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        self.ended += 1


def history(program: Program) -> None:
    first = [*(f"word{number % 7}" for number in range(60)), "poison"]
    program.write(first)
    whole = program.table().persist()
    forget(program.kafka, program.words, 0, 1)

    def not_taken(fault: str, table: DataFrame, **others: DataFrame) -> None:
        refused(fault, program.bootstrap, table, **others)
        assert not program.has_begun

    not_taken(f"history: {program.words}: its DataFrame has no column 'key'", whole.drop("key"))
    not_taken("column 'offset' is string, and has to be bigint", whole.selectExpr("* EXCEPT (offset)", "'1' AS offset"))
    not_taken("1 rows are there more than once", whole.union(whole.filter("partition = 0 AND offset = 4")))
    not_taken("there are no rows of the offsets 3, and Kafka, which begins at", whole.filter("offset != 3"))
    not_taken("the history has nothing of", whole.filter("partition = 0"))
    not_taken("the application reads no topic 'others'; it reads ", whole, others=whole)
    not_taken("its DataFrame streams, and history ends", program.spark.readStream.format("rate").load())

    with pytest.raises(StreamsError, match="it is poisonous"):
        program.bootstrap(whole)
    assert program.has_begun
    later = [f"word{number % 9}" for number in range(30)]
    program.write(later)
    # The second half has come since: instances read it in Kafka.
    more = whole.union(program.table())
    program.antidote.touch()
    refused(" now, and the bootstrap began with 0 to ", program.bootstrap, more.filter("offset > 0 OR partition = 1"))
    assert program.bootstrap(more) == len(first)
    assert program.bootstrap(more) == len(first)  # it is done

    seen = Seen()
    lake = program.antidote.parent / "lake"
    sinks = [{"name": "lake", "topic": program.counts, "format": "parquet", "path": str(lake)}]
    run(program.topology, program.config, trigger="availableNow", sinks=sinks, listeners=[seen], spark=program.spark)
    assert sum(each["records"] for each in seen.batches) == sum(each["outputs"] for each in seen.batches) > 0
    eventually(lambda: seen.ended == 2, "the ends of the queries")
    application_id = program.config.application_id
    assert (seen.batches[-1]["lag"], seen.started) == (0, [application_id, f"{application_id}/lake"])
    assert max(each["commit_ms"] for each in seen.batches) > 0
    counted = Counter(first)
    expected: dict[str, list[int]] = {}
    for word in later:
        counted[word] += 1
        expected.setdefault(word, []).append(counted[word])
    assert {word: sorted(counts) for word, counts in program.results().items()} == expected
    table = program.spark.read.parquet(str(lake)).groupBy("key").agg({"value": "collect_list"})
    assert {word: sorted(counts) for word, counts in table.collect()} == expected
    told_to_stop = threading.Event()
    told_to_stop.set()
    run(program.topology, program.config, stop=told_to_stop, spark=program.spark)


def main() -> None:
    servers, folder, *names = sys.argv[1:]
    program = Program(servers, Path(folder), *names)
    what_cannot_travel(program, Path(folder))
    history(program)
    assert program.spark.range(3).count() == 3  # the session is the user's, and goes on
    program.spark.stop()


if __name__ == "__main__":
    main()

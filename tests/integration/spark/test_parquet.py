"""History from files, after Kafka has forgotten it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer

from instances import TIMEOUT, Instances, eventually, produce
from kafka_archive import archive, forget, once
from kafka_cluster import Kafka
from spark_apps import App

pytestmark = pytest.mark.timeout(1100)

PARTITIONS = 2

PROGRAM = """
from streamsapp import *

TEXT = Serdes.string()

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT))
    words.group_by_key(Grouped(TEXT, TEXT)).count(
        Materialized("counts", key_serde=TEXT, value_serde=Serdes.long()))
    return builder.build()
"""


def test_files_are_history_and_kafka_goes_on_from_there(instances: Instances, kafka: Kafka, tmp_path: Path) -> None:
    words = kafka.create_topic("words", PARTITIONS)
    app = App(instances, kafka.unique("archived"), PROGRAM.replace("{words}", words))
    first = [f"word{number % 20}" for number in range(400)]
    produce(kafka, words, [(word.encode(), b"x", 1_000 + n) for n, word in enumerate(first)])
    assert archive(kafka, words, tmp_path / "archive", zone=None) == len(first)
    forget(kafka, words, 0, 1)
    later = [f"word{10 + number % 30}" for number in range(90)]
    produce(kafka, words, [(word.encode(), b"x", 2_000 + n) for n, word in enumerate(later)])

    said = app.bootstrap("--from", f"parquet:{tmp_path / 'archive'}")
    assert f"{len(first)} records ({len(first)} offsets of history)" in said
    instance = app.start()
    app.processed(words)
    instance.close(20)
    stored = {key: value for (_, key), value in app.stored()["counts"].items()}
    assert {key: entry.value for key, entry in stored.items()} == Counter(first + later)
    # Times of files that name no zone are in UTC here.
    assert [stored[f"word{number}"].timestamp for number in range(10)] == [1_380 + number for number in range(10)]


WITH_NAMES = """
from streamsapp import *

TEXT = Serdes.string()

def topology():
    builder = StreamsBuilder()
    names = builder.global_table("{names}", Consumed(TEXT, TEXT), Materialized("names", key_serde=TEXT,
        value_serde=TEXT))
    words = builder.stream("{words}", Consumed(TEXT, TEXT))
    named = words.join(names, lambda key, value: key, lambda value, name: name)
    named.group_by_key(Grouped(TEXT, TEXT)).count(
        Materialized("counts", key_serde=TEXT, value_serde=Serdes.long()))
    return builder.build()
"""


def test_a_global_table_is_filled_from_kafka_whatever_the_files_have_of_it(
    instances: Instances, kafka: Kafka, tmp_path: Path
) -> None:
    words, names = kafka.create_topic("words", PARTITIONS), kafka.create_topic("names", 1)
    program = WITH_NAMES.replace("{words}", words).replace("{names}", names)
    app = App(instances, kafka.unique("named"), program)
    produce(kafka, words, [(b"word%d" % (number % 5), b"x", 1_000 + number) for number in range(100)])
    archive(kafka, words, tmp_path / "archive")
    kafka.produce(names, [(b"word%d" % number, b"name") for number in range(4)])

    app.bootstrap("--from", f"parquet:{tmp_path / 'archive'}")
    produce(kafka, words, [(b"word%d" % number, b"x", 2_000) for number in range(5)])
    instance = app.start()
    app.processed(words)
    instance.close(20)

    counted = {key: value.value for (_, key), value in app.stored()["counts"].items()}
    assert counted == {f"word{number}": 21 for number in range(4)}, "those that have a name"


EACH = 20


@pytest.mark.long
def test_files_that_lack_or_repeat_records_are_refused_by_name_unless_the_user_accepts_the_gaps(
    instances: Instances, kafka: Kafka, tmp_path: Path
) -> None:
    words = kafka.create_topic("words", 3)
    app = App(instances, kafka.unique("gaps"), PROGRAM.replace("{words}", words))
    for partition in range(3):
        kafka.produce(words, [(b"word%d" % partition, b"x")] * EACH, partition)

    source = f"parquet:{tmp_path / 'archive'}"

    def refused() -> str:
        code, _, errors = app.run("bootstrap", "--from", source)
        assert code == 2, errors[-4000:]
        assert not list(app.objects.rglob("*-begun.json"))
        return errors

    def lossy(partition: int, offset: int) -> int:
        return [2 if offset in {3, 4} else 1, 0 if 5 <= offset < 8 else 1, 0][partition]

    archive(kafka, words, tmp_path / "archive", once, (words, 2, EACH, b"x", b"x", None))
    assert f"--from: {words}-2: 1 rows lack a partition, an offset or a timestamp" in refused()
    archive(kafka, words, tmp_path / "archive", lossy, (words, 7, 0, b"x", b"x", datetime.fromtimestamp(1, UTC)))
    errors = refused()
    assert f"--from: the history has records of {words}-7, a partition that the topic does not have" in errors
    assert f"--from: {words}-0: 2 rows are there more than once, first of the offsets 3, 4: " in errors
    assert f"--from: {words}-1: there are no rows of the offsets 5, 6, 7, and Kafka has records there: " in errors
    assert f"--from: the history has nothing of {words}-2, which ends at offset {EACH} in Kafka: " in errors

    def late(partition: int, offset: int) -> int:
        return [0 if offset < 4 else 1, 0 if 5 <= offset < 8 else 1, 1][partition]

    archive(kafka, words, tmp_path / "archive", late)
    forget(kafka, words, 1)
    errors = refused()
    assert f"--from: {words}-0: there are no rows of the offsets 0, 1, 2, 3, and Kafka has records there: " in errors
    gone = f"{words}-1: there are no rows of the offsets 5 to 7, and Kafka, which begins at {EACH}, cannot tell"
    assert gone in errors
    assert "--accept-missing-offsets" in errors

    rows = EACH - 4 + EACH - 3 + EACH
    assert f"{rows} records ({rows + 3} offsets of history)" in app.bootstrap(
        "--from", source, "--accept-missing-offsets"
    )


def test_gaps_that_transactions_left_are_recognised_in_kafka(
    instances: Instances, kafka: Kafka, tmp_path: Path
) -> None:
    words = kafka.create_topic("words", 1)
    app = App(instances, kafka.unique("marked"), PROGRAM.replace("{words}", words))
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": app.name})
    producer.init_transactions(TIMEOUT)
    for end in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(words, b"x", b"word")
        producer.flush(TIMEOUT)
        end(TIMEOUT)
    # The commit is answered before its marker is written.
    eventually(lambda: len(kafka.read(words)) == 2, "the end of the last transaction")
    # Offsets 0 and 4 have records; between them are a marker, an aborted record and its marker.
    assert archive(kafka, words, tmp_path / "archive") == 2
    said = app.bootstrap("--from", f"parquet:{tmp_path / 'archive'}")
    assert "2 records (5 offsets of history)" in said

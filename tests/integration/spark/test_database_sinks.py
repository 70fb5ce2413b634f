"""Results are rows of a table in a database, each once, also when drivers are killed, or hang, at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafka_cluster import Kafka
from postgres import DRIVER, PASSWORD, WITHOUT_POSTGRES, Postgres
from sink_program import AFTER, BEFORE, BETWEEN, HANGING, HANGING_UNCOMMITTED, OPENED, SECRETS, TWICE, UNCOMMITTED
from sinks import Lake, stands_still, write
from spark_apps import finished

#: Each has sessions of Spark's.
pytestmark = [pytest.mark.timeout(1800), WITHOUT_POSTGRES]


#: The columns of a table of one's own that are not of its key.
REST = 'value bigint, timestamp timestamptz, partition int, "offset" bigint, headers text)'


@dataclass
class InDatabase(Lake):
    """A table of a database."""

    postgres: Postgres | None = None

    @property
    def table(self) -> str:
        return str(self.more["table"])

    def sql(self, statement: str) -> list[dict[str, Any]]:
        assert self.postgres is not None
        return self.postgres.run(statement)

    def rows(self) -> list[dict[str, Any]]:
        """As a program has them that knows nothing of Spark."""
        if self.table.rpartition(".")[2] not in self.tables():
            return []
        return self.sql(f'SELECT * FROM {self.table} ORDER BY partition, "offset"')  # noqa: S608

    def tables(self) -> set[str]:
        """The tables of its schema."""
        found = self.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'results'")
        return {row["tablename"] for row in found}

    def last(self) -> list[int]:
        """The number of its last batch."""
        found = self.sql(f"SELECT batch FROM results.streamsapp_sinks WHERE sink_table = '{self.table}'")  # noqa: S608
        return [int(row["batch"]) for row in found]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.fixture
def lake(postgres: Postgres, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InDatabase:
    """A topic, a schema without tables, and a login."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    monkeypatch.delenv("PYSPARK_GATEWAY_SECRET")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv(SECRETS, str(tmp_path / "secrets"))
    postgres.login(tmp_path / "secrets" / "sinks" / "lake")
    postgres.run("DROP SCHEMA IF EXISTS results CASCADE")
    postgres.run("CREATE SCHEMA results")
    more = {"table": "results.counts", "options": {"url": postgres.url}, "secretRef": {"name": "login"}}
    conf = (f"spark.jars={','.join(map(str, DRIVER.folder().glob('*.jar')))}",)
    return InDatabase(kafka, kafka.create_topic("results", 2), tmp_path / "lake", "jdbc", conf, more, postgres)


def test_a_batch_whose_driver_was_killed_in_its_transaction_is_there_once_and_nothing_uncommitted(
    lake: InDatabase,
) -> None:
    write(lake.kafka, lake.topic, 95)
    write(lake.kafka, lake.topic, 10, commit=False)
    code, errors = lake.run(UNCOMMITTED)
    assert code == -signal.SIGKILL, errors[-6000:]
    assert (lake.planned(), lake.committed(), lake.rows(), lake.last()) == ({"0"}, set(), [], [-1])
    write(lake.kafka, lake.topic, 7)  # they are of the next batch
    lake.adds()
    lake.check()
    rows = lake.rows()
    assert len(rows) == 102
    time = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    first = {"key": "k0", "value": 0, "timestamp": time, "partition": 0, "offset": 0, "headers": None}
    assert list(rows[0].items()) == list(first.items())
    assert lake.tables() == {"counts", "streamsapp_sinks"}
    assert lake.last() == [1]


@pytest.mark.long
@pytest.mark.parametrize("when", [BEFORE, BETWEEN, AFTER])
def test_a_batch_whose_driver_was_killed_around_its_transaction_is_there_once(lake: InDatabase, when: str) -> None:
    write(lake.kafka, lake.topic, 95)
    code, errors = lake.run(when)
    assert code == -signal.SIGKILL, errors[-6000:]
    assert (lake.planned(), lake.committed(), len(lake.rows())) == ({"0"}, set(), {AFTER: 95}.get(when, 0))
    assert len(lake.tables()) == {BETWEEN: 3}.get(when, 2)
    lake.kafka.produce(lake.topic, [(None, (5).to_bytes(8, "big")), (b"gone", None)], partition=1)
    lake.adds()
    *_, without_key, gone = lake.rows()
    assert (without_key["key"], without_key["value"], gone["key"], gone["value"]) == (None, 5, "gone", None)
    assert len({(row["partition"], row["offset"]) for row in lake.rows()}) == len(lake.rows()) == 97
    assert lake.tables() == {"counts", "streamsapp_sinks"}


@pytest.mark.long
def test_a_driver_that_hung_while_another_added_its_batch_adds_nothing(lake: InDatabase) -> None:
    write(lake.kafka, lake.topic, 95)
    hanging = lake.start(HANGING)
    stands_still(hanging)
    lake.adds()
    os.kill(hanging.pid, signal.SIGCONT)
    code, _, errors = finished(hanging)
    assert code == 1, errors[-6000:]
    assert "sink lake failed: " in errors
    assert "another driver adds rows to results.counts now; this one has added nothing of batch 0" in errors
    lake.check()
    assert lake.tables() == {"counts", "streamsapp_sinks"}


@pytest.mark.long
def test_a_driver_waits_a_minute_for_one_that_hangs_in_its_transaction_and_ends(lake: InDatabase) -> None:
    write(lake.kafka, lake.topic, 95)
    hanging = lake.start(HANGING_UNCOMMITTED)
    stands_still(hanging)
    code, errors = lake.run()
    assert code == 1, errors[-6000:]
    assert "the row of results.counts in results.streamsapp_sinks cannot be written: " in errors
    assert "if a driver from before hangs in a transaction, end its session in the database" in errors
    assert lake.rows() == []
    os.kill(hanging.pid, signal.SIGCONT)
    code, _, errors = finished(hanging)
    assert code == 0, errors[-6000:]
    lake.check()
    lake.adds()
    lake.check()


@pytest.mark.long
def test_a_database_that_crashed_meanwhile_has_the_batch_from_the_next_start(lake: InDatabase) -> None:
    assert lake.postgres is not None
    write(lake.kafka, lake.topic, 95)
    hanging = lake.start(HANGING_UNCOMMITTED)
    stands_still(hanging)
    lake.postgres.stop()
    try:
        os.kill(hanging.pid, signal.SIGCONT)
        code, _, errors = finished(hanging)
        assert code == 1, errors[-6000:]
        assert "spec.spark.sinks[0]: sink lake failed: " in errors
        code, errors = lake.run()
        assert code == 1, errors[-6000:]
        assert "spec.spark.sinks[0].options.url: the database cannot be used now: " in errors
    finally:
        lake.postgres.start()
    assert lake.rows() == []
    lake.adds()
    lake.check()
    assert lake.tables() == {"counts", "streamsapp_sinks"}


@pytest.mark.long
def test_rows_that_a_task_wrote_twice_are_not_added(lake: InDatabase) -> None:
    write(lake.kafka, lake.topic, 95)
    code, errors = lake.run(TWICE)
    assert code == 1, errors[-6000:]
    assert "a task of batch 0 has written its rows twice, and results.counts has none" in errors
    assert (lake.rows(), lake.last()) == ([], [-1])
    lake.adds()
    lake.check()


@pytest.mark.long
def test_a_table_and_a_checkpoint_that_do_not_belong_together_are_refused(lake: InDatabase) -> None:
    write(lake.kafka, lake.topic, 95)
    lake.adds()
    code, errors = lake.run(path=f"{lake.path}-other")
    assert code == 2, errors[-6000:]
    assert f"spec.spark.sinks[0].path: results.counts has rows, and {lake.path}-other/_checkpoint, which says" in errors
    assert "bring it back, or give the sink a new table" in errors
    write(lake.kafka, lake.topic, 7)
    code, errors = lake.run(table="results.others")
    assert code == 1, errors[-6000:]
    assert "results.others has no batch of this sink, which has added batches up to 0 elsewhere; bring back" in errors
    lake.sql("UPDATE results.streamsapp_sinks SET batch = 5")
    code, errors = lake.run()
    assert code == 1, errors[-6000:]
    assert "results.counts has batches up to 5, and this is batch 1: the table or the checkpoint was brought" in errors
    lake.sql("UPDATE results.streamsapp_sinks SET batch = 0")
    lake.adds()
    lake.check()


@pytest.mark.long
def test_a_database_that_cannot_be_used_is_refused_with_the_field_and_the_remedy(
    lake: InDatabase, tmp_path: Path
) -> None:
    assert lake.postgres is not None
    field, options, url = "spec.spark.sinks[0]", lake.more["options"], lake.postgres.url
    lake.sql("CREATE TABLE results.narrow (key text, value date)")
    lake.sql("CREATE TABLE results.dates (key date, " + REST)
    secrets = tmp_path / "secrets" / "sinks"
    lake.postgres.login(secrets / "wrong", "another")
    (lake.postgres.login(secrets / "half") / "password").unlink()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"options": {"url": f"{url}x"}}, f'{field}.options.url: the database cannot be used: FATAL: database "lakex"'),
        ({"options": {**options, "driver": "none.Driver"}}, f"{field}.options.url: the database cannot be used: "),
        ({"options": {"url": "jdbc:other:x"}}, f"{field}.options.url: Spark has no driver for this address here: name"),
        ({"table": "nowhere.counts"}, f"{field}.table: the database cannot be used: ERROR: schema"),
        ({"table": "results.narrow"}, f"{field}.table: the database cannot be used: "),
        (
            {"table": "results.dates"},
            f'{field}.table: the database cannot be used: ERROR: column "key" is of type date',
        ),
        ({"name": "none"}, f"{field}.secretRef.name: the secret 'login' is not mounted at {secrets}/none; mount it"),
        ({"name": "half"}, f"{field}.secretRef.name: the secret {secrets}/half has no text password; it needs"),
        (
            {"name": "wrong"},
            f"{field}.secretRef: the database refuses the login: FATAL: password authentication failed",
        ),
        ({"secretRef": None}, f"{field}.secretRef: the database refuses the login: The server requested SCRAM"),
    ]
    code, told, errors = finished(lake.start(OPENED, *(sink for sink, _ in cases)))
    assert code == 0, errors[-6000:]
    for (sink, fault), (ends, message) in zip(cases, json.loads(told.splitlines()[-1]), strict=True):
        assert (ends, fault in message) == (2, True), (sink, message)
    assert lake.tables() == {"narrow", "dates", "streamsapp_sinks"}


@pytest.mark.long
def test_a_row_that_the_database_does_not_take_stops_the_sink_until_it_does(lake: InDatabase) -> None:
    write(lake.kafka, lake.topic, 95)
    lake.sql("CREATE TABLE results.short (key varchar(2), " + REST)
    lake.more = {**lake.more, "table": "results.short"}
    code, errors = lake.run()
    assert code == 1, errors[-6000:]
    assert "ERROR: value too long for type character varying(2); the next start goes on there" in errors
    assert PASSWORD not in errors
    assert lake.rows() == []
    lake.sql("ALTER TABLE results.short ALTER key TYPE text")
    lake.adds()
    lake.check()
    lake.kafka.produce(lake.topic, [(b"a\0b", (5).to_bytes(8, "big"))], partition=1)
    code, errors = lake.run()
    assert code == 1, errors[-6000:]
    assert "invalid byte sequence" in errors
    assert len(lake.rows()) == 95
    assert lake.tables() == {"short", "streamsapp_sinks"}


#: Prints columns and a row as a database gets them.
PLAIN = """
import json
from pyspark.sql import SparkSession
from streamsapp_spark.sinks.jdbc import plain
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = plain(spark.sql(
    "SELECT named_struct('a', CAST(NULL AS int), 'b', array(X'78')) AS value, map('q', 1.50BD) AS `a.b`, "
    "array(named_struct('key', 'h', 'value', CAST(NULL AS binary))) AS headers, "
    "CAST(NULL AS map<string, int>) AS none, X'78' AS bytes, DATE'2026-11-30' AS day"
))
shown = {name: of.hex() if name == "bytes" else str(of) for name, of in rows.first().asDict().items()}
print(json.dumps([dict(rows.dtypes), shown]))
spark.stop()
"""


@pytest.mark.long
def test_lists_maps_and_structs_are_json(lake: InDatabase) -> None:
    found = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-6000:]
    types, row = json.loads(found.stdout.splitlines()[-1])
    assert types == {
        "value": "string", "a.b": "string", "headers": "string", "none": "string", "bytes": "binary", "day": "date"
    }  # fmt: skip
    assert row == {
        "value": '{"a":null,"b":["eA=="]}',
        "a.b": '{"q":1.50}',
        "headers": '[{"key":"h","value":null}]',
        "none": "None",
        "bytes": "78",
        "day": "2026-11-30",
    }

"""A driver with sinks alone: it adds what a topic has to a table, and ends, or it is killed with its Java at one place,
or stands still there.

Run by tests in a process of its own. The topic's records are the test's.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from streamsapp import Consumed, Produced, Serdes, StreamsBuilder, StreamsConfig, Topology
from streamsapp.errors import StreamsAppError, UserInputError
from streamsapp.manifest.model import SinkSpec
from streamsapp.structs import converted
from streamsapp_spark.programs.shipped import PickledProgram
from streamsapp_spark.session.session import session, start_java
from streamsapp_spark.session.settings import JAVA_OPTIONS
from streamsapp_spark.sinks import jdbc
from streamsapp_spark.sinks.database import DatabaseConnection
from streamsapp_spark.sinks.delta import DeltaTable
from streamsapp_spark.sinks.folder import Folder
from streamsapp_spark.sinks.iceberg import IcebergTable
from streamsapp_spark.sinks.jdbc import DatabaseTable
from streamsapp_spark.sinks.parquet import ParquetFolder
from streamsapp_spark.sinks.queries import SinkQueries
from streamsapp_spark.sinks.tables import settings_of

#: When it is killed: before a batch is added, after three files of it are in their place or it is staged, and after the
#: whole batch; and when it stands still, as BETWEEN.
BEFORE, BETWEEN, AFTER, HANGING = "before", "between", "after", "hanging"
#: With a table of a database: when it is killed with the batch in its transaction, and when it stands still there.
UNCOMMITTED, HANGING_UNCOMMITTED = "uncommitted", "hanging uncommitted"
#: When a task of a batch has written its rows once more.
TWICE = "twice"
#: When sinks, with commas between them, are opened one after the other, and the errors printed, and nothing more.
OPENED = "opened"
#: A variable with the folder of Secrets.
SECRETS = "STREAMSAPP_TEST_SECRETS"

#: Nothing runs for so long that compiling it well pays.
_SETTINGS = (
    f"spark.driver.extraJavaOptions={JAVA_OPTIONS} -XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage=false",
    "spark.sql.codegen.factoryMode=NO_CODEGEN",
    "spark.sql.shuffle.partitions=1",
)


def topology(topic: str) -> Topology:
    builder = StreamsBuilder()
    written = builder.stream("words", Consumed(Serdes.string(), Serdes.long()))
    written.to(topic, Produced(Serdes.string(), Serdes.long()))
    return builder.build()


def kill() -> None:
    children = [
        each for path in Path(f"/proc/{os.getpid()}/task").glob("*/children") for each in path.read_text().split()
    ]
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def killed(when: str) -> None:
    """Has the driver die ``when`` it comes there."""
    move, moved = Folder.move, []
    database: Any = DatabaseTable

    def moves(self: Folder, name: str, to: str) -> None:
        move(self, name, to)
        moved.append(to)
        if len(moved) == 3:
            kill()

    staged = IcebergTable._staged

    def stages(self: IcebergTable, table: Any, number: str) -> int:
        snapshot = staged(self, table, number)
        end_or_stand_still(when)
        return snapshot

    def dies(kind: Any) -> None:
        add = kind.add

        def adds(*arguments: Any) -> None:
            if when == AFTER:
                add(*arguments)
            kill()

        kind.add = adds

    if when in (BETWEEN, HANGING):
        Folder.move = moves  # type: ignore[method-assign]
        IcebergTable._staged = stages  # type: ignore[method-assign]
        database._add_staged = adds_staged(when)
    elif when in (UNCOMMITTED, HANGING_UNCOMMITTED, TWICE):
        database._copy = copies(when)
    else:
        dies(DatabaseTable)
        dies(ParquetFolder)
        dies(DeltaTable)
        dies(IcebergTable)


def end_or_stand_still(when: str) -> None:
    kill() if when in (BETWEEN, UNCOMMITTED) else os.kill(os.getpid(), signal.SIGSTOP)


def adds_staged(when: str) -> Callable[[DatabaseTable, str, str, int], None]:
    add_staged = DatabaseTable._add_staged

    def adds(self: DatabaseTable, staging: str, query: str, batch: int) -> None:
        end_or_stand_still(when)
        add_staged(self, staging, query, batch)

    return adds


def copies(when: str) -> Callable[[DatabaseTable, DatabaseConnection, str], None]:
    """A copy of no rows, at the driver's start, stays as it is."""
    copy = DatabaseTable._copy

    def copies_rows(self: DatabaseTable, connection: DatabaseConnection, staging: str) -> None:
        if when == TWICE:
            connection.execute(f"INSERT INTO {staging} SELECT * FROM {staging}")  # noqa: S608
        copy(self, connection, staging)
        if when != TWICE and "trial" not in staging:
            end_or_stand_still(when)

    return copies_rows


def exit_code(error: StreamsAppError) -> int:
    """As commands have it."""
    return 2 if isinstance(error, UserInputError) else 1


def main() -> int:
    servers, sink, when, *conf = sys.argv[1:]
    specs = [converted(each, SinkSpec) for each in json.loads(f"[{sink}]")]
    if when not in ("", OPENED):
        killed(when)
    vars(jdbc)["SECRETS_DIR"] = Path(os.environ.get(SECRETS, "/nowhere"))
    config = StreamsConfig(application_id="sinks", bootstrap_servers=servers)
    made = topology(specs[0].topic)
    java = start_java("sinks", "local[2]", [*_SETTINGS, *settings_of(specs), *conf])
    try:
        with session(java) as spark:
            if when == OPENED:
                print(json.dumps([opened(spark, made, config, spec) for spec in specs]))
                return 0
            queries = SinkQueries(spark, PickledProgram.of(made, config), made, config)
            queries.open(specs)
            queries.catch_up(lambda: False)
    except StreamsAppError as error:
        print(error, file=sys.stderr)
        return exit_code(error)
    return 0


def opened(spark: SparkSession, made: Topology, config: StreamsConfig, spec: SinkSpec) -> tuple[int, str]:
    try:
        SinkQueries(spark, PickledProgram.of(made, config), made, config).open([spec])
    except StreamsAppError as error:
        return exit_code(error), str(error)
    return 0, ""


if __name__ == "__main__":
    sys.exit(main())

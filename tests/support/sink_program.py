"""A driver with sinks alone: it adds what a topic has to a table, and ends, or it is killed with its Java at one place,
or stands still there.

Run by tests in a process of its own. The topic's records are the test's.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from streamsapp import Consumed, Produced, Serdes, StreamsBuilder, StreamsConfig, Topology
from streamsapp.errors import StreamsAppError
from streamsapp.manifest.model import SinkSpec
from streamsapp.structs import converted
from streamsapp_spark.programs.shipped import PickledProgram
from streamsapp_spark.session.session import session, start_java
from streamsapp_spark.session.settings import JAVA_OPTIONS
from streamsapp_spark.sinks.delta import DeltaTable
from streamsapp_spark.sinks.folder import Folder
from streamsapp_spark.sinks.iceberg import IcebergTable
from streamsapp_spark.sinks.parquet import ParquetFolder
from streamsapp_spark.sinks.queries import SinkQueries
from streamsapp_spark.sinks.tables import settings_of

#: When it is killed: before a batch is added, after three files of it are in their place or it is staged, and after the
#: whole batch; and when it stands still, as BETWEEN.
BEFORE, BETWEEN, AFTER, HANGING = "before", "between", "after", "hanging"

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

    def moves(self: Folder, name: str, to: str) -> None:
        move(self, name, to)
        moved.append(to)
        if len(moved) == 3:
            kill()

    staged = IcebergTable._staged

    def stages(self: IcebergTable, table: Any, number: str) -> int:
        snapshot = staged(self, table, number)
        kill() if when == BETWEEN else os.kill(os.getpid(), signal.SIGSTOP)
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
    else:
        dies(ParquetFolder)
        dies(DeltaTable)
        dies(IcebergTable)


def main() -> int:
    servers, sink, when, *conf = sys.argv[1:]
    spec = converted(json.loads(sink), SinkSpec)
    if when:
        killed(when)
    config = StreamsConfig(application_id="sinks", bootstrap_servers=servers)
    made = topology(spec.topic)
    java = start_java("sinks", "local[2]", [*_SETTINGS, *settings_of([spec]), *conf])
    try:
        with session(java) as spark:
            queries = SinkQueries(spark, PickledProgram.of(made, config), made, config)
            queries.open([spec])
            queries.catch_up(lambda: False)
    except StreamsAppError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A reader of snapshots says what they lack of what is committed. Planned without a session of Spark's."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from instances import Instances, eventually, produce
from spark_apps import App
from streamsapp.errors import ConfigError, StreamsError
from streamsapp_spark.datasource import StreamsAppDataSource

PROGRAM = """
from streamsapp import *

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(Serdes.string(), Serdes.string()))
    words.group_by_key(Grouped(Serdes.string(), Serdes.string())).count(
        Materialized("counts", key_serde=Serdes.string(), value_serde=Serdes.long()))
    return builder.build()
"""


def planned(app: App, **options: str) -> list[str]:
    """The tasks that a reader of the store reads."""
    source = StreamsAppDataSource({"manifest": str(app.manifest), "store": "counts", **options})
    source.schema()
    columns = [("key", pa.string()), ("value", pa.int64()), ("timestamp", pa.int64())]
    schema = from_arrow_schema(pa.schema([*columns, ("task", pa.string()), ("offset", pa.int64())]))
    assert isinstance(schema, StructType)
    reader = source.reader(schema)
    return [each.task for each in reader.partitions()]  # type: ignore[attr-defined]


def test_snapshots_of_a_running_application_are_read_with_a_warning_that_has_the_offsets(
    instances: Instances, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = instances.kafka
    words = kafka.create_topic("words", 3)
    code = PROGRAM.replace("{words}", words)
    app = App(instances, kafka.unique("fresh"), code, remote_state={"snapshotIntervalSeconds": 3600})
    produce(kafka, words, [(b"a", b"x", 10)], partition=0)
    instance = app.start()
    app.processed(words)
    ended, said, errors = app.run("audit", "-o", "json")
    assert ended == 1, errors[-4000:]
    (fault,) = json.loads(said)["faults"]
    assert fault.startswith("task 0_0 has no snapshot yet: ")
    assert fault.endswith("; stop the application, whose last snapshots are taken then, and audit it again")
    assert instance.close(30)  # with last snapshots
    assert planned(app) == ["0_0", "0_1", "0_2"]
    assert "do not have all that is committed" not in caplog.text

    instance = app.start()
    produce(kafka, words, [(b"a", b"x", 20), (b"b", b"x", 30)], partition=0)
    app.processed(words)
    eventually(lambda: app.read(f"{app.name}-counts-changelog")[2:], "the changelog")
    assert planned(app) == ["0_0", "0_1", "0_2"]
    [warning] = re.findall(r"store counts: snapshots of .*", caplog.text)
    ended, said, errors = app.run("snapshots list", "-o", "json")
    assert ended == 0, errors[-4000:]
    listed = {each["task"]: each["behind"] for each in json.loads(said)}
    assert listed["0_0"]["inputs"] == {f"{words}-0": {"snapshot": 1, "committed": 3}}
    assert [listed[task]["records"] for task in sorted(listed)] == [2, 0, 0]
    assert warning.startswith("store counts: snapshots of 1 of 3 tasks do not have all that is committed: task 0_0: ")
    assert re.search(
        rf"snapshot \d+ of \S+ stands at offset 1 of {words}-0, and the group at 3; at offset \d+ of the changelog of "
        r"counts, which goes on to \d+",
        warning,
    )
    for refused in ({"behind": "refuse"}, {"behind": "refuse", "partitions": "3"}):
        with pytest.raises(StreamsError, match=r"1 of 3 tasks do not have all .*option"):
            planned(app, **refused)
    caplog.clear()
    planned(app, behind="ignore", partitions="3")
    assert "do not have all that is committed" not in caplog.text
    assert instance.close(30)
    assert planned(app, behind="refuse") == ["0_0", "0_1", "0_2"]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"behind": "never"}, "option 'behind': expected 'warn', 'refuse' or 'ignore', got 'never'"),
        ({"behind": "warn", "asOf": "3"}, "option 'behind': 'asOf' asks for snapshots of the past"),
    ],
)
def test_the_option_has_three_values_and_no_past(instances: Instances, options: Any, fault: str) -> None:
    app = App(instances, instances.kafka.unique("odd"), PROGRAM.replace("{words}", "words"))
    with pytest.raises(ConfigError, match=re.escape(fault)):
        planned(app, **options)

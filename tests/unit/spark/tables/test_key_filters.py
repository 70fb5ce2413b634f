"""A filter on keys is as good as the option ``keys``, where Spark asks for filters."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from stored_apps import StoredApp
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.state.api import ValueAndTimestamp
from streamsapp_spark.datasource import StreamsAppDataSource
from streamsapp_spark.tables import key_filters

pytestmark = pytest.mark.skipif(not hasattr(datasource, "EqualTo"), reason="Spark 4.0 has no filters")

CODE = """
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()

def topology():
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(TEXT, TEXT))
    words.group_by(lambda key, value: value, Grouped(TEXT, TEXT)).count(
        Materialized("counts", key_serde=TEXT, value_serde=LONG))
    words.group_by(lambda key, value: 0.5, Grouped(Serdes.double(), TEXT)).count(
        Materialized("halves", key_serde=Serdes.double(), value_serde=LONG))
    return builder.build()
"""

PARTITIONS = 4
WORDS = [f"w{number}" for number in range(20)]


@pytest.fixture
def stored(tmp_path: Path) -> StoredApp:
    app = StoredApp(tmp_path / "app", CODE)
    part = app.app.part_with("counts").id
    for partition in range(PARTITIONS):
        mine = [word for word in WORDS if partition_for(word.encode(), PARTITIONS) == partition]
        app.snapshot(f"{part}_{partition}", 1_000, {"counts": [(word, ValueAndTimestamp(1, 5)) for word in mine]})
    return app


def reader(app: StoredApp, key: pa.DataType, **options: str) -> DataSourceReader:
    source = StreamsAppDataSource({"manifest": str(app.manifest), "partitions": str(PARTITIONS), **options})
    source.schema()
    columns = [("key", key), ("value", pa.int64()), ("timestamp", pa.int64()), ("task", pa.string())]
    schema = from_arrow_schema(pa.schema([*columns, ("offset", pa.int64())]))
    assert isinstance(schema, StructType)
    return source.reader(schema)


def read(of: DataSourceReader) -> tuple[int, set[str]]:
    """Returns how many tasks are read, and the keys."""
    partitions = of.partitions()
    batches: list[Any] = [batch for partition in partitions for batch in of.read(partition)]
    return len(partitions), {row["key"] for batch in batches for row in batch.to_pylist()}


def made(name: str, *arguments: Any) -> Any:
    """Returns a filter of Spark's."""
    return getattr(datasource, name)(*arguments)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark does."""
    monkeypatch.setitem(sys.modules, key_filters._ASKS, ModuleType("asks"))


def test_spark_finds_a_reader_without_filters_where_it_does_not_ask(stored: StoredApp) -> None:
    found = reader(stored, pa.string(), store="counts")
    assert type(found).pushFilters is DataSourceReader.pushFilters
    assert read(found) == (PARTITIONS, set(WORDS))


@pytest.mark.parametrize(
    ("given", "keys"),
    [(("EqualTo", ("key",), "w0"), {"w0"}), (("In", ("key",), ("w0", "w1", "none")), {"w0", "w1"})],
)
def test_keys_that_a_filter_names_are_read_from_the_tasks_that_can_have_them(
    given: tuple[Any, ...], keys: set[str], stored: StoredApp, asked: None
) -> None:
    found, wanted = reader(stored, pa.string(), store="counts"), made(*given)
    others = [made("GreaterThan", ("value",), 0), made("EqualTo", ("key",), "w2")]
    assert list(found.pushFilters([others[0], wanted, others[1]])) == others, "the rest is left to Spark"
    named = given[2] if isinstance(given[2], tuple) else (given[2],)
    assert read(found) == (len({partition_for(key.encode(), PARTITIONS) for key in named}), keys)


@pytest.mark.parametrize(
    "given",
    [
        ("GreaterThan", ("key",), "w0"),
        ("EqualTo", ("value",), 1),
        ("EqualTo", ("key", "name"), "w0"),
        ("EqualTo", ("key",), 1),
        ("In", ("key",), ("w0", None)),
        ("Not", ("EqualTo", ("key",), "w0")),
    ],
    ids=str,
)
def test_other_filters_are_left_to_spark(given: tuple[Any, ...], stored: StoredApp, asked: None) -> None:
    found = reader(stored, pa.string(), store="counts")
    filters = [made("Not", made(*given[1])) if given[0] == "Not" else made(*given)]
    assert list(found.pushFilters(filters)) == filters
    assert read(found) == (PARTITIONS, set(WORDS))


def test_a_filter_beside_the_option_and_one_of_fractions_are_left_to_spark(stored: StoredApp, asked: None) -> None:
    for found, value in (
        (reader(stored, pa.string(), store="counts", keys='["w0"]'), "w1"),
        (reader(stored, pa.float64(), store="halves"), 0.5),
    ):
        filters = [made("EqualTo", ("key",), value)]
        assert list(found.pushFilters(filters)) == filters

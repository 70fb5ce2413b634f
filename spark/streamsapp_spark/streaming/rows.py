"""The rows of the query, as Spark counts and observes them: one for each record. In Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from streamsapp_spark.streaming.job import FIGURES

SCHEMA = pa.schema([("report", pa.list_(pa.int64()))])


def rows(figures: dict[str, int]) -> Iterator[pa.RecordBatch]:
    """A row for each record; the first says what was done, the others nothing."""
    records = figures["records"]
    if records:
        of_type = SCHEMA.field("report").type
        done = pa.array([[figures[name] for name in FIGURES]], of_type)
        column = pa.concat_arrays([done, pa.nulls(records - 1, of_type)])
        yield pa.RecordBatch.from_arrays([column], schema=SCHEMA)

"""Filters of a query on the key: only these keys are read, from the tasks that can have them. Called by Spark in a
process of its own on the driver's machine.

Spark asks what filters a reader takes where ``spark.sql.python.filterPushdown.enabled`` is set. Where it is not, Spark
refuses a reader that could say so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamsapp_spark.tables.snapshot_reader import SnapshotReader
from streamsapp_spark.tables.types.column import TypedColumn

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

#: Spark's module that runs in the process in which it asks.
_ASKS = "pyspark.sql.worker.data_source_pushdown_filters"
_COLUMN = ("key",)


def asks_for_filters() -> bool:
    """Says if Spark asks, in this process, what filters a reader takes."""
    return _ASKS in sys.modules


class KeyFilteringReader(SnapshotReader):
    """Takes one filter that names keys, if no option has named them; Spark applies the others."""

    def pushFilters(self, filters: Iterable[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Yields the filters that are left to Spark."""
        for each in filters:
            keys = keys_of(each, self._table.columns.key_column) if self._table.keys is None else None
            if keys is None:
                yield each
            else:
                self._table = replace(self._table, keys=keys)


def keys_of(given: Filter, column: TypedColumn) -> frozenset[Any] | None:
    """Returns the keys that a filter lets pass; ``None`` for one that names none, or none that equal the column's as
    they do in Spark: numbers with a fraction, say."""
    from pyspark.sql.datasource import EqualTo, In  # late: Spark 4.0 has none, and never asks

    values = (given.value,) if isinstance(given, EqualTo) else given.value if isinstance(given, In) else ()
    kind = str if pa.types.is_string(column.arrow) else int if pa.types.is_integer(column.arrow) else None
    if not values or getattr(given, "attribute", None) != _COLUMN or any(type(value) is not kind for value in values):
        return None
    return frozenset(values)

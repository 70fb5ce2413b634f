"""The columns of a store as Spark has them, and their values as Arrow. Pure; used on the driver and in Spark's Python
workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import StructType

from streamsapp.errors import ConfigError, StreamsError
from streamsapp.serdes.json_text import write_shown
from streamsapp_spark.tables.json_schema import fault_in, refuse_types

_BATCH = 10_000

#: Of the serdes whose values Spark has a type for.
TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bytes": pa.binary(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}


@dataclass(frozen=True)
class StoreColumns:
    """The columns of one store."""

    store: str
    #: Names of serdes.
    key_kind: str
    value_kind: str
    #: Says whether its keys have windows.
    windowed: bool
    #: Says whether it keeps versions.
    versioned: bool
    #: Says whether rows are the changes between two snapshots.
    changes: bool = False
    #: The fields of its JSON values, as Spark's SQL writes columns; ``None`` leaves JSON as text.
    fields: str | None = None

    def __post_init__(self) -> None:
        if self.fields is not None and self.value_kind != "json":
            raise ConfigError(
                f"option 'schema': the values of store {self.store} are {self.value_kind}, not JSON; leave it out"
            )
        if self.changes and self.versioned:
            raise ConfigError(
                f"option 'changes': store {self.store} keeps versions, which show changes themselves; read it with "
                "'asOf' at both times"
            )

    @property
    def names(self) -> list[str]:
        """Returns the names of all columns, in order."""
        window = ["window_start", "window_end"] if self.windowed else []
        values = ["change", "old_value", "new_value"] if self.changes else ["value"]
        return ["key", *window, *values, "valid_from" if self.versioned else "timestamp", "task", "offset"]

    @property
    def ddl(self) -> str:
        """Returns the columns as Spark's SQL writes them: what ``fields`` means is for Spark to read."""
        key, value = (self._sql_type(TYPES.get(kind, pa.string())) for kind in (self.key_kind, self.value_kind))
        values = value if self.fields is None else f"struct<{self.fields}>"
        known = {"key": key, "value": values, "old_value": values, "new_value": values}
        known |= {"change": "string", "task": "string"}
        return ", ".join(f"`{name}` {known.get(name, 'bigint')}" for name in self.names)

    @staticmethod
    def _sql_type(kind: pa.DataType) -> str:
        found: str = from_arrow_schema(pa.schema([("it", kind)])).fields[0].dataType.simpleString()
        return found

    def arrow(self, schema: StructType) -> pa.Schema:
        """Returns the schema that Spark made of :attr:`ddl`, as Arrow's. Raises ``ConfigError`` for fields that no JSON
        value could have."""
        found = pa.schema([(field.name, to_arrow_type(field.dataType)) for field in schema.fields])
        if found.names != self.names:
            raise ConfigError(
                f"the columns of store {self.store} are {', '.join(self.names)}; give the types of JSON values with "
                "option 'schema'"
            )
        if self.fields is not None:
            for name in {"value", "old_value", "new_value"}.intersection(found.names):
                refuse_types(found.field(name).type, name)
        return found

    def key(self, key: Any) -> Any:
        """Returns a key as its column has it."""
        return _plain(key, self.key_kind)

    def value(self, value: Any) -> Any:
        """Returns a value as its column has it."""
        return value if self.fields is not None else _plain(value, self.value_kind)


def _plain(value: Any, kind: str) -> Any:
    if value is None or kind in TYPES:
        return value
    return write_shown(value).decode() if kind == "json" else str(value)


def arrow_batches(rows: Iterable[tuple[Any, ...]], schema: pa.Schema, task: str) -> Iterator[pa.RecordBatch]:
    """Yields rows as Spark takes them. Raises ``StreamsError`` for a value that does not fit, naming its row."""
    typed = [number for number, field in enumerate(schema) if pa.types.is_struct(field.type)]
    rows = iter(rows)
    while chunk := list(islice(rows, _BATCH)):
        for row in chunk if typed else ():
            _check(row, typed, schema, task)
        columns = zip(*chunk, strict=True)
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _check(row: tuple[Any, ...], typed: list[int], schema: pa.Schema, task: str) -> None:
    for number in typed:
        fault = fault_in(row[number], schema.field(number).type, schema.field(number).name)
        if fault is not None:
            raise StreamsError(f"option 'schema': task {task}, key {row[0]!r}: {fault}")

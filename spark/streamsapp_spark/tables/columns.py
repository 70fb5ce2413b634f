"""The columns of a store as Spark has them, and their values as Arrow. Pure; used on the driver and in Spark's Python
workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from streamsapp.errors import ConfigError, StreamsError
from streamsapp_spark.tables.json_schema import fault_in, refuse_types
from streamsapp_spark.tables.types.column import TypedColumn
from streamsapp_spark.tables.types.parts import quoted, sql_type

_BATCH = 10_000
#: Raised for a value that is not of a column's type.
_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)


@dataclass(frozen=True)
class StoreColumns:
    """The columns of one store."""

    store: str
    key_column: TypedColumn
    value_column: TypedColumn
    #: Says whether its keys have windows.
    windowed: bool
    #: Says whether it keeps versions.
    versioned: bool
    #: Says whether rows are the changes between two snapshots.
    changes: bool = False
    #: The fields of its JSON values, as Spark's SQL writes columns; ``None`` leaves JSON as text.
    fields: str | None = None

    def __post_init__(self) -> None:
        kind = self.value_column.kind
        if self.fields is not None and kind != "json":
            raise ConfigError(f"option 'schema': the values of store {self.store} are {kind}, not JSON; leave it out")
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
    def given(self) -> list[int]:
        """Returns the places of the columns whose types the user named."""
        values = ("value", "old_value", "new_value")
        return [] if self.fields is None else [at for at, name in enumerate(self.names) if name in values]

    def ddl(self, comment: str = "") -> str:
        """Returns the columns as Spark's SQL writes them, with a ``comment`` behind the first: what ``fields`` means is
        for Spark to read."""
        known = {name: sql_type(kind) for name, kind in self._types.items()}
        known["key"] += comment
        if self.fields is not None:
            known |= {self.names[place]: f"struct<{self.fields}>" for place in self.given}
        return ", ".join(f"{quoted(name)} {known[name]}" for name in self.names)

    @property
    def _types(self) -> dict[str, pa.DataType]:
        """Returns the types of all columns that ``fields`` does not name."""
        key, value = self.key_column.arrow, self.value_column.arrow
        known = {"key": key, "value": value, "old_value": value, "new_value": value}
        known |= {"change": pa.string(), "task": pa.string()}
        return {name: known.get(name, pa.int64()) for name in self.names}

    def arrow(self, schema: StructType) -> pa.Schema:
        """Returns the schema that Spark made of :attr:`ddl`, as Arrow's. Raises ``ConfigError`` for fields that no JSON
        value could have."""
        found = pa.schema([(field.name, to_arrow_type(field.dataType)) for field in schema.fields])
        for place in self.given if found.names == self.names else ():
            refuse_types(found.field(place).type, found.names[place])
        ours = self._types | {self.names[place]: found.field(place).type for place in self.given if place < len(found)}
        if [(each.name, sql_type(each.type)) for each in found] != [
            (name, sql_type(ours[name])) for name in self.names
        ]:
            raise ConfigError(
                f"the columns of store {self.store} are {self.ddl()}, and these are {schema.simpleString()}: leave the "
                "schema to the source, give the types of JSON values with option 'schema', and make a table of a "
                "catalog anew (CREATE OR REPLACE TABLE) if the application has changed, or for option 'changes'"
            )
        return found

    def key(self, key: Any) -> Any:
        """Returns a key as its column has it."""
        return self.key_column.converted(key)

    def value(self, value: Any) -> Any:
        """Returns a value as its column has it."""
        return value if self.fields is not None else self.value_column.converted(value)


def arrow_batches(
    rows: Iterable[tuple[Any, ...]], schema: pa.Schema, task: str, columns: StoreColumns
) -> Iterator[pa.RecordBatch]:
    """Yields rows as Spark takes them. Raises ``StreamsError`` for a value that does not fit, naming its row."""
    rows = iter(rows)
    given = columns.given
    while chunk := list(islice(rows, _BATCH)):
        for row in chunk if given else ():
            _check(row, given, schema, task)
        yield _batch(chunk, schema, task)


def _batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema, task: str) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [_array(rows, list(each), field, task) for each, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(rows: Sequence[tuple[Any, ...]], values: list[Any], field: pa.Field, task: str) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except _UNFIT:
        for row, value in zip(rows, values, strict=True):
            _try(row, value, field, task)
        raise


def _try(row: tuple[Any, ...], value: Any, field: pa.Field, task: str) -> None:
    try:
        pa.array([value], field.type)
    except _UNFIT as error:
        raise StreamsError(
            f"task {task}, key {row[0]!r}: {field.name} is {value!r:.100}, and its column, by its serde, "
            f"{sql_type(field.type):.100}: {error}"
        ) from error


def _check(row: tuple[Any, ...], typed: list[int], schema: pa.Schema, task: str) -> None:
    for number in typed:
        fault = fault_in(row[number], schema.field(number).type, schema.field(number).name)
        if fault is not None:
            raise StreamsError(f"option 'schema': task {task}, key {row[0]!r}: {fault}")

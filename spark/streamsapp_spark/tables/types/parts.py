"""The type of a column, part by part: what Arrow has for it, and how a plain Python value becomes one of it.

Made on the driver and in Spark's Python workers, of serdes; pure, and plain data that Spark sends along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import types
from pyspark.sql.pandas.types import from_arrow_type

from streamsapp.serdes.json_text import write_shown

#: Times as Spark has them: with a zone, and without.
INSTANT, LOCAL_TIME = pa.timestamp("us", "UTC"), pa.timestamp("us")


class Part(Protocol):
    """A column's type, or the type of a field, an item or a map's value in it."""

    @property
    def arrow(self) -> pa.DataType: ...

    def converted(self, value: Any) -> Any:
        """Returns a value that is not ``None`` as ``pa.array`` takes it. Raises ``ValueError`` if it has another
        shape."""
        ...


@dataclass(frozen=True)
class Scalar:
    """A value that Arrow takes as it is."""

    arrow: pa.DataType

    def converted(self, value: Any) -> Any:
        return value


@dataclass(frozen=True)
class Text:
    """A value that is shown as Python prints it; text is itself."""

    @property
    def arrow(self) -> pa.DataType:
        return pa.string()

    def converted(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True)
class JsonText:
    """A value of which no type is known, as JSON."""

    @property
    def arrow(self) -> pa.DataType:
        return pa.string()

    def converted(self, value: Any) -> str:
        return write_shown(value, str).decode()


@dataclass(frozen=True)
class Struct:
    """A mapping with known fields; one that is not there is null."""

    fields: tuple[tuple[str, Part], ...]

    @property
    def arrow(self) -> pa.DataType:
        return pa.struct([(name, part.arrow) for name, part in self.fields])

    def converted(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError(
                f"{value!r:.60} has no fields, and the type has {', '.join(name for name, _ in self.fields)}"
            )
        return {name: None if (of := value.get(name)) is None else part.converted(of) for name, part in self.fields}


@dataclass(frozen=True)
class Items:
    """A list."""

    of: Part

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(self.of.arrow)

    def converted(self, value: Any) -> list[Any]:
        return [None if each is None else self.of.converted(each) for each in value]


@dataclass(frozen=True)
class Entries:
    """A map; keys are never null."""

    key: Part
    of: Part

    @property
    def arrow(self) -> pa.DataType:
        return pa.map_(self.key.arrow, self.of.arrow)

    def converted(self, value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, Mapping):
            raise ValueError(f"{value!r:.60} is no map")
        return [
            (self.key.converted(key), None if each is None else self.of.converted(each)) for key, each in value.items()
        ]


def ddl(schema: pa.Schema) -> str:
    """Returns columns as Spark's SQL declares them."""
    return ", ".join(f"{quoted(field.name)} {sql_type(field.type)}" for field in schema)


def sql_type(kind: pa.DataType) -> str:
    """Returns a type as Spark's SQL writes it, with names that need no escape and times that no setting changes."""
    if types.is_struct(kind):
        return f"struct<{', '.join(f'{quoted(field.name)}: {sql_type(field.type)}' for field in kind)}>"
    if types.is_list(kind):
        return f"array<{sql_type(kind.value_type)}>"
    if types.is_map(kind):
        return f"map<{sql_type(kind.key_type)}, {sql_type(kind.item_type)}>"
    if types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp_ltz"
    return str(from_arrow_type(kind).simpleString())


def quoted(name: str) -> str:
    """Returns a name as Spark's SQL writes it."""
    return f"`{name.replace('`', '``')}`"

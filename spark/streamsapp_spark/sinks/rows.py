"""The records of a topic as rows with the types of its serdes. Columns are made on the driver; rows in Spark's Python
workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from streamsapp.errors import StreamsError
from streamsapp.record import InputRecord
from streamsapp.topology.builder import Topology
from streamsapp_spark.dataframes.results import SCHEMA
from streamsapp_spark.dataframes.typed_results import TypedSide, sides_of
from streamsapp_spark.tables.types.parts import ddl, sql_type

_TIME, _HEADERS = SCHEMA.field("timestamp").type, SCHEMA.field("headers").type
_REMEDY = (
    "only the application should write to the topic of a sink; give the sink another topic and another path, and have "
    "the application write there"
)


class TopicRows:
    """The rows of one topic."""

    def __init__(self, topology: Topology, topic: str) -> None:
        """Raises ``ConfigError`` for a topic that the topology does not write."""
        self._sides = sides_of(topology, topic)
        typed = [(side.name, side.column.arrow) for side in self._sides]
        placed = [("timestamp", _TIME), ("partition", pa.int32()), ("offset", pa.int64()), ("headers", _HEADERS)]
        self.schema = pa.schema([*typed, *placed])

    @property
    def ddl(self) -> str:
        """Returns the columns as Spark's SQL writes them."""
        return ddl(self.schema)

    def batch(self, records: Sequence[InputRecord]) -> pa.RecordBatch:
        """Returns rows of these records. Raises ``StreamsError``, which names the record, for one that the serdes
        cannot read."""
        key, value = self._sides
        times = pa.array([each.timestamp()[1] for each in records], pa.timestamp("ms", "UTC"))
        return pa.RecordBatch.from_arrays(
            [
                self._typed(key, [each.key() for each in records], records),
                self._typed(value, [each.value() for each in records], records),
                times.cast(_TIME),
                pa.array([each.partition() for each in records], pa.int32()),
                pa.array([each.offset() for each in records], pa.int64()),
                pa.array([_headers(each) for each in records], _HEADERS),
            ],
            schema=self.schema,
        )

    @staticmethod
    def _typed(side: TypedSide, data: Sequence[bytes | None], records: Sequence[InputRecord]) -> pa.Array:
        try:
            return pa.array([side.value(each) for each in data], side.column.arrow)
        except Exception:  # a serde of the user's may raise anything
            for each, record in zip(data, records, strict=True):
                _try(side, each, record)
            raise


def _try(side: TypedSide, data: bytes | None, record: InputRecord) -> None:
    try:
        pa.array([side.value(data)], side.column.arrow)
    except Exception as error:
        where = f"{record.topic()}-{record.partition()}@{record.offset()}"
        raise StreamsError(
            f"record {where}: its {side.name} does not fit the column, {sql_type(side.column.arrow):.200}: {error}; "
            f"{_REMEDY}"
        ) from error


def _headers(record: InputRecord) -> list[dict[str, Any]] | None:
    headers = record.headers()
    return [{"key": name, "value": value} for name, value in headers] if headers else None

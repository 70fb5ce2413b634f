"""The results of one topic with the types of its serdes, for steps of a pipeline that go on with them.

Called on the driver, by the user's program; values are read in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, functions

from streamsapp.config import StreamsConfig
from streamsapp.errors import ConfigError, StreamsError
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.serdes import Serdes
from streamsapp.topology.builder import Topology
from streamsapp.topology.written_topics import written_topics
from streamsapp_spark.dataframes.results import SCHEMA
from streamsapp_spark.programs.shipped import PickledProgram
from streamsapp_spark.tables.types.column import TypedColumn
from streamsapp_spark.tables.types.parts import ddl, sql_type

#: Required of a configuration, and asked for nothing.
_CONFIG = StreamsConfig(application_id="typed-results", bootstrap_servers="none:9092")


def typed_results(topology: Topology, results: DataFrame, topic: str) -> DataFrame:
    """Returns the rows of one topic in what ``run_topology`` returns, or in a batch of it, with the columns ``key`` and
    ``value`` of the types that the topic's serdes say, then ``partition``, ``timestamp`` and ``headers``. A value that
    the topology wrote without a serde stays bytes.

    Raises ``ConfigError`` for a topic that the topology does not write under a name of its own.
    """
    fields = _fields(topology, topic)
    run = _Typed(PickledProgram.of(topology, _CONFIG), topic)
    return results.filter(functions.col("topic") == topic).mapInArrow(run, ddl(fields))


@dataclass(frozen=True)
class _Typed:
    """The function for ``mapInArrow``."""

    program: PickledProgram
    topic: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return typed(self.program, self.topic, batches)


class TypedSide(NamedTuple):
    """The keys or the values of a topic."""

    name: str
    column: TypedColumn
    read: Callable[[bytes], Any]

    def value(self, data: bytes | None) -> Any:
        """Returns what the column has for these bytes. Raises what the serde does."""
        return None if data is None else self.column.converted(self.read(data))

    def array(self, data: pa.Array, topic: str) -> pa.Array:
        """Returns the column. Raises ``StreamsError`` for a value that it cannot have."""
        try:
            return pa.array(map(self.value, data.to_pylist()), self.column.arrow)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise StreamsError(
                f"a {self.name} of topic {topic} is nothing that its column, {sql_type(self.column.arrow):.200}, can "
                f"have: {error}; take the bytes of the results themselves"
            ) from error


def typed(program: PickledProgram, topic: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the results of the topic with its types. Raises ``StreamsError`` for a value that its column cannot
    have."""
    sides, fields = _read(program, topic)
    for batch in batches:
        arrays = [side.array(batch.column(side.name), topic) for side in sides]
        arrays += [batch.column(field.name) for field in fields if field.name in _REST]
        yield pa.RecordBatch.from_arrays(arrays, schema=fields)


_REST = ("partition", "timestamp", "headers")


@lru_cache(maxsize=16)
def _read(program: PickledProgram, topic: str) -> tuple[tuple[TypedSide, ...], pa.Schema]:
    topology, _ = program.load()
    return sides_of(topology, topic), _fields(topology, topic)


def _fields(topology: Topology, topic: str) -> pa.Schema:
    ours = [(side.name, side.column.arrow) for side in sides_of(topology, topic)]
    return pa.schema([*ours, *((name, SCHEMA.field(name).type) for name in _REST)])


def sides_of(topology: Topology, topic: str) -> tuple[TypedSide, ...]:
    """Returns ``key`` and ``value``. Raises ``ConfigError`` for a topic that the topology does not write under a name
    of its own."""
    return tuple(
        TypedSide(name, TypedColumn.of(serde), serde.bind(topic, is_key=name == "key").deserialize)
        for name, serde in _serdes(topology, topic).items()
    )


def _serdes(topology: Topology, topic: str) -> dict[str, AnySerde]:
    sinks = written_topics(topology)
    if topic not in sinks:
        raise ConfigError(
            f"topic: the topology writes no topic {topic!r}; it writes: {', '.join(sorted(sinks)) or 'none'}"
        )
    return {"key": sinks[topic].key_serde or Serdes.bytes(), "value": sinks[topic].value_serde or Serdes.bytes()}

"""The rows of a table as the entries of a store. Used in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from streamsapp.clock import SystemClock
from streamsapp.errors import StreamsError
from streamsapp.serdes.json_text import read_json
from streamsapp.serdes.murmur2 import partition_for
from streamsapp_spark.replay.job import Application
from streamsapp_spark.tables.types.column import TYPES

#: Key, value, timestamp in milliseconds.
SeededEntry: TypeAlias = tuple[bytes, bytes, int]


class SeededStore:
    """The store that is seeded, as far as rows become its entries."""

    def __init__(self, app: Application, store: str) -> None:
        plans = [plan for plan in app.layout.plans.values() if store in plan.changelogs]
        self._store, self._tasks = store, len(plans)
        builder = next(each for each in plans[0].sub_topology.stores if each.name == store)
        topic = plans[0].changelogs[store].topic
        key, value = (
            builder.key_serde or app.config.default_key_serde,
            builder.value_serde or app.config.default_value_serde,
        )
        self._kinds = key.name, value.name
        self._serializers = key.bind(topic, is_key=True).serialize, value.bind(topic, is_key=False).serialize
        self._now = SystemClock().now_ms()

    def entries(self, batch: pa.RecordBatch) -> Iterator[tuple[int, SeededEntry]]:
        """Yields partition and entry of each row."""
        names = ("key", "value", "timestamp", "partition")
        absent = [None] * batch.num_rows
        columns = [_plain(batch.column(each)) if each in batch.schema.names else absent for each in names]
        for key, value, time_ms, partition in zip(*columns, strict=True):
            if key is None or value is None or (time_ms is not None and time_ms < 0):
                wrong = "no key" if key is None else "no value" if value is None else f"the timestamp {time_ms}"
                raise StreamsError(f"store {self._store}: a row has {wrong} (its key: {key!r:.100}); leave it out")
            key_bytes, value_bytes = (self._serialized(each, number) for number, each in enumerate((key, value)))
            to = partition_for(key_bytes, self._tasks) if partition is None else partition
            if not 0 <= to < self._tasks:
                raise StreamsError(f"store {self._store}: a row has partition {to}, and there are {self._tasks}")
            yield to, (key_bytes, value_bytes, self._now if time_ms is None else time_ms)

    def _serialized(self, value: Any, number: int) -> bytes:
        kind = self._kinds[number]
        if kind not in TYPES and kind != "json":
            return bytes(value)
        try:
            return bytes(self._serializers[number](read_json(value) if kind == "json" else value))
        except Exception as error:
            raise StreamsError(
                f"store {self._store}: {value!r:.100} is nothing that {kind} can write: {error}"
            ) from error


def _plain(column: pa.Array) -> list[Any]:
    """The values of a column; timestamps in milliseconds."""
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    microseconds = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    return [None if each is None else each // 1000 for each in microseconds]

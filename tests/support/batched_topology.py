"""A topology run over the rows of batches as Spark runs it, without Spark: rows are placed and mixed as a shuffle does.

Called by the unit tests of the Spark part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from streamsapp import StreamsConfig, Topology
from streamsapp.config import RemoteStateConfig
from streamsapp_spark.dataframes.program import BoundProgram, bound_application
from streamsapp_spark.dataframes.results import results
from streamsapp_spark.dataframes.sources import BoundTopic, placed
from streamsapp_spark.dataframes.stage_task import BatchTask
from streamsapp_spark.replay.partitioning import repartition_keys
from streamsapp_spark.replay.stage_rows import SCHEMA

Row = Mapping[str, Any]

_SOURCE = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


class BatchedTopology:
    """One query, whose process may be another one in each batch."""

    def __init__(self, topology: Topology, partitions: Mapping[str, int], directory: Path, query: str = "q") -> None:
        config = StreamsConfig(
            application_id="app",
            bootstrap_servers="unused:9092",
            remote_state=RemoteStateConfig(url=(directory / "state").as_uri()),
        )
        (directory / "state").mkdir(exist_ok=True)
        self.program = BoundProgram.of(topology, config, partitions, 1)
        self.app = bound_application(self.program)
        self._partitions = partitions
        self._kept = directory / "kept"
        self._query = query

    def run(self, batch: int, inputs: Mapping[str, Sequence[Row]], seed: int = 0) -> list[dict[str, Any]]:
        """Returns the results of a batch; with another ``seed`` its rows come in another order and other pieces."""
        random = Random(seed)
        rows = [row for topic, records in inputs.items() for row in self._placed(topic, records, random)]
        for number, stage in enumerate(self.app.stages.in_order):
            groups = self.app.stages.groups(stage)
            places = {key: place for place, key in enumerate(repartition_keys(len(groups)))}
            parts: list[list[Row]] = [[] for _ in groups]
            for row in random.sample(rows, len(rows)):
                own = row["reader"] == stage[0]
                parts[places[row["repartition_key"]] if own else random.randrange(len(groups))].append(row)
            rows = [
                row
                for place, part in enumerate(parts)
                for found in self._task(batch, number, place).run(_pieces(part, SCHEMA, random))
                for row in found.to_pylist()
            ]
        return [
            row for found in results([pa.RecordBatch.from_pylist(rows, schema=SCHEMA)]) for row in found.to_pylist()
        ]

    def _task(self, batch: int, stage: int, partition: int) -> BatchTask:
        return BatchTask(self.program, stage, partition, batch, self._query, self._kept)

    def _placed(self, topic: str, records: Sequence[Row], random: Random) -> list[Row]:
        bound = BoundTopic.of(topic, self._partitions[topic], self.app.destinations)
        pieces = _pieces(random.sample(list(records), len(records)), _SOURCE, random)
        has_offsets = any("offset" in record for record in records)
        return [row for found in placed(bound, has_offsets, pieces) for row in found.to_pylist()]


def _pieces(rows: Sequence[Row], schema: pa.Schema, random: Random) -> list[pa.RecordBatch]:
    cut = random.randrange(len(rows) + 1)
    return [pa.RecordBatch.from_pylist(list(part), schema=schema) for part in (rows[:cut], rows[cut:])]

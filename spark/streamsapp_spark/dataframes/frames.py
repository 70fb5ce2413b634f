"""``run_topology``: a topology over streaming DataFrames, its results a streaming DataFrame.

Called on the driver, by the user's program. The plan is a chain: the rows of all bound topics, then one shuffle and one
pass of Python per stage, which runs the stage's tasks and lets rows for later stages through. So a batch computes every
task once, whatever the sink.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from streamsapp.config import RemoteStateConfig, StreamsConfig
from streamsapp.errors import ConfigError, TopologyError
from streamsapp.topology.builder import Topology
from streamsapp_spark.dataframes.program import BoundApplication, BoundProgram, bound_application
from streamsapp_spark.dataframes.results import SQL_SCHEMA as RESULT_SCHEMA, results
from streamsapp_spark.dataframes.sources import BoundTopic, check_bound
from streamsapp_spark.dataframes.stage_task import BatchTask
from streamsapp_spark.replay.stage_rows import SQL_SCHEMA

_PARTITIONS = 4
#: Required of a configuration, and asked for nothing: no client is made.
_NO_KAFKA = "none:9092"


def run_topology(
    topology: Topology,
    inputs: Mapping[str, DataFrame],
    *,
    application_id: str,
    state: str | RemoteStateConfig,
    partitions: int | Mapping[str, int] = _PARTITIONS,
    **settings: Any,
) -> DataFrame:
    """Returns the results of a topology as a streaming DataFrame with the columns ``topic``, ``partition`` (null unless
    the topology chooses one), ``key``, ``value``, ``timestamp`` and ``headers``.

    Each topic that the topology reads is bound in ``inputs`` to a streaming DataFrame with the columns ``key``,
    ``value`` (string or binary), ``timestamp`` (a timestamp, or milliseconds), and perhaps ``headers``, ``partition``
    and ``offset``. Topics have so many ``partitions``, all the same number or each its own (others: 4); the number is
    that of tasks, and fixed once a query was started.

    ``state`` is the URL of a folder for the state that all executors reach, ``file:///...`` or ``s3://bucket/prefix``;
    each query that is started on the DataFrame has a folder of its own there, by Spark's id of the query. ``settings``
    are other fields of :class:`~streamsapp.config.StreamsConfig`.

    Raises ``ConfigError``, ``TopologyError`` or ``MissingTopicError`` for what cannot be run so.
    """
    remote = RemoteStateConfig(url=state) if isinstance(state, str) else state
    config = StreamsConfig(application_id=application_id, bootstrap_servers=_NO_KAFKA, remote_state=remote, **settings)
    for topic, frame in inputs.items():
        check_bound(topic, frame)
    counts, others = _counts(inputs, partitions)
    program = BoundProgram.of(topology, config, counts, others)
    app = bound_application(program)
    _check_topics(app, inputs)
    app.objects.probe()
    bound = [BoundTopic.of(topic, counts[topic], app.destinations).rows(frame) for topic, frame in inputs.items()]
    rows = reduce(DataFrame.union, bound)
    *stages, last = app.stages.in_order
    for number, stage in enumerate(stages):
        shuffled = rows.repartition(len(app.stages.groups(stage)), "repartition_key")
        rows = shuffled.mapInArrow(_StageRun(program, number), SQL_SCHEMA)
    shuffled = rows.repartition(len(app.stages.groups(last)), "repartition_key")
    return shuffled.mapInArrow(_LastRun(program, len(stages)), RESULT_SCHEMA)


def _counts(inputs: Mapping[str, DataFrame], partitions: int | Mapping[str, int]) -> tuple[dict[str, int], int]:
    given = {} if isinstance(partitions, int) else dict(partitions)
    others = partitions if isinstance(partitions, int) else _PARTITIONS
    for topic, count in {**given, "": others}.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ConfigError(f"partitions: {topic or 'all topics'}: expected a number from 1 on, got {count!r}")
    return {**dict.fromkeys(inputs, others), **given}, others


def _check_topics(app: BoundApplication, inputs: Mapping[str, DataFrame]) -> None:
    for topic in sorted(inputs.keys() - app.layout.sources.keys()):
        reads = ", ".join(sorted(app.layout.sources)) or "none"
        raise ConfigError(f"inputs: the topology reads no topic {topic!r}; it reads: {reads}")
    for topic in sorted(app.stages.fed_back):
        raise TopologyError(
            f"topic {topic} is written and read by this topology, and what it writes goes to the sink; use "
            "repartition() between the two"
        )


@dataclass(frozen=True)
class _StageRun:
    """The function for ``mapInArrow`` of one stage."""

    program: BoundProgram
    stage: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return BatchTask.current(self.program, self.stage).run(batches)


class _LastRun(_StageRun):
    """The function of the last one."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return results(super().__call__(batches))

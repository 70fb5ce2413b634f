"""A topology replayed sub-topology after sub-topology, as a bootstrap does it, without Spark and without a broker.

Called by the unit tests of the Spark part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from store_entries import entries
from streamsapp import StreamsConfig, TaskId, TopicPartition, Topology
from streamsapp.clock import SystemClock
from streamsapp.outgoing import OutputRecord
from streamsapp.record import RawRecord
from streamsapp.runtime.application_layout import lay_out
from streamsapp.runtime.global_stores.task import GlobalTask
from streamsapp.state.engine.resources import StateResources
from streamsapp.tasks.task_plan import TaskPlan
from streamsapp.tasks.time_markers import TimeMarker
from streamsapp_spark.history.stage_frames import spark_partitions_of
from streamsapp_spark.replay.loop import group_advances
from streamsapp_spark.replay.pruning import without_external_sinks
from streamsapp_spark.replay.replay import RecordedMarkers, Replay
from streamsapp_spark.replay.stage_rows import ORDER, SCHEMA, InputRows, OutputRows, task_row
from streamsapp_spark.replay.stages import Stages
from streamsapp_spark.replay.task_inputs import from_rows

Records = Mapping[TopicPartition, Sequence[RawRecord]]


class Staged:
    """The tasks of an application over all of their input."""

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        records: Records,
        partitions: Mapping[str, int],
        directory: Path,
        *,
        results: bool = True,
        markers: Mapping[TopicPartition, Sequence[TimeMarker]] | None = None,
    ) -> None:
        """Without ``results`` what is written to topics that are not internal is left out. ``markers`` are those that
        were recorded."""
        self._results = results
        self._markers = markers or {}
        self.config = config
        self.records = records
        self.layout, _ = lay_out(topology, config, partitions, str)
        self.stages = Stages(self.layout)
        self.directory = directory
        self.resources = StateResources(32 << 20, 8 << 20, 8 << 20, 8 << 20)
        self.topology = topology
        #: The records that were written to topics that are not internal, by topic, in each task's order.
        self.outputs: defaultdict[str, list[OutputRecord]] = defaultdict(list)
        #: Entries by store and task.
        self.stores: dict[tuple[str, TaskId], list[tuple[Any, Any]]] = {}
        self._rows: list[pa.RecordBatch] = []

    def run(self) -> None:
        task = GlobalTask(
            self.topology.global_stores(), self.config, SystemClock(), self.resources, self.directory / "global"
        )
        task.open()
        for partition, records in self.records.items():
            if partition.topic in task.by_topic and records:
                task.restore(partition, records)
        task.start()
        for stage in self.stages.in_order:
            for group in self.stages.groups(stage):
                self._run_group(group, dict(task.stores.for_tasks))
        task.close()

    def _run_group(self, group: tuple[TaskId, ...], shared: dict[str, Any]) -> None:
        plans, destinations = [self.layout.plans[each] for each in group], spark_partitions_of(self.stages)
        internal = self.layout.repartition_topics
        rows = InputRows(self._shuffled(group, destinations))
        assert rows.task() == group[0]
        inputs = from_rows(rows, sum(each.topic in internal for plan in plans for each in plan.inputs))
        for each in (each for plan in plans for each in plan.inputs if each in self.records):
            inputs[each] = iter([self.records[each]] if self.records[each] else [])
        with ExitStack() as stack:
            replays = {plan.id: stack.enter_context(self._replay(plan, shared)) for plan in plans}
            onward = {topic: plans[0].partition_count(topic) for topic in self.stages.onward(group)}
            rows_of = {task_id: OutputRows(task_id, onward, destinations) for task_id in group}
            for task_id, advance in group_advances(replays, self.stages.looped(group), inputs):
                self._rows += rows_of[task_id].batches(advance.outputs)
                for record in advance.outputs:
                    if record[0] not in internal:
                        self.outputs[record[0]].append(record)
            for out in rows_of.values():
                self._rows += out.rest()
            for plan in plans:
                for name, found in entries(replays[plan.id].stores.stores).items():
                    self.stores[name, plan.id] = found

    def _replay(self, plan: TaskPlan, shared: dict[str, Any]) -> Replay:
        if not self._results:
            internal = self.layout.repartition_topics
            needed = without_external_sinks(plan.sub_topology, lambda topic: plan.topic_name(topic) in internal)
            plan = replace(plan, sub_topology=needed)
        replay = Replay(plan, self.config, self.directory / str(plan.id), self.resources, shared)
        recorded = {each: RecordedMarkers(self._markers[each]) for each in plan.inputs if each in self._markers}
        replay.add_recorded(recorded)
        return replay

    def _shuffled(
        self, group: tuple[TaskId, ...], destinations: Mapping[TopicPartition, tuple[int, int]]
    ) -> Iterator[pa.RecordBatch]:
        """As Spark places and sorts them."""
        mine = {each for each, (_, reader) in destinations.items() if reader == group[0].subtopology}
        mine &= {each for task_id in group for each in self.layout.plans[task_id].inputs}
        first = task_row(group[0], 0)
        whole = [row for batch in self._rows for row in batch.to_pylist()]
        rows = [row for row in whole if TopicPartition(row["topic"], row["partition"]) in mine]
        rows.sort(key=lambda row: tuple(row[name] for name in ORDER))
        rows.insert(0, dict(zip(SCHEMA.names, first, strict=True)))
        for start in range(0, len(rows), 7):  # batches end wherever they do
            yield pa.RecordBatch.from_pylist(rows[start : start + 7], schema=SCHEMA)

"""Processes each case on one thread, without a broker, while callgrind counts its instructions.

Started by ``instructions.py`` as ``counted_program.py REQUESTS INPUT``: a library made of ``callgrind_requests.c``, and
a file with the messages of each case. It runs the tasks that an instance runs, with stores on disk. The network is left
out: records come as they are fetched, and the results are dropped.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
from benchmarks.systems import streamsapp_app
from benchmarks.systems.job import Job

from streamsapp import StreamsConfig, TaskId, TopicPartition, Topology
from streamsapp.record import InputRecord
from streamsapp.state.engine.resources import StateResources
from streamsapp.tasks import stream_task
from streamsapp.tasks.assembly import TaskAssembly
from streamsapp.tasks.fed_records import fed_record
from streamsapp.tasks.record_queue import ProcessingControl
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.testing import MockClock
from streamsapp.topology.nodes import SubTopology

#: Messages that are processed at once, and from one commit to the next.
AT_ONCE, COMMIT = 500, 2000
#: A record without a time has one of these, in milliseconds since 1970.
_BEGIN = 1_700_000_000_000


#: Topic, key, value, and the time in milliseconds since 1970, if it has one.
Given: TypeAlias = tuple[str, bytes | None, bytes | None, int | None]


class CountedCase(NamedTuple):
    """A case, and its messages: some come before counting begins, the others are counted."""

    workload: str
    variant: str
    before: list[Given]
    counted: list[Given]


class Tasks:
    """One task of each sub-topology: what one of them sends into an internal topic goes to the task that reads it."""

    def __init__(self, topology: Topology, directory: Path) -> None:
        config = StreamsConfig(application_id="app", bootstrap_servers="none:9092", state_dir=directory)
        assembly = TaskAssembly(config, StateResources(), MockClock(_BEGIN))
        parts = topology.sub_topologies()
        self._internal = {each.name for part in parts for each in part.repartition_sources}
        self._tasks = [assembly.started(self._plan(part), directory / str(part.id)) for part in parts]
        self._readers = {each.topic: task for task in self._tasks for each in task.queues}
        self._offsets = dict.fromkeys(self._readers, 0)
        self._control = ProcessingControl()

    def _plan(self, part: SubTopology) -> Any:
        # The last release defines it there, too.
        return vars(stream_task)["TaskPlan"](
            id=TaskId(part.id, 0),
            sub_topology=part,
            inputs={TopicPartition(self._name(topic), 0): node for node in part.sources for topic in node.topics},
            changelogs={
                store.name: TopicPartition(f"app-{store.name}-changelog", 0)
                for store in part.stores
                if store.logging and store.changelog_topic is None
            },
            source_changelogs={
                store.name: TopicPartition(store.changelog_topic, 0)
                for store in part.stores
                if store.changelog_topic is not None
            },
            topic_name=self._name,
            partition_count=lambda topic: 1,
        )

    def _name(self, topic: str) -> str:
        return f"app-{topic}" if topic in self._internal else topic

    def record(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int | None) -> InputRecord:
        """Returns a record as it is fetched."""
        offset = self._offsets[topic]
        self._offsets[topic] += 1
        return fed_record(topic, 0, offset, key, value, _BEGIN + offset if timestamp is None else timestamp, None)

    def process(self, records: Sequence[InputRecord]) -> None:
        """Processes records, and commits now and then."""
        for start in range(0, len(records), AT_ONCE):
            self._feed(records[start : start + AT_ONCE])
            self._process_all()
            if start % COMMIT == COMMIT - AT_ONCE:
                self._commit()

    def _feed(self, records: Sequence[InputRecord]) -> None:
        by_topic: dict[str, list[InputRecord]] = {}
        for record in records:
            by_topic.setdefault(record.topic(), []).append(record)
        for topic, some in by_topic.items():
            self._readers[topic].add_records(TopicPartition(topic, 0), some)

    def _process_all(self) -> None:
        """Until no task has a record: two rounds, but where a table's update comes back."""
        while busy := [task for task in self._tasks if task.buffered_records]:
            for task in busy:
                for partition in task.queues:
                    task.reached_end(partition)
                while task.buffered_records:
                    task.process(self._control, AT_ONCE)
                self._send(task)

    def _send(self, task: StreamTask) -> None:
        internal = [
            self.record(topic, key, value, timestamp)
            for topic, value, key, _, _, _, timestamp, _ in task.take_output()
            if topic in self._readers
        ]
        self._feed(internal)

    def _commit(self) -> None:
        for task in self._tasks:
            task.emit_all_held()
            self._send(task)
            self._process_all()
        for task in self._tasks:
            epoch = task.freeze()
            if epoch is not None and epoch.frozen is not None:
                positions = dict.fromkeys(task.plan.changelogs, 0)
                for store, changes in epoch.frozen.changelogs():
                    for records in changes.records(*task.plan.changelogs[store], len(changes)):
                        positions[store] += len(records)
                for _ in task.stores.apply(epoch.frozen, positions):
                    pass


def main(requests: str, cases: str) -> None:
    """Counts each case, one after the other."""
    callgrind = ctypes.CDLL(requests)
    for case in msgspec.msgpack.decode(Path(cases).read_bytes(), type=list[CountedCase]):
        with tempfile.TemporaryDirectory() as directory:
            tasks = Tasks(_topology(case), Path(directory))
            tasks.process([tasks.record(*message) for message in case.before])
            counted = [tasks.record(*message) for message in case.counted]
            callgrind.begin_counting()
            tasks.process(counted)
            callgrind.end_counting(f"{case.workload} {case.variant}".encode())


def _topology(case: CountedCase) -> Topology:
    job = Job(case.workload, case.variant, "app", "none:9092", "input", "output", 0, "", {}, right="right")
    return streamsapp_app.topology(job)


if __name__ == "__main__":
    main(*sys.argv[1:])

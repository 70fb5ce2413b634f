"""Judges, prints and adds up the results that tasks of an audit report. Used on the driver's main thread."""

from __future__ import annotations

import sys

import msgspec
import orjson

from streamsapp.record import TaskId
from streamsapp_spark.audit.plan import AuditPlan
from streamsapp_spark.audit.task import Audited, Failed, Finding, Message, OffsetsUsed
from streamsapp_spark.replay.stages import Stage, Stages


class AuditReport:
    """The stores that were compared, the differences, and the tasks that could not be compared."""

    def __init__(self, plan: AuditPlan, stages: Stages, *, as_json: bool) -> None:
        self._plan = plan
        self._stages = stages
        self._json = as_json
        self._tasks: set[str] = set()
        self._stores: set[str] = set()
        self._keys = self._differences = 0
        self._failed: set[TaskId] = set()
        #: Repartition topics whose offsets a task's code asks for.
        self._observed: dict[TaskId, list[str]] = {}

    @property
    def is_good(self) -> bool:
        """Says whether everything was compared, and nothing differs."""
        return not (self._plan.faults or self._differences)

    def failed_above(self, stage: Stage) -> list[TaskId]:
        """Returns the tasks that failed and whose records a stage would need."""
        return sorted(each for each in self._failed if each.subtopology in self._stages.above(stage[0]))

    def skip(self, stage: Stage) -> None:
        """Skips a stage whose input is not complete, as tasks before it failed."""
        writers = ", ".join(map(str, self.failed_above(stage)))
        for task_id in sorted(each for each in self._plan.tasks if each.subtopology in stage):
            if str(task_id) in self._plan.snapshots:
                self._plan.faults.append(f"task {task_id}: it reads what task {writers} writes")

    def take(self, message: Message) -> None:
        """Takes a task's messages, in its order."""
        match message:
            case Failed():
                self._failed.add(TaskId.parse(message.task))
                self._plan.faults.append(message.error)
            case OffsetsUsed():
                self._observed[TaskId.parse(message.task)] = message.topics
            case Audited():
                self._add(message)
            case Finding():
                if not self._offsets_in(message.task):
                    self._print(message)

    def _offsets_in(self, task: str) -> list[str]:
        """Returns the repartition topics whose offsets may be in the state of a task: by its code, or that of those
        before."""
        task_id = TaskId.parse(task)
        above = self._stages.above(task_id.subtopology)
        found = (topics for each, topics in self._observed.items() if each == task_id or each.subtopology in above)
        return sorted({topic for topics in found for topic in topics})

    def _add(self, audited: Audited) -> None:
        self._tasks.add(audited.task)
        self._stores.add(audited.store)
        self._keys += audited.keys
        topics = self._offsets_in(audited.task)
        if not topics:
            self._differences += audited.differences
        elif audited.differences:
            self._plan.faults.append(
                f"task {audited.task}, store {audited.store}: {audited.differences:,} of {audited.keys:,} keys, which "
                f"differ; code asks for the offsets of {', '.join(topics)}, which no replay can repeat, so whether "
                "they are wrong cannot be told"
            )

    # ---- telling -----------------------------------------------------------------------------------------------

    def _print(self, finding: Finding) -> None:
        if self._json:
            _print_json(msgspec.to_builtins(finding))
            return
        inputs = ", ".join(f"{partition}@{offset}" for partition, offset in finding.inputs.items())
        print(
            f"task {finding.task}, store {finding.store}, key {finding.key}: expected {finding.expected}, "
            f"found {finding.found} (inputs {inputs}; changelog offset {finding.offset})"
        )

    def conclude(self, application_id: str) -> None:
        """Prints the summary."""
        plan = self._plan
        if self._json:
            counts = {"tasks": len(self._tasks), "keys": self._keys, "differences": self._differences}
            _print_json({"type": "summary", **counts, "faults": plan.faults, "notes": plan.notes})
            return
        for note in plan.notes:
            print(f"note: {note}")
        for fault in plan.faults:
            print(f"not compared: {fault}")
        verdict = f"{self._differences:,} differences" if self._differences else "no differences"
        stores = ", ".join(sorted(self._stores)) or "no store"
        print(f"{application_id}: {verdict} in {self._keys:,} keys of {stores}, {len(self._tasks)} tasks")


def _print_json(data: object) -> None:
    sys.stdout.write(orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE).decode())

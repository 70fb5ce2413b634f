"""Plans micro-batches: which tasks read how far. Pure; used by the driver, on one thread.

Tasks are divided into lanes. A lane is one transaction per batch, run by one process at a time: the broker fences the
process that ran it before. So a batch costs as many transactions as there are lanes, however many tasks take part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.micro_batches.model import InputTarget, LaneOrder, LaneTaskReport, TaskOrder

#: The part of the time between two batches that a batch may take: Spark needs some of it, too.
_PART = 0.8
#: Records of the first batch, and of any at least; what a batch may grow or shrink by.
_FIRST, _LEAST, _STEP = 20_000, 100, 2.0


class MicroBatchSize:
    """Records per batch: as many as are done by the time that the next batch is to begin, as the last ones show."""

    def __init__(self, most: int, target_seconds: float) -> None:
        """``most`` is never exceeded. ``target_seconds`` is the time between two batches; 0 if each begins when the
        one before has ended: then all have ``most``."""
        self._most = most
        self._seconds = target_seconds * _PART
        self.records = most if target_seconds == 0 else min(most, _FIRST)

    def took(self, records: int, seconds: float) -> None:
        """A batch of so many records took so long, without the restoring of tasks. It shrinks if that was too long, and
        grows if it was full and there was time left: by a factor of two at most, so that one pause changes little."""
        too_long, full = seconds > self._seconds, 2 * records > self.records
        if self._seconds == 0 or records == 0 or not (too_long or full):
            return
        fitting = self._seconds / max(seconds, 1e-3) * records
        bound = (
            max(self.records / _STEP, min(fitting, self.records)) if too_long else min(fitting, self.records * _STEP)
        )
        self.records = min(self._most, max(_LEAST, int(bound)))


def fair_parts(pending: Mapping[TopicPartition, int], most: int | None) -> dict[TopicPartition, int]:
    """Returns how many of the pending records of each partition are taken if there are ``most`` of all at most, and one
    of each partition at least: or a rare record would never be read beside a frequent one."""
    total = sum(pending.values())
    if most is None or total <= most:
        return dict(pending)
    return {each: min(count, max(1, count * most // total)) for each, count in pending.items()}


class MicroBatchPlanner:
    """Knows the tasks' positions, and plans the next batch from them."""

    def __init__(
        self,
        inputs: Mapping[TaskId, Collection[TopicPartition]],
        lanes: int,
        size: MicroBatchSize | None = None,
        *,
        opens: bool = False,
    ) -> None:
        """``inputs`` has every task of the application; ``size`` bounds a batch. Where the planner ``opens`` orders,
        each is of all tasks of its lane, whether they have anything to do or not."""
        self.opens = opens
        self._inputs = {task_id: tuple(partitions) for task_id, partitions in inputs.items()}
        #: Lane of each task, and how often that was changed.
        self.lane_of: dict[TaskId, int] = {}
        self.division = -1
        self.divide(lanes)
        self._size = size
        #: The offset up to which each partition is done with.
        self.positions: dict[TopicPartition, int] = {}
        #: The end of each partition, as far as it can be read.
        self.ends: dict[TopicPartition, int] = {}
        self._due_at_ms: dict[TaskId, int] = {}

    def divide(self, lanes: int) -> None:
        """Divide the tasks into so many lanes. No process may run one any more, and lanes of the division before are
        fenced before there are others: one task in two lanes would count twice."""
        self.lane_of = {task_id: number % lanes for number, task_id in enumerate(sorted(self._inputs))}
        self.division += 1

    @property
    def tasks(self) -> int:
        """Tasks that there are."""
        return len(self._inputs)

    @property
    def lanes(self) -> int:
        """Lanes that there are."""
        return len(set(self.lane_of.values()))

    @property
    def partitions(self) -> list[TopicPartition]:
        """Everything that is read."""
        return [partition for partitions in self._inputs.values() for partition in partitions]

    def lag(self, task_id: TaskId) -> int:
        """Records that a task has still to read."""
        return sum(self._pending(partition) for partition in self._inputs[task_id])

    @property
    def total_lag(self) -> int:
        """Of all tasks."""
        return sum(map(self.lag, self._inputs))

    def deserted(self, lanes: Collection[int]) -> None:
        """No process runs these lanes any more: their tasks take part in the next batch."""
        self._due_at_ms |= {task_id: 0 for task_id, lane in self.lane_of.items() if lane in lanes}

    def due_at_once(self, partitions: Collection[TopicPartition]) -> None:
        """The tasks that read any of these take part in the next batch."""
        due = [task_id for task_id, inputs in self._inputs.items() if not set(inputs).isdisjoint(partitions)]
        self._due_at_ms |= dict.fromkeys(due, 0)

    def report(self, report: LaneTaskReport) -> None:
        """A task took part in a batch."""
        for partition, position in report.positions.items():
            self.positions[partition] = max(position, self.positions.get(partition, position))
        if report.due_at_ms is None:
            self._due_at_ms.pop(report.id, None)
        else:
            self._due_at_ms[report.id] = report.due_at_ms

    def last(self, task_ids: Collection[TaskId]) -> tuple[LaneOrder, ...]:
        """Orders that open these tasks where they stand, read nothing, and give them up."""
        orders: dict[int, list[TaskOrder]] = {}
        for task_id in sorted(task_ids):
            at = {each: self.positions[each] for each in self._inputs[task_id]}
            targets = {each: InputTarget(start, start, at_end=False) for each, start in at.items()}
            orders.setdefault(self.lane_of[task_id], []).append(TaskOrder(task_id, targets))
        return self._ordered(orders, gives_up=True)

    def plan(self, now_ms: int, bounds: Mapping[TopicPartition, int] | None = None) -> tuple[LaneOrder, ...]:
        """The next batch; nothing if no task has anything to do. ``bounds`` are offsets that are not passed."""
        ends = {each: min(end, (bounds or {}).get(each, end)) for each, end in self.ends.items()}
        pending = {each: max(0, end - self.positions[each]) for each, end in ends.items()}
        parts = fair_parts(pending, None if self._size is None else self._size.records)
        orders: dict[int, list[TaskOrder]] = {}
        for task_id, partitions in self._inputs.items():
            if (
                self.opens
                or self._due_at_ms.get(task_id, now_ms + 1) <= now_ms
                or any(pending[each] for each in partitions)
            ):
                targets = {each: self._target(each, parts[each]) for each in partitions}
                orders.setdefault(self.lane_of[task_id], []).append(TaskOrder(task_id, targets))
        return self._ordered(orders, is_open=self.opens)

    def given_up(self, lanes: Collection[int]) -> tuple[LaneOrder, ...]:
        """Orders that give up the open tasks of these lanes."""
        return self._ordered({number: [] for number in lanes}, gives_up=True)

    def _ordered(
        self, orders: Mapping[int, Sequence[TaskOrder]], *, gives_up: bool = False, is_open: bool = False
    ) -> tuple[LaneOrder, ...]:
        most = None if self._size is None or not is_open else max(1, self._size.records // self.lanes)
        return tuple(
            LaneOrder(each, tuple(orders[each]), gives_up, self.division, is_open, most) for each in sorted(orders)
        )

    def _pending(self, partition: TopicPartition) -> int:
        return max(0, self.ends.get(partition, 0) - self.positions.get(partition, 0))

    def _target(self, partition: TopicPartition, records: int) -> InputTarget:
        start = self.positions[partition]
        return InputTarget(start, start + records, start + records >= self.ends[partition])

"""The driver's answers to Spark's source and to workers: which batch is next, which workers get its lanes, what they
did.

Every connection of the channel has a thread, which calls in here.

    latest    is there something to do? then the next batch is planned
    begin     the batch that was planned begins
    join, take, claimed, alive, done, owed, failed    a worker pulls lanes
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

from streamsapp.clock import Clock
from streamsapp.errors import ManifestError, StreamsAppError, StreamsError
from streamsapp.record import TaskId
from streamsapp.runtime.micro_batches.batches import MicroBatches
from streamsapp.runtime.micro_batches.lanes import DriverClaim
from streamsapp.runtime.micro_batches.model import LaneOrder, LaneReport
from streamsapp.runtime.micro_batches.planning import MicroBatchSize
from streamsapp_spark.streaming.dispatcher import Dispatcher, Puller
from streamsapp_spark.streaming.lane_division import LaneDivision
from streamsapp_spark.streaming.last_snapshots import LastSnapshots
from streamsapp_spark.streaming.view import Figures

log = logging.getLogger(__name__)

#: Spark ends a Python worker that has had nothing to do for a minute, and with it what it has open. Seconds.
_KEEP_WARM = 20.0
#: The time for which the orders of a batch are open, and between two looks what has changed meanwhile, in seconds.
_OPEN, _LOOK = 5.0, 0.9

_SUPERSEDED = "another driver of this application has started since; this one ends, and commits nothing more"


@dataclass
class _UnderWay:
    """The batch that runs."""

    #: When something was heard of it, in monotonic seconds.
    progress_at: float
    #: When its open orders end, and when it is seen to next whether they are to end sooner.
    open_until: float = 0.0
    look_at: float = 0.0
    records: int = 0
    #: The reports so far.
    reports: int = 0
    #: The seconds for which each process has been at work on it.
    busy: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


class MicroBatchService:
    """The batches of one query."""

    def __init__(
        self,
        batches: MicroBatches,
        size: MicroBatchSize,
        cores: int,
        figures: Figures,
        clock: Clock,
        claim: DriverClaim,
        committed: Callable[[], object],
    ) -> None:
        """``size`` is that of the planned batches, ``cores`` how many pullers a batch has; without the ``claim`` there
        are no more; ``committed`` is called with every lane that is."""
        self._batches = batches
        self._size = size
        self._division = LaneDivision(batches.planner, claim, clock, cores)
        self._figures = figures
        self._clock = clock
        self._claim = claim
        self._committed = committed
        self._lock = threading.RLock()
        self._dispatcher = Dispatcher()
        self._next: tuple[LaneOrder, ...] = ()
        self._offset: dict[str, Any] = {"batch": 0}
        self._under_way = _UnderWay(clock.monotonic())
        self._last = LastSnapshots(batches, clock)
        #: Set when no more is to be read, and tasks are to be given up.
        self.closing = threading.Event()
        #: An error that trying again would not mend.
        self.failure: StreamsAppError | None = None

    def ends(self, *, goes_on: bool = False) -> bool:
        """Return whether no worker has a task any more, none is to get one, and remote state has what is committed.
        That is left to the next query of this run where one ``goes_on``."""
        with self._lock:
            if not self.closing.is_set() or self._last.orders or self._dispatcher.lanes or not self._dispatcher.done:
                return False
            try:
                return goes_on or self._last.are_written()
            except StreamsError as error:
                self.failure = error
                return False

    def check_snapshots(self) -> None:
        """Raise ``StreamsError`` if remote state lacks something that is committed. Called when the query is over."""
        with self._lock:
            self._last.check()

    def has_cores(self, cores: int) -> None:
        """There are so many now."""
        with self._lock:
            self._division.has_cores(cores)

    @property
    def stuck_seconds(self) -> float:
        """The time since something was heard of the batch under way; 0 while there is none."""
        return 0.0 if self._dispatcher.done else self._clock.monotonic() - self._under_way.progress_at

    @property
    def moves(self) -> int:
        """Lanes that went to another process than before, since the start."""
        return self._dispatcher.moves

    @property
    def lags(self) -> dict[TaskId, int]:
        """Records that wait, per task."""
        return self._batches.lags()

    @property
    def owners(self) -> dict[TaskId, str]:
        """The process of each task that is open."""
        lanes = self._dispatcher.lanes
        return {task: lanes[lane] for task, lane in self._batches.planner.lane_of.items() if lane in lanes}

    @property
    def pods(self) -> frozenset[str]:
        """The uids of the pods that took part in the last batch that ended."""
        return self._dispatcher.pods

    @property
    def batch_size(self) -> int:
        """Records that the next batch has at most."""
        return self._size.records

    @property
    def outage(self) -> tuple[float, str] | None:
        """Since when the broker does not answer the driver, in monotonic seconds, and why."""
        return self._batches.outage

    def serve(self, connection: Connection) -> None:
        """Answer until the other side is gone."""
        puller: Puller | None = None
        answers: dict[str, Callable[..., Any]] = {
            "latest": self._latest,
            "begin": self._begin,
            "take": self._take,
            "claimed": self._claimed,
            "alive": self._alive,
            "done": self._done,
            "owed": self._owed,
            "failed": self._failed,
        }
        try:
            while True:
                name, *arguments = connection.recv()
                if name == "join":
                    puller = self._dispatcher.join(*arguments)
                    connection.send(self._take(puller))
                else:
                    connection.send(answers[name](puller, *arguments))
        finally:
            if puller is not None:
                self._dispatcher.lose(puller)

    # ---- Spark's source ----------------------------------------------------------------------------------------

    def _latest(self, _: None) -> dict[str, Any]:
        """The offset of the batch that is to begin; the same as before if there is none.

        Spark asks between batches. Lanes of the one before may be left: its task that won a race of two attempts was
        the one whose lanes had gone to the other. They are planned anew.
        """
        with self._lock:
            if self._superseded():
                return self._offset
            self._next = self._plan()
            if self._next or self._clock.monotonic() > self._under_way.progress_at + _KEEP_WARM:
                self._offset = {"batch": self._offset["batch"] + 1, **self._offsets()}
            return self._offset

    def _superseded(self) -> bool:
        """Return whether another driver has started since; then this one ends."""
        if self.failure is None and not self._claim.held():
            self.failure = StreamsError(_SUPERSEDED)
        return self.failure is not None

    def _plan(self) -> tuple[LaneOrder, ...]:
        closing, lanes = self.closing.is_set(), self._dispatcher.lanes
        if (not closing or self._division.unfenced) and (orders := self._division.orders(lanes)) is not None:
            return orders
        if not closing:
            self._batches.planner.deserted(self._dispatcher.deserted())
            orders = self._batches.next()
            if orders or not self._batches.caught_up:
                return self._evened(orders)
            log.info("everything is read")
            self.closing.set()
        return self._batches.planner.given_up(lanes) or self._last.orders

    def _evened(self, orders: tuple[LaneOrder, ...]) -> tuple[LaneOrder, ...]:
        """The same, with lanes that others are to have given up afterwards."""
        moving = self._dispatcher.uneven()
        idle = set(moving).difference(order.number for order in orders)
        given_up = (
            replace(order, gives_up=True, is_open=False) if order.number in moving else order for order in orders
        )
        return (*given_up, *self._batches.planner.given_up(idle))

    def _offsets(self) -> dict[str, dict[str, int]]:
        """Of every topic, as Kafka's own source shows them."""
        positions = dict(self._batches.planner.positions)
        for order in self._next:
            positions |= {each: target.until for task in order.tasks for each, target in task.targets.items()}
        shown: dict[str, dict[str, int]] = {}
        for (topic, number), position in sorted(positions.items()):
            shown.setdefault(topic, {})[str(number)] = position
        return shown

    def _begin(self, _: None, batch: int) -> int:
        """The batch begins; returns how many partitions it has."""
        with self._lock:
            now = self._clock.monotonic()
            self._under_way = _UnderWay(now, now + _OPEN, now + _LOOK)
            orders = self._next if batch == self._offset["batch"] else ()
            if orders:  # one without any was planned before snapshots were looked at
                self._last.orders = ()
            self._dispatcher.begin(orders, self._division.cores)
            self._figures.batches += 1
            return self._division.cores

    # ---- workers -----------------------------------------------------------------------------------------------

    def _take(self, puller: Puller) -> LaneOrder | None:
        return None if self.failure else self._dispatcher.take(puller)

    def _claimed(self, _: Puller, division: int) -> str | None:
        """A worker opens a lane; returns why it may not. Without the lock: the broker may be long in telling."""
        self._under_way.progress_at = self._clock.monotonic()
        if division != self._batches.planner.division:
            return "tasks were divided into other lanes since"
        try:
            if self.failure is None and not self._claim.proven():
                self.failure = StreamsError(_SUPERSEDED)
        except StreamsError as error:
            return str(error)  # as it may be well later, Spark tries again
        return None if self.failure is None else str(self.failure)

    def _alive(self, _: Puller) -> None:
        """A worker restores or processes."""
        self._under_way.progress_at = self._clock.monotonic()

    def _done(self, puller: Puller, report: LaneReport, is_open: bool = False) -> tuple[dict[str, int], bool]:
        """A lane is committed; returns the report to Spark, and whether the worker goes on with it."""
        done = (sum(task.records for task in report.tasks), sum(task.outputs for task in report.tasks))
        with self._lock:
            puller.records, puller.outputs = puller.records + done[0], puller.outputs + done[1]
            goes_on = is_open and self._goes_on()
            counts = self._dispatcher.reported(puller, report.number, goes_on=goes_on)
            # The snapshots of a lane that others have had since are not the newest.
            self._batches.report(report if counts else replace(report, published=frozenset()))
            self._figures.report(puller.process, report, self._clock.now_ms())
            self._under_way.progress_at = self._clock.monotonic()
            self._committed()
            if counts:
                self._measure(puller.process, report)
            return self._told(*done, round(1_000 * report.commit_seconds)), goes_on and counts

    def _goes_on(self) -> bool:
        """Returns whether open orders go on. A lane that has no process any more ends them: no worker asks for it
        meanwhile."""
        now, batch = self._clock.monotonic(), self._under_way
        if self.closing.is_set() or now >= batch.open_until or self._dispatcher.waits or self.failure is not None:
            return False
        if now < batch.look_at:
            return True
        batch.look_at = now + _LOOK
        try:
            return not self._superseded() and self._batches.look()
        except StreamsAppError as error:
            log.debug("the batch ends: %s", error)  # which the next one meets, too
            return False

    def _owed(self, puller: Puller) -> dict[str, int]:
        """Reports the work of earlier attempts at the same partition: Spark counts nothing of a failed attempt."""
        before, records, outputs = puller.before, 0, 0
        with self._lock:
            while before is not None:
                records, outputs, before = records + before.records, outputs + before.outputs, before.before
            return self._told(records, outputs, 0)

    def _told(self, records: int, outputs: int, commit_ms: int) -> dict[str, int]:
        """These, and what is known of the whole application now: the last report of a batch holds."""
        self._under_way.reports += 1
        figures = self._figures
        return {
            "records": records,
            "outputs": outputs,
            "state_rows": figures.state_rows,
            "state_bytes": figures.state_bytes,
            "lag": self._batches.lag,
            "batch_size": self._size.records,
            "commit_ms": commit_ms,
            "report": self._under_way.reports,
        }

    def _measure(self, process: str, report: LaneReport) -> None:
        batch = self._under_way
        batch.records += sum(task.records for task in report.tasks)
        batch.busy[process] += report.seconds - report.restore_seconds
        if self._dispatcher.done:
            self._size.took(batch.records, max(batch.busy.values()))

    def _failed(self, _: Puller | None, told: str, hopeless: bool, user: bool) -> None:
        """A lane or a worker failed; Spark runs it again unless that would end the same."""
        # A worker may have been fenced by the lanes of another driver.
        over = hopeless or self._superseded()
        log.warning("%s%s", told, "" if over else "; Spark tries again")
        if hopeless:
            self.failure = ManifestError([told]) if user else StreamsError(told)

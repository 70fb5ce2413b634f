"""An application under a curve of load, and the autoscaler that sees what its pods count: a second at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from streamsapp.manifest.model import AutoscalingSpec
from streamsapp_operator.model.observed_state import PodReport, PodSeen, ReportedRole, TaskReport
from streamsapp_operator.model.status import ScalingStatus
from streamsapp_operator.observe.input_rates import RateObserver
from streamsapp_operator.plan.autoscale import Load, decide

NOW = 1_700_000_000.0
START_SECONDS, LOOK_SECONDS = 10, 2


@dataclass
class Pod:
    uid: str
    ready_at: float
    #: Task → records that it processed here.
    tasks: dict[int, int] = field(default_factory=dict)


@dataclass
class SimulatedLoad:
    """Input falls evenly on tasks, tasks evenly on pods; each pod does ``capacity`` records a second, give or take."""

    autoscaling: AutoscalingSpec
    #: Records that come in the second that begins so many seconds after the beginning.
    arrival: Callable[[int], float]
    capacity: float = 100.0
    tasks: int = 12
    replicas: int = 1
    #: All tasks stand still for so long when the number of pods changes.
    move_seconds: float = 1.0
    seed: int = 1
    second: int = 0
    status: ScalingStatus | None = None
    #: How many pods there were to be in each second.
    wanted: list[int] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._rates = RateObserver()
        self._waits = [0.0] * self.tasks
        self._still_until = 0.0
        self._pods = [Pod(f"{number}", 0) for number in range(self.replicas)]
        self._assign()

    def run(self, seconds: int) -> SimulatedLoad:
        for _ in range(seconds):
            self._work()
            if self.second % LOOK_SECONDS == 0:
                self._look()
            self.wanted.append(self.desired)
            self.lags.append(sum(self._waits))
            self.second += 1
        return self

    @property
    def desired(self) -> int:
        return self.replicas if self.status is None else self.status.desired

    def changes(self, begin: int = 0) -> list[int]:
        """The numbers of pods, one after the other, from a second on."""
        seen = self.wanted[begin:]
        return [number for before, number in zip([0, *seen], seen, strict=False) if before != number]

    def _work(self) -> None:
        if any(pod.ready_at == self.second for pod in self._pods) and self.second:
            self._assign()
        each = self.arrival(self.second) / self.tasks
        self._waits = [waits + each for waits in self._waits]
        for pod in [] if self._moves() else self._pods:
            left = int(self.capacity * self._rng.uniform(0.9, 1.1))
            for number, task in enumerate(sorted(pod.tasks, key=self._waits.__getitem__)):
                done = min(int(self._waits[task]), left // (len(pod.tasks) - number))
                pod.tasks[task] += done
                self._waits[task] -= done
                left -= done

    def _moves(self) -> bool:
        return self.second < self._still_until

    def _assign(self) -> None:
        """Assigns tasks to the ready pods; the pod that had a task before forgets its work on the task."""
        ready = [pod for pod in self._pods if pod.ready_at <= self.second]
        for number, pod in enumerate(ready):
            has = range(number, self.tasks, len(ready))
            pod.tasks = {task: pod.tasks.get(task, 0) for task in has}
        self._still_until = self.second + self.move_seconds

    def _look(self) -> None:
        settled = not self._moves()
        moving = not settled or any(pod.ready_at > self.second for pod in self._pods)
        flow = self._rates.flow([self._seen(number, pod) for number, pod in enumerate(self._pods)], settled=settled)
        load = Load(round(sum(self._waits)), self.tasks, moving, self.move_seconds, flow)
        now = datetime.fromtimestamp(NOW + self.second, UTC)
        self.status = decide(self.autoscaling, self.status, len(self._pods), load, now)
        if self.desired > len(self._pods):
            numbers = range(len(self._pods), self.desired)
            self._pods += [Pod(f"{number}-{self.second}", self.second + START_SECONDS) for number in numbers]
        elif self.desired < len(self._pods) and not moving and self.status.behind_since is None:
            # One at a time, as plan.scaling.next_replicas does.
            self._pods.pop()
            self._assign()

    def _seen(self, number: int, pod: Pod) -> PodSeen:
        state = "RESTORING" if self._moves() else "RUNNING"
        reports = tuple(
            TaskReport(f"0_{task}", ReportedRole.ACTIVE, state, (), int(self._waits[task]), processed=processed)
            for task, processed in pod.tasks.items()
        )
        report = PodReport("RUNNING", 1, reports, NOW + self.second)
        return PodSeen(f"app-{number}", pod.uid, number, "r", True, False, NOW, report=report)

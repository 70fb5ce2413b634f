"""Carries out the faults of a plan, and undoes them. Called by the run, on the driver's main thread."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from damage import Damage
from faults import S3, Fault, Kind, Plan
from fleet import Fleet, Instance
from gaps import Disturbance
from load import Load
from testbed import Testbed

_TICK = 0.05
#: The input of so many seconds at once for all tasks, and when it is being processed.
_BURST = 7
_UNDER_WAY = 0.1
#: An instance that ended by itself is started again, as a kubelet would.
_RESTART_AFTER = 1.0

_FOR_GOOD = {Kind.ADD, Kind.REMOVE, Kind.FLIP, Kind.DELETE}
#: An instance that is hurt is in the middle of its work, and would go on with it as a zombie.
_OF_INSTANCES = {Kind.KILL, Kind.TERMINATE, Kind.STOP, Kind.CUT, Kind.CUT_LATE, Kind.WIPE, Kind.WIPE_ALL}

_Deed: TypeAlias = Callable[[str], None]


class Chaos:
    """One run's faults against its instances and its brokers."""

    def __init__(self, plan: Plan, fleet: Fleet, testbed: Testbed, load: Load) -> None:
        self._plan = plan
        self._load = load
        self._fleet = fleet
        self._testbed = testbed
        self._began = time.monotonic()
        self.began_ms = time.time() * 1000
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._leaving: list[Instance] = []
        self._hurt: set[str] = set()
        self._damage = Damage(plan.seed, testbed)
        #: The events that no fault explains.
        self.findings: list[str] = []
        self.disturbances: list[Disturbance] = []
        self._doing, self._undoing = self._deeds(testbed, fleet)
        for fault in plan.faults:
            self._at(fault.at, lambda fault=fault: self._begin(fault))  # type: ignore[misc]

    def _deeds(self, testbed: Testbed, fleet: Fleet) -> tuple[dict[Kind, _Deed], dict[Kind, _Deed]]:
        """Returns the deed that is done to a target, and the deed that undoes it: an ended instance starts again."""
        doing: dict[Kind, _Deed] = {
            Kind.KILL: lambda name: fleet[name].kill(),
            Kind.TERMINATE: lambda name: fleet[name].ask_to_end(),
            Kind.STOP: lambda name: fleet[name].stop(),
            Kind.CUT: testbed.cut,
            Kind.CUT_LATE: testbed.cut,
            Kind.ADD: self._start,
            Kind.REMOVE: self._remove,
            Kind.FREEZE_BROKER: testbed.freeze,
            Kind.RESTART_BROKER: testbed.stop_broker,
            Kind.WIPE: lambda name: self._wipe([name]),
            Kind.WIPE_ALL: lambda _: self._wipe(fleet.instances),
            Kind.RESTART_S3: lambda _: testbed.s3.stop(),
            Kind.FREEZE_S3: lambda _: testbed.s3.freeze(),
            Kind.FLIP: lambda _: self._damage.flip(),
            Kind.DELETE: lambda _: self._damage.delete(),
        }
        undoing: dict[Kind, _Deed] = {
            Kind.STOP: lambda name: fleet[name].go_on(),
            Kind.CUT: lambda name: testbed.heal(name, held=False),
            Kind.CUT_LATE: lambda name: testbed.heal(name, held=True),
            Kind.FREEZE_BROKER: testbed.thaw,
            Kind.RESTART_BROKER: testbed.start_broker,
            Kind.RESTART_S3: lambda _: testbed.s3.start(),
            Kind.FREEZE_S3: lambda _: testbed.s3.thaw(),
        }
        return doing, undoing

    def run(self) -> None:
        """Until every fault is undone."""
        while self._due or self._leaving:
            self.look_after(self._fleet.instances.values())
            while self._due and self._due[0][0] <= self._now():
                heapq.heappop(self._due)[2]()
            time.sleep(_TICK)

    def look_after(self, instances: Iterable[Instance]) -> None:
        """Notice who ended, asked or not."""
        for instance in instances:
            code = instance.ended_by_itself
            if code is not None:
                self.findings.append(f"{instance.name} ended by itself with {code}: {instance.last_words()}")
                instance.forget()
                self._at(self._now() + _RESTART_AFTER, lambda name=instance.name: self._start(name))  # type: ignore[misc]
        for instance in list(self._leaving):
            if self._has_ended(instance):
                self._leaving.remove(instance)

    def _begin(self, fault: Fault) -> None:
        name, kind = fault.target, fault.kind
        victims = self._victims(fault)
        if not self._hurt.isdisjoint(victims):  # undoing the fault before took longer than planned
            self._at(self._now() + _TICK, lambda: self._begin(fault))
            return
        begin_ms = time.time() * 1000
        self._hurt.update(victims)
        if kind in _OF_INSTANCES:
            self._keep_busy()
        self._doing[kind](name)
        if kind in _FOR_GOOD:
            self._hurt.difference_update(victims)
        else:
            self._at(self._now() + fault.lasting, lambda: self._undo(fault, victims, begin_ms))

    def _undo(self, fault: Fault, victims: Collection[str], begin_ms: float) -> None:
        name, kind = fault.target, fault.kind
        if kind is Kind.TERMINATE and not self._has_ended(self._fleet[name]):
            self._at(self._now() + _TICK, lambda: self._undo(fault, victims, begin_ms))
            return
        if kind in self._undoing:
            self._undoing[kind](name)
        else:
            for victim in victims:
                self._start(victim)
        self._hurt.difference_update(victims)
        if name == S3:
            return  # is no reason to write nothing
        concerned = name if name in self._fleet.instances else ""
        self.disturbances.append(Disturbance(concerned, begin_ms, (time.time() + self._plan.session) * 1000))

    def _victims(self, fault: Fault) -> Collection[str]:
        if fault.kind is not Kind.WIPE_ALL:
            return [fault.target]
        leaving = {instance.name for instance in self._leaving}
        return [name for name, each in self._fleet.instances.items() if each.runs and name not in leaving]

    def _wipe(self, names: Collection[str]) -> None:
        for name in names:
            self._fleet[name].kill()
        for name in names:
            self._fleet[name].lose_disk()

    def _remove(self, name: str) -> None:
        self._fleet[name].ask_to_end()
        self._leaving.append(self._fleet[name])

    def _keep_busy(self) -> None:
        """Gives every instance something to be in the middle of."""
        self._load.burst(_BURST * self._plan.rate)
        time.sleep(_UNDER_WAY)

    def _has_ended(self, instance: Instance) -> bool:
        how = instance.ended()
        if how:
            self.findings.append(how)
        return how is not None

    def _start(self, name: str) -> None:
        if not self._fleet[name].runs:
            self._fleet[name].start()

    def _at(self, when: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._order), do))

    def _now(self) -> float:
        return time.monotonic() - self._began

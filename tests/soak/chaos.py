"""Carries out the faults of a plan, and undoes them. Called by the run, on the driver's main thread."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterable

from faults import SESSION, Fault, Kind, Plan
from fleet import Fleet, Instance
from gaps import Disturbance
from load import Load
from testbed import Testbed

_TICK = 0.05
#: Records for all tasks, and when they are being processed.
_BURST = 2000
_UNDER_WAY = 0.1
#: Who ended by itself is started again, as a kubelet would.
_RESTART_AFTER = 1.0
#: How long the consequences of a fault may concern its victim after it was undone.
_AFTERMATH = SESSION


class Chaos:
    """One run's faults against its instances and its broker."""

    def __init__(self, plan: Plan, fleet: Fleet, testbed: Testbed, load: Load) -> None:
        self._load = load
        self._fleet = fleet
        self._testbed = testbed
        self._began = time.monotonic()
        self.began_ms = time.time() * 1000
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._leaving: list[Instance] = []
        self._hurt: set[str] = set()
        #: What no fault explains.
        self.findings: list[str] = []
        self.disturbances: list[Disturbance] = []
        for fault in plan.faults:
            self._at(fault.at, lambda fault=fault: self._begin(fault))  # type: ignore[misc]

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
        if name in self._hurt:  # undoing the fault before took longer than planned
            self._at(self._now() + _TICK, lambda: self._begin(fault))
            return
        if kind is Kind.ADD:
            self._start(name)
            return
        if kind is Kind.REMOVE:
            self._fleet[name].ask_to_end()
            self._leaving.append(self._fleet[name])
            return
        begin_ms = time.time() * 1000
        self._hurt.add(name)
        if kind is Kind.FREEZE_BROKER:
            self._testbed.freeze()
        elif kind is Kind.RESTART_BROKER:
            self._testbed.stop_broker()
        elif kind in (Kind.CUT, Kind.CUT_LATE):
            self._keep_busy()
            self._testbed.cut(name)
        else:
            instance = self._fleet[name]
            self._keep_busy()
            {Kind.KILL: instance.kill, Kind.TERMINATE: instance.ask_to_end, Kind.STOP: instance.stop}[kind]()
        self._at(self._now() + fault.lasting, lambda: self._undo(fault, begin_ms))

    def _undo(self, fault: Fault, begin_ms: float) -> None:
        name, kind = fault.target, fault.kind
        if kind is Kind.FREEZE_BROKER:
            self._testbed.thaw()
        elif kind is Kind.RESTART_BROKER:
            self._testbed.start_broker()
        elif kind in (Kind.CUT, Kind.CUT_LATE):
            self._testbed.heal(name, held=kind is Kind.CUT_LATE)
        elif kind is Kind.STOP:
            self._fleet[name].go_on()
        elif kind is Kind.TERMINATE and not self._has_ended(self._fleet[name]):
            self._at(self._now() + _TICK, lambda: self._undo(fault, begin_ms))
            return
        else:
            self._start(name)
        self._hurt.remove(name)
        concerned = "" if kind in (Kind.FREEZE_BROKER, Kind.RESTART_BROKER) else name
        self.disturbances.append(Disturbance(concerned, begin_ms, (time.time() + _AFTERMATH) * 1000))

    def _keep_busy(self) -> None:
        """Whoever is hurt is in the middle of something, and would go on with it as a zombie."""
        self._load.burst(_BURST)
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

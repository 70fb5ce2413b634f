"""Decides by the seed alone what happens to the instances, the brokers and the object store in one soak run.

Pure; called by the soak driver before a run and when it prints one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from application import PARTITIONS

#: How long the group waits for a member's sign of life, in seconds, where a plan says nothing else. Stops and cuts are
#: shorter and longer than it.
SESSION = 4.0
#: How long a transaction may stay open.
TRANSACTION_TIMEOUT = 10.0

EXACTLY_ONCE = "exactly_once"
AT_LEAST_ONCE = "at_least_once"

#: The names instances may have; the instances that start a run come first.
NAMES = "abcdef"
_LATE_COMERS = 2
_LEAST_INSTANCES = 2

_DURATION = 20.0
#: Between two faults, in seconds: now and then two happen at once.
_PAUSE = (0.2, 4.0)
#: How long something that was healed is left alone.
_REST = (0.5, 4.0)

BROKER = "broker"
#: The first one is the controller as well, and stays; the leaders on the others move.
THREE_BROKERS = ("broker-1", "broker-2", "broker-3")
#: With remote state.
EVERYBODY = "everybody"
S3 = "s3"
OBJECTS = "objects"


class Kind(Enum):
    """The kinds of faults; the value is the text that reports one."""

    KILL = "kill -9"
    TERMINATE = "SIGTERM"
    STOP = "SIGSTOP"
    CUT = "cut off"
    #: Messages that were sent during the cut arrive when it ends.
    CUT_LATE = "cut off, delayed"
    ADD = "add"
    REMOVE = "remove"
    FREEZE_BROKER = "freeze"
    RESTART_BROKER = "restart"
    #: With remote state. An instance that is wiped comes back with an empty disk.
    WIPE = "kill -9, wipe"
    WIPE_ALL = "kill -9, wipe all"
    RESTART_S3 = "restart S3"
    FREEZE_S3 = "freeze S3"
    FLIP = "flip a bit of"
    DELETE = "delete one of"


@dataclass(frozen=True)
class Fault:
    """Something begins ``at`` seconds into the run and is undone ``lasting`` seconds later."""

    at: float
    kind: Kind
    target: str
    lasting: float = 0.0

    @property
    def until(self) -> float:
        return self.at + self.lasting

    def __str__(self) -> str:
        lasting = f" {self.lasting:.1f} s" if self.lasting else ""
        return f"{self.at:.1f} {self.kind.value} {self.target}{lasting}"


@dataclass(frozen=True)
class Plan:
    """One run: settings and faults."""

    seed: int
    guarantee: str
    instances: tuple[str, ...]
    commit_interval_ms: int
    threads: int
    standby_replicas: int
    faults: tuple[Fault, ...]
    #: Seconds between snapshots; 0 without remote state.
    snapshot_interval: float = 0.0
    #: Says whether there are three brokers, which instances reach by SASL_SSL.
    secured: bool = False
    #: Moves the records of the instances.
    client: str = "streamsapp"
    #: The session timeout of the members, in seconds.
    session: float = SESSION
    #: Records of the input in each second.
    rate: int = 300
    #: Of each topic.
    partitions: int = PARTITIONS
    #: More settings of the instances.
    settings: tuple[tuple[str, int], ...] = ()

    def for_busy_machine(self) -> Plan:
        """The same faults on a machine that gives each process a tenth of a core: members that answer late stay in the
        group, and the input is no more than such instances can process."""
        return replace(self, session=3 * SESSION, rate=self.rate // 6)

    def before(self, second: float) -> Plan:
        """The same run with the faults that begin before it is so old."""
        return replace(self, faults=tuple(fault for fault in self.faults if fault.at < second))

    @property
    def exactly_once(self) -> bool:
        return self.guarantee == EXACTLY_ONCE

    @property
    def deeds(self) -> Sequence[object]:
        """Everything that is done to it, as text reports it."""
        return self.faults

    @property
    def repeats(self) -> bool:
        """Says whether records may be processed twice."""
        return not self.exactly_once

    @property
    def killed(self) -> set[str]:
        """The instances that are killed at some time, and come back with what is on their disks."""
        return {fault.target for fault in self.faults if fault.kind is Kind.KILL}

    @property
    def names(self) -> list[str]:
        """All instances that take part at some time."""
        return [*self.instances, *(fault.target for fault in self.faults if fault.kind is Kind.ADD)]

    @property
    def cut_off(self) -> list[str]:
        """The instances that may be cut off from the brokers."""
        return self.names

    @property
    def brokers(self) -> tuple[str, ...]:
        """All of them, the controller first."""
        return THREE_BROKERS if self.secured else (BROKER,)

    @property
    def restarts_broker(self) -> bool:
        return any(fault.kind is Kind.RESTART_BROKER for fault in self.faults)

    @property
    def damages_objects(self) -> bool:
        return any(fault.target == OBJECTS for fault in self.faults)


def make_plan(
    seed: int,
    guarantee: str | None,
    instances: int,
    *,
    broker_restarts: bool = False,
    remote: bool = False,
    secured: bool = False,
) -> Plan:
    """The plan of a seed; without a ``guarantee`` odd seeds run exactly once and even ones at least once.

    A single broker that restarts loses markers of transactions (decision 7): exactly once meets that on request only.
    """
    chosen = random.Random(seed)
    guarantee = guarantee or (EXACTLY_ONCE if seed % 2 else AT_LEAST_ONCE)
    intervals = (100, 100, 400) if guarantee == EXACTLY_ONCE else (200, 1000, 5000)
    names = tuple(NAMES[:instances])
    restarts = (broker_restarts or secured or guarantee == AT_LEAST_ONCE) and chosen.random() < 0.5
    brokers = THREE_BROKERS[1:] if secured else (BROKER,)
    return Plan(
        seed,
        guarantee,
        names,
        commit_interval_ms=chosen.choice(intervals),
        threads=chosen.choice((1, 1, 2)),
        standby_replicas=0 if instances == 1 else chosen.choice((0, 1, 1, 1)),
        faults=tuple(_Chooser(chosen, names, brokers, guarantee, restarts, remote=remote).faults()),
        snapshot_interval=chosen.choice((1.0, 2.0)) if remote else 0.0,
        secured=secured,
    )


class _Chooser:
    """Draws one fault after the other; leaves a hurt target alone until it had time to recover."""

    def __init__(
        self,
        chosen: random.Random,
        names: Sequence[str],
        brokers: Sequence[str],
        guarantee: str,
        restarts: bool,
        *,
        remote: bool,
    ) -> None:
        self._random = chosen
        self._present = list(names)
        self._absent = [] if len(names) == 1 else list(NAMES[len(names) : len(names) + _LATE_COMERS])
        #: One of them at a time is hurt.
        self._brokers = brokers
        self._busy_until = dict.fromkeys([*names, *brokers, S3, OBJECTS], 0.0)
        broker = Kind.RESTART_BROKER if restarts else Kind.FREEZE_BROKER
        # Without transactions a broker cannot distinguish old requests from new ones.
        late = Kind.CUT_LATE if guarantee == EXACTLY_ONCE else Kind.CUT
        self._weights = {
            Kind.KILL: 5, Kind.TERMINATE: 3, Kind.STOP: 5, Kind.CUT: 2, late: 3, Kind.ADD: 2, Kind.REMOVE: 1, broker: 2,
        }  # fmt: skip
        if remote:
            self._weights |= {
                Kind.WIPE: 5, Kind.WIPE_ALL: 8, Kind.RESTART_S3: 3, Kind.FREEZE_S3: 2, Kind.FLIP: 2, Kind.DELETE: 2,
            }  # fmt: skip

    def faults(self) -> list[Fault]:
        found: list[Fault] = []
        now = self._random.uniform(*_PAUSE)
        while now < _DURATION:
            if (fault := self._draw(now)) is not None:
                found.append(fault)
            now += self._random.uniform(*_PAUSE)
        return found

    def _draw(self, now: float) -> Fault | None:
        now = round(now, 1)
        kinds = [kind for kind in self._weights if self._targets(kind, now)]
        if not kinds:
            return None
        kind = self._random.choices(kinds, [self._weights[kind] for kind in kinds])[0]
        target = self._random.choice(self._targets(kind, now))
        fault = Fault(now, kind, target, round(self._lasting(kind), 1))
        for each in self._present if kind is Kind.WIPE_ALL else [target]:
            self._busy_until[each] = fault.until + self._random.uniform(*_REST)
        if kind is Kind.ADD:
            self._absent.remove(target)
            self._present.append(target)
        elif kind is Kind.REMOVE:
            self._present.remove(target)
        return fault

    def _targets(self, kind: Kind, now: float) -> list[str]:
        if kind in (Kind.FREEZE_BROKER, Kind.RESTART_BROKER):
            return list(self._brokers) if all(self._busy_until[each] <= now for each in self._brokers) else []
        if kind in (Kind.RESTART_S3, Kind.FREEZE_S3):
            return [S3] if self._busy_until[S3] <= now else []
        if kind in (Kind.FLIP, Kind.DELETE):
            return [OBJECTS] if self._busy_until[OBJECTS] <= now else []
        if kind is Kind.WIPE_ALL:
            return [EVERYBODY] if all(self._busy_until[name] <= now for name in self._present) else []
        if kind is Kind.ADD:
            return self._absent[:1]
        if kind is Kind.REMOVE and len(self._present) <= _LEAST_INSTANCES:
            return []
        return [name for name in self._present if self._busy_until[name] <= now]

    def _lasting(self, kind: Kind) -> float:
        """Stops, cuts and freezes end well before the session does, or well after it."""
        uniform = self._random.uniform
        if kind in (Kind.ADD, Kind.REMOVE, Kind.FLIP, Kind.DELETE):
            return 0.0
        if kind in (Kind.KILL, Kind.TERMINATE, Kind.WIPE, Kind.WIPE_ALL, Kind.RESTART_S3, Kind.FREEZE_S3):
            return uniform(0.5, 2 * SESSION)
        if kind is Kind.RESTART_BROKER:
            return uniform(0.5, 2.0)
        short = self._random.random() < 0.4
        return uniform(0.3, 0.6 * SESSION) if short else uniform(1.3 * SESSION, 2.2 * SESSION)

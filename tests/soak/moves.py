"""Decides by the seed alone which hand-overs an application goes through, and counts those that its output shows.

Pure; called by the driver before a run and when it is over. A hand-over is one task that goes on elsewhere: the output
names the run of the task that wrote it, so a move of twenty tasks shows twenty hand-overs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from faults import AT_LEAST_ONCE, NAMES, Plan
from verification import Update

PRESENT = 3


class MoveKind(Enum):
    """The kinds of moves; the value is the text that reports one."""

    RESTART = "rolling restart"
    DRAIN = "drain"
    SCALE_UP = "scaling up"
    SCALE_DOWN = "scaling down"
    KILL_OWNER = "kill -9 of the owner"
    KILL_HEIR = "kill -9 of the heir"
    #: Follows other moves: tasks come back to an instance that came back.
    BALANCE = "balancing"


PLANNED = (MoveKind.RESTART, MoveKind.DRAIN, MoveKind.SCALE_UP)
KILLS = (MoveKind.KILL_OWNER, MoveKind.KILL_HEIR)


@dataclass(frozen=True)
class Move:
    """Something is done to one instance."""

    kind: MoveKind
    target: str
    #: The heir that is killed.
    heir: str = ""
    #: So many seconds after the hand-over began, an owner or an heir is killed in the middle of it.
    pause: float = 0.0
    #: The owner is killed while it hands its tasks over.
    drains: bool = False
    #: A killed instance is taken out of the group by what saw it end, as by a supervisor; else it is back at once, in
    #: the same state directory.
    told: bool = False

    def __str__(self) -> str:
        more = [f"heir {self.heir}"] if self.heir else []
        more += ["while it drains"] if self.drains else []
        more += [f"after {self.pause:.2f} s"] if self.pause else []
        more += ["taken out"] if self.told else []
        return " ".join([self.kind.value, self.target, *more])


@dataclass(frozen=True)
class MovesPlan(Plan):
    """One run whose instances come and go, and meet no other fault."""

    moves: tuple[Move, ...] = ()

    @property
    def kinds(self) -> set[MoveKind]:
        """The kinds of hand-overs that it makes."""
        return {move.kind for move in self.moves} | {MoveKind.BALANCE}

    @property
    def deeds(self) -> Sequence[object]:
        return self.moves

    @property
    def repeats(self) -> bool:
        """Says whether records may be processed twice: not by moves that are planned, in either guarantee."""
        return self.guarantee == AT_LEAST_ONCE and not self.kinds.isdisjoint(KILLS)

    @property
    def names(self) -> list[str]:
        return list(NAMES[: PRESENT + 1])

    @property
    def cut_off(self) -> list[str]:
        return []

    @property
    def killed(self) -> set[str]:
        return {name for move in self.moves if move.kind in KILLS for name in (move.target, move.heir)}


def make_moves(seed: int, guarantee: str, count: int, partitions: int) -> MovesPlan:
    """The plan of a seed. At least once odd seeds have no kills, so that no result may come twice."""
    chosen = random.Random(seed)
    planned = guarantee == AT_LEAST_ONCE and seed % 2
    kinds = PLANNED if planned else (*PLANNED, *KILLS) if guarantee != AT_LEAST_ONCE else KILLS
    order = [kind for _ in range(count // len(kinds) + 1) for kind in chosen.sample(kinds, len(kinds))][:count]
    return MovesPlan(
        seed,
        guarantee,
        tuple(NAMES[:PRESENT]),
        commit_interval_ms=100,
        threads=chosen.choice((1, 2)),
        standby_replicas=1,
        faults=(),
        session=12.0,  # a dead member is taken out by what saw it end; a machine may be busy
        rate=100,
        partitions=partitions,
        # A copy that is a second behind has to catch up first.
        settings=(("acceptable_recovery_lag", 50), ("max_warmup_replicas", 2 * partitions)),
        moves=tuple(move for kind in order for move in _moves(kind, chosen)),
    )


def _moves(kind: MoveKind, chosen: random.Random) -> Iterator[Move]:
    present, extra = NAMES[:PRESENT], NAMES[PRESENT]
    target, heir = chosen.sample(present, 2)
    if kind is MoveKind.SCALE_UP:
        yield Move(kind, extra)
        yield Move(MoveKind.SCALE_DOWN, extra)
    elif kind is MoveKind.KILL_OWNER:
        drains = chosen.random() < 0.5
        yield Move(kind, target, "", round(chosen.uniform(0, 0.5), 2) if drains else 0.0, drains, chosen.random() < 0.7)
    elif kind is MoveKind.KILL_HEIR:
        yield Move(kind, target, heir, round(chosen.uniform(0, 0.5), 2), True, chosen.random() < 0.7)
    else:
        yield Move(kind, target)


class Ended(NamedTuple):
    """A process that was ended, at this time in milliseconds of the wall clock."""

    at_ms: float
    #: The name of one start of an instance, such as ``a.2``.
    process: str
    kind: MoveKind


def described(counts: Counter[MoveKind]) -> str:
    """The numbers of hand-overs of each kind."""
    return f"{counts.total()} hand-overs: " + ", ".join(f"{kind.value} {counts[kind]}" for kind in MoveKind)


def count_hand_overs(updates: Iterable[Update], ended: Sequence[Ended]) -> Counter[MoveKind]:
    """The hand-overs that the updates of one sink show.

    One is a hand-over of the kind in which the process that had the task was ended. If that lives, or lived then, the
    new instance has come to its share, or the others to theirs.
    """
    kinds = {each.process: each for each in ended}
    found: Counter[MoveKind] = Counter()
    writers: dict[str, str] = {}
    for update in sorted(updates, key=attrgetter("at_ms")):
        before = writers.get(update.task, update.writer)
        writers[update.task] = update.writer
        if before == update.writer:
            continue
        end = kinds.get(process_of(before))
        if end is not None and end.at_ms <= update.at_ms:
            found[end.kind] += 1
        else:
            found[MoveKind.SCALE_UP if update.writer.startswith(NAMES[PRESENT]) else MoveKind.BALANCE] += 1
    return found


def process_of(writer: str) -> str:
    """The process of a task's run, such as ``a.2`` of ``a.2.17``."""
    return writer.rpartition(".")[0]

"""The number of tasks that is each member's fair share.

Called by the assignor, on the membership's thread; pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Shares:
    """Fair shares by member number; ``most`` is the share rounded up: up to there a member is not too full."""

    quota: list[int]
    most: list[int]


def fair_shares(
    count: int, members: Sequence[int], weight: Sequence[int], base: Sequence[int], owned: Sequence[int]
) -> Shares:
    """Divide ``count`` tasks so that, with ``base`` that each has already, loads are proportional to weights.

    Tasks that cannot be divided evenly go one by one to members that own more than their share rounded down. So a
    division that is already as even as possible stays as it is. Before them come members whose load would stay below
    what it would be if no member had a base.
    """
    quota, most = [0] * len(weight), [0] * len(weight)
    level, unit, sharing = _level(count, members, weight, base)
    for m in sharing:
        share, rest = divmod(weight[m] * level, unit)
        quota[m] = share - base[m]
        most[m] = quota[m] + (rest > 0)
    uneven = [m for m in sharing if most[m] > quota[m]]
    total, whole = count + sum(base[m] for m in members), sum(weight[m] for m in members)
    uneven.sort(
        key=lambda m: (
            base[m] + quota[m] >= weight[m] * total // whole,
            owned[m] <= quota[m],
            -(weight[m] * level % unit),
            m,
        )
    )
    for m in uneven[: count - sum(quota)]:
        quota[m] += 1
    return Shares(quota, most)


def _level(
    count: int, members: Sequence[int], weight: Sequence[int], base: Sequence[int]
) -> tuple[int, int, Sequence[int]]:
    """The common load per weight as a fraction, and the members that are below it, which share the tasks."""
    sharing = members
    while True:
        level = count + sum(base[m] for m in sharing)
        unit = sum(weight[m] for m in sharing)
        below = [m for m in sharing if weight[m] * level > base[m] * unit]
        if len(below) == len(sharing) or not below:
            return level, unit, below
        sharing = below

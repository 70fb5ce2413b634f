"""Kills the process at a step of a hand-over by a cut: in the middle of it, with nothing that runs at the end of a
process. Called by ``killable.py`` before an instance starts; the steps happen on its polling thread."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from typing import Any

from streamsapp.membership.api import Assignment
from streamsapp.membership.member import GroupMember
from streamsapp.record import TaskId
from streamsapp.runtime.commit import Commit
from streamsapp.runtime.hand_overs import PLANNED, HandOvers, _Coming
from streamsapp.runtime.last_commits import LastCommits

#: The owner: it is told of the cut; is about to send it; has the answer, and its disk has nothing of that commit; is
#: about to have the group assign anew.
OWNERS = ("told", "sends", "committed", "through")
#: The heir: it is named; the task is its own; the task is restored; has read its first record; its first results count.
HEIRS = ("named", "assigned", "restored", "read", "counted")


def die_at(step: str) -> None:
    """Die the first time that this instance reaches the step."""
    if step in ("told", "named"):
        _before(HandOvers, "assigned", _told if step == "told" else _named)
    elif step == "sends":
        _after(LastCommits, "offsets", lambda last, _: any(it.task.control.handed_over for it in last._epochs))
    elif step == "committed":
        _before(Commit, "_apply", lambda _, epoch, written: epoch.task.control.handed_over)
    elif step == "through":
        _before(GroupMember, "handed_over", lambda _: True)
    elif step == "counted":
        _after(HandOvers, "_end", lambda it, _: any(each.kind == PLANNED for each in it.last))
    else:
        _after(_Coming, "reach", lambda it, _: it.kind == PLANNED and step in it.steps)


def _told(_: HandOvers, assignment: Assignment, here: Iterable[TaskId]) -> bool:
    return bool(assignment.by_cut & frozenset(here) - assignment.active)


def _named(_: HandOvers, assignment: Assignment, here: Iterable[TaskId]) -> bool:
    return bool(assignment.coming)


def _before(owner: type, name: str, reached: Callable[..., bool]) -> None:
    method = getattr(owner, name)

    def wrapper(self: Any, *arguments: Any, **named: Any) -> Any:
        _kill(reached(self, *arguments, **named))
        return method(self, *arguments, **named)

    setattr(owner, name, wrapper)


def _after(owner: type, name: str, reached: Callable[[Any, Any], bool]) -> None:
    method = getattr(owner, name)

    def wrapper(self: Any, *arguments: Any, **named: Any) -> Any:
        result = method(self, *arguments, **named)
        _kill(reached(self, result))
        return result

    setattr(owner, name, wrapper)


def _kill(reached: bool) -> None:
    if reached:
        os.kill(os.getpid(), signal.SIGKILL)

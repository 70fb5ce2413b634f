"""Makes the moves of a plan, one after the other: each begins when all tasks run and have a standby again.

Called by the run, on the driver's main thread.
"""

from __future__ import annotations

import http.client
import random
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from application import FIRST, Topics
from fleet import SHUTDOWN_TIMEOUT, Fleet, Instance
from gaps import Disturbance
from lag_watch import status_of
from moves import Ended, Move, MoveKind, MovesPlan, process_of
from topic_reader import TopicReader, updates_of

#: For an application to be at rest again after a move.
TO_SETTLE = 240.0
_TICK, _LOOK = 0.05, 0.2
#: A standby that is no more records behind is one.
_BEHIND = 200
#: For an answer of a busy instance.
_ANSWER = 10.0
#: Between two moves, at most.
_REST = 0.5


class Mover:
    """One run's moves, in the place of faults."""

    def __init__(self, plan: MovesPlan, fleet: Fleet, topics: Topics, bootstrap_servers: str) -> None:
        self._plan, self._fleet, self._topics = plan, fleet, topics
        self._reader = TopicReader(bootstrap_servers, [topics.sink(FIRST)], topics.partitions)
        #: The process that wrote the last committed result of each task of the first sub-topology.
        self._writers: dict[str, str] = {}
        self._chosen = random.Random(plan.seed)
        self.began_ms = time.time() * 1000
        self.ended: list[Ended] = []
        #: Nothing that happens here is a reason for an instance to write nothing.
        self.disturbances: list[Disturbance] = []
        self.findings: list[str] = []
        self._do: dict[MoveKind, Callable[[Move], None]] = {
            MoveKind.RESTART: self._restart,
            MoveKind.DRAIN: self._drain,
            MoveKind.SCALE_UP: lambda move: fleet[move.target].start(),
            MoveKind.SCALE_DOWN: self._leave,
            MoveKind.KILL_OWNER: self._kill_owner,
            MoveKind.KILL_HEIR: self._kill_heir,
        }

    def run(self) -> None:
        """Until every move is made, or one of them does not end."""
        self._settle("the start")
        for move in self._plan.moves:
            if self.findings:
                break
            time.sleep(self._chosen.uniform(0, _REST))
            self._do[move.kind](move)
            self._settle(str(move))
        self._reader.close()

    def look_after(self, instances: Iterable[Instance]) -> None:
        """Notice instances that ended by themselves."""
        for instance in instances:
            if (code := instance.ended_by_itself) is not None:
                self.findings.append(f"{instance.name} ended by itself with {code}: {instance.last_words()}")
                instance.forget()

    # ---- the moves

    def _restart(self, move: Move) -> None:
        self._end(self._fleet[move.target], move.kind)
        self._fleet[move.target].start()

    def _drain(self, move: Move) -> None:
        """As the operator does it: the instance stays until it is ended."""
        target = self._fleet[move.target]
        self._note(target, move.kind)
        if (answer := _post(target, f"/drain?timeout={SHUTDOWN_TIMEOUT}", SHUTDOWN_TIMEOUT + 10)) != http.client.OK:
            self.findings.append(f"{move}: the answer was {answer}")
        target.ask_to_end()
        self._ended(target)
        target.start()

    def _leave(self, move: Move) -> None:
        self._end(self._fleet[move.target], move.kind)
        self._fleet[move.target].lose_disk()

    def _kill_owner(self, move: Move) -> None:
        target = self._fleet[move.target]
        if move.drains:
            target.ask_to_end()
            began = time.time()
            time.sleep(move.pause)
            self._note(target, MoveKind.KILL_OWNER if target.runs else MoveKind.RESTART, began)
        else:
            self._note(target, MoveKind.KILL_OWNER)
        self._kill(target, told=move.told)
        target.start()

    def _kill_heir(self, move: Move) -> None:
        """The owner goes on handing over, to the others."""
        owner, heir = self._fleet[move.target], self._fleet[move.heir]
        owner.ask_to_end()
        began = time.time()
        time.sleep(move.pause)
        under_way = owner.runs
        self._note(owner, MoveKind.KILL_HEIR if under_way else MoveKind.RESTART, began)
        self._note(heir, MoveKind.KILL_HEIR if under_way else MoveKind.KILL_OWNER)
        self._kill(heir, told=move.told)
        self._ended(owner)
        for each in (owner, heir):
            each.start()

    def _note(self, instance: Instance, kind: MoveKind, at: float | None = None) -> None:
        """The present process of an instance is ended, as a move of this kind."""
        self.ended.append(Ended(1000 * (at or time.time()), instance.process_name, kind))

    def _kill(self, instance: Instance, *, told: bool) -> None:
        instance.kill()
        if not told:
            return
        members = _members(instance.state_directory / self._topics.application)
        others = [each for each in self._fleet.instances.values() if each.awake and each.runs]
        if members and others:
            told_to = self._chosen.choice(others)
            _post(told_to, f"/ended?{'&'.join(f'member={quote(each)}' for each in members)}", 10.0)
            self._wait(lambda: self._all_run(others), "the tasks of a killed instance are taken over")

    def _end(self, instance: Instance, kind: MoveKind) -> None:
        self._note(instance, kind)
        instance.ask_to_end()
        self._ended(instance)

    def _ended(self, instance: Instance) -> None:
        while (how := instance.ended()) is None:
            time.sleep(_TICK)
        if how:
            self.findings.append(how)

    # ---- waiting

    def _settle(self, after: str) -> None:
        self._wait(self._at_rest, f"rest after {after}")

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + TO_SETTLE
        while not holds():
            self.look_after(self._fleet.instances.values())
            if time.monotonic() > give_up:
                self.findings.append(f"{what} did not come within {TO_SETTLE:.0f} s")
            if self.findings:
                return
            time.sleep(_LOOK)

    def _all_run(self, instances: Iterable[Instance]) -> bool:
        found = _tasks(instances)
        return found is not None and sorted(task for active, _ in found for task in active) == self._every_task()

    def _at_rest(self) -> bool:
        """Says whether every task runs once and has a standby, and each instance has its share of them."""
        running = [each for each in self._fleet.instances.values() if each.awake and each.runs]
        every = self._every_task()
        found = _tasks(running)
        if found is None or sorted(task for active, _ in found for task in active) != every:
            return False
        share = len(every) // len(running)
        if not all(self._writers_are(instance, active) for instance, (active, _) in zip(running, found, strict=True)):
            return False
        return (
            all(len(active) >= share for active, _ in found)
            and sorted(t for _, copies in found for t in copies) == every
        )

    def _writers_are(self, instance: Instance, tasks: Iterable[str]) -> bool:
        """Says whether these tasks have results by this process. All of the first sub-topology have input."""
        for update in updates_of(self._reader.read_more(_TICK)):
            self._writers[update.task] = process_of(update.writer)
        first = [task for task in tasks if task.startswith("0_")]
        return all(self._writers.get(task) == instance.process_name for task in first)

    def _every_task(self) -> list[str]:
        return sorted(f"{part}_{each}" for part in range(2) for each in range(self._topics.partitions))


def _tasks(instances: Iterable[Instance]) -> list[tuple[list[str], list[str]]] | None:
    """The active tasks that run on each instance, and its standbys that are not behind; ``None`` if one does not
    answer."""
    found = []
    for instance in instances:
        if (status := status_of(instance, _ANSWER)) is None:
            return None
        active, copies = [], []
        for task in status["tasks"]:
            if task["role"] == "active" and task["state"] == "RUNNING":
                active.append(task["id"])
            elif task["role"] == "standby" and all((it["lag"] or 0) <= _BEHIND for it in task["stores"]):
                copies.append(task["id"])
        found.append((active, copies))
    return found


def _members(folder: Path) -> list[str]:
    """The ids under which the processes of a state directory were in the group."""
    with suppress(OSError):
        return (folder / ".member-id").read_text("ascii").split()[1:]
    return []


def _post(instance: Instance, path: str, timeout: float) -> int:
    """The status of an answer; 0 without one."""
    connection = http.client.HTTPConnection("127.0.0.1", instance.http_port, timeout=timeout)
    try:
        connection.request("POST", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()

"""One member of a group, and the coordinator that answers it as a test says. Used by tests of the group protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError

from streamsapp.brokers.connection import Check
from streamsapp.membership.classic_protocol import GroupMembership
from streamsapp.membership.member_id import MemberId
from streamsapp.membership.wire import GroupSettings, Identity
from streamsapp.testing import MockClock

OK = KafkaError.NO_ERROR
RESTING = 0.005


class WakeUp:
    """Waits for a moment where a test would wait for long, and notes for how long it was to be."""

    def __init__(self, pauses: list[float]) -> None:
        self._rung = asyncio.Event()
        self._pauses = pauses

    def notify(self) -> None:
        self._rung.set()

    async def wait(self, timeout: float | None = None) -> None:
        if timeout is not None:
            self._pauses.append(timeout)
            timeout = min(timeout, 0.001)
        try:
            async with asyncio.timeout(timeout):  # wait_for loses a cancellation that comes with its own
                await self._rung.wait()
        except TimeoutError:
            return
        self._rung.clear()


class Coordinator:
    """The connection and the coordinator at its other end. Answers are codes, taken in turn, the last one for ever; an
    ``Exception`` is raised, a ``Future`` waited for."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.answers: dict[str, list[Any]] = {
            "FindCoordinatorRequest": [OK],
            "JoinGroupRequest": [OK],
            "SyncGroupRequest": [OK],
            "HeartbeatRequest": [OK],
            "LeaveGroupRequest": [OK],
        }
        self.generation = 0
        #: Says whether the member has its assignment.
        self.assigned = False
        self.hung_up: list[Any] = []
        self.pauses: list[float] = []

    def wake_up(self) -> WakeUp:
        return WakeUp(self.pauses)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(min(seconds, 0.001))

    async def hang_up(self, node: Any) -> None:
        self.hung_up.append(node)

    def two_ways_to(self, coordinator: Any, kind: int, key: str) -> tuple[str, str]:
        return "for joining", "for the rest"

    async def ask_any(self, request: Callable[[], Any], timeout: float, check: Check[Any]) -> Any:
        return await self.send(request(), "any", timeout, check)

    async def send(self, request: Any, node: Any, timeout: float, check: Check[Any], held: float = 0.0) -> Any:
        answer = await self._answer(request)
        check(answer)
        return answer

    async def _answer(self, request: Any) -> Any:
        name = request.name
        self.requests.append(request)
        script = self.answers[name]
        # How many heartbeats are sent while the member joins is chance: they use no answer up.
        by_chance = name == "HeartbeatRequest" and not self.assigned
        answer = script.pop(0) if len(script) > 1 and not by_chance else script[0]
        if isinstance(answer, asyncio.Future):
            answer = await answer
        await asyncio.sleep(0)
        if isinstance(answer, Exception):
            raise answer
        if name == "JoinGroupRequest" and answer == OK:
            self.generation += 1
        if name == "JoinGroupRequest":
            self.assigned = False
        return SimpleNamespace(
            error_code=answer,
            coordinators=[],
            generation_id=self.generation,
            member_id=request.message.member_id or "member-1" if name == "JoinGroupRequest" else "",
            leader="somebody",
            skip_assignment=False,
            members=[],
            protocol_name="streamsapp",
            assignment=b"an assignment",
        )

    def of(self, name: str) -> list[Any]:
        return [getattr(it, "message", it) for it in self.requests if it.name == f"{name}Request"]


class Recorder:
    """Remembers the calls for the member."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.assignments: list[Identity] = []
        self.losses: list[str] = []
        self.errors: list[Exception] = []
        self.resting = self.expects_rebalance = False

    async def prepare(self) -> None:
        await asyncio.sleep(0)

    def joined(self) -> None:
        """The generation before is over."""

    def subscription(self) -> bytes:
        return b"a subscription"

    async def lead(self, members: Mapping[str, bytes]) -> dict[str, bytes]:
        raise AssertionError("somebody leads")

    def assigned(self, identity: Identity, data: bytes) -> None:
        self.assignments.append(identity)
        self._coordinator.assigned = True

    def lost(self, reason: str) -> None:
        self.losses.append(reason)

    def failed(self, error: Exception) -> None:
        self.errors.append(error)


class Play:
    """One member, its coordinator, and time that stands still unless the test moves it."""

    def __init__(self, member_id: MemberId) -> None:
        self.clock = MockClock()
        self.coordinator = Coordinator()
        self.told = Recorder(self.coordinator)
        settings = GroupSettings("group", None, 6.0, 0.002, 60.0, resting_interval=RESTING)
        self.group = GroupMembership(self.coordinator, settings, member_id, self.told, self.clock)  # type: ignore[arg-type]

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                await asyncio.sleep(0.001)

    async def stable(self) -> None:
        """Joined, and one heartbeat answered."""
        await self.until(lambda: self.told.assignments and self.coordinator.of("Heartbeat"))


Scene = Callable[[Play], Coroutine[Any, Any, None]]


def play(scene: Scene, member_id: MemberId | None = None, /, **answers: list[Any]) -> Play:
    """Let the member live while the scene is played."""

    async def run() -> Play:
        it = Play(member_id or MemberId(None))
        for name, script in answers.items():
            it.coordinator.answers[f"{name}Request"] = script
        lives = [asyncio.ensure_future(it.group.joins()), asyncio.ensure_future(it.group.heartbeats())]
        try:
            await scene(it)
        finally:
            for life in lives:
                life.cancel()
            await asyncio.gather(*lives, return_exceptions=True)
        return it

    return asyncio.run(run())


async def assigned_twice(it: Play) -> None:
    """Waits for the second assignment."""
    await it.until(lambda: len(it.told.assignments) == 2)

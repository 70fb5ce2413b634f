"""The owner or the heir of tasks is killed at each step of a hand-over by a cut, under load: the rest of the group goes
on, and no result is lost or, exactly once, doubled."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from counting_group import MORTAL, PARTITIONS, TASKS, Group, caught_up, running
from deadly_steps import HEIRS, OWNERS
from instances import TIMEOUT, Instances, eventually
from streamsapp import StreamsRuntime, clock
from streamsapp.local.broker import EmbeddedBroker

#: A hand-over begins once the heir has caught up; half of the tasks move to one that joins.
HALF = PARTITIONS // 2


@pytest.fixture
def group(instances: Instances, guarantee: str) -> Iterator[Group]:
    made = Group(instances, guarantee, kafka=MORTAL)
    yield made
    if made.load is not None:
        made.load.stop()


@contextmanager
def drained(group: Group) -> Iterator[StreamsRuntime]:
    """One of two instances drains under load; the block is in the middle of that. Gives the heir of its tasks."""
    owner, heir = group.start("a"), group.start("b")
    group.feed()
    eventually(lambda: caught_up(owner, heir))
    draining = threading.Thread(target=owner.drain, daemon=True)
    draining.start()
    time.sleep(0.1)

    yield heir

    draining.join(TIMEOUT)
    assert not draining.is_alive()
    eventually(lambda: running(heir) == TASKS)
    group.verify()


@pytest.mark.long
@pytest.mark.parametrize("step", OWNERS)
def test_the_owner_dies(group: Group, step: str) -> None:
    owner = group.instances.process("count_until", group.config("a"), source=group.source, sink=group.sink, step=step)
    group.feed()
    eventually(lambda: group.kafka.read(group.sink), "results of the owner")

    heir = group.start("b")

    eventually(lambda: owner.was_killed, f"the end of the owner, at {step}")
    eventually(lambda: running(heir) == TASKS)
    group.verify()


@pytest.mark.long
@pytest.mark.parametrize("step", HEIRS)
def test_the_heir_dies(group: Group, step: str) -> None:
    owner = group.start("a")
    group.feed()
    eventually(lambda: running(owner) == TASKS)

    heir = group.instances.process("count_until", group.config("b"), source=group.source, sink=group.sink, step=step)

    eventually(lambda: heir.was_killed, f"the end of the heir, at {step}")
    eventually(lambda: running(owner) == TASKS)
    group.verify()


@pytest.mark.long
@pytest.mark.parametrize("hours", [-1, 1])
def test_the_wall_clock_jumps(group: Group, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of both instances, in the middle of a drain. A machine's own clock is not a test's to set."""
    with drained(group) as heir:
        now = clock.SystemClock.now_ms
        monkeypatch.setattr(clock.SystemClock, "now_ms", lambda it: now(it) + hours * 3_600_000)
    assert all(0 <= each["gapSeconds"] < TIMEOUT for each in heir.status()["handOvers"])


@pytest.mark.long
def test_the_broker_is_bounced(own_broker: EmbeddedBroker, there: Instances) -> None:
    """At least once: exactly once, a single broker that restarts can lose a transaction's markers (decision 7)."""
    group = Group(there, "at_least_once")
    with drained(group):
        own_broker.kill()
        own_broker.start()

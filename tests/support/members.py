"""Group members as tests see them: without tasks that really run, polled by the test itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_cluster import Kafka
from streamsapp import StreamsConfig, TaskId, TopicPartition
from streamsapp.clock import SystemClock
from streamsapp.membership.api import Assignment, GroupTasks, Holdings, Lost, MatchedTopics, News, TaskInfo
from streamsapp.membership.assignor.model import AssignorSettings, MemberPlan, MemberState, Plan
from streamsapp.membership.member import GroupMember
from streamsapp.membership.member_id import MemberId

#: Longer than anything takes that works.
TIMEOUT = 100.0
#: A session that lasts longer than a test waits: no event of a test comes from its end.
ENDLESS = {"session.timeout.ms": "250000"}


class Dealer:
    """Deals tasks to the members in turn, who keep what they have while it is their share."""

    def assign(self, members: Mapping[str, MemberState], settings: AssignorSettings) -> Plan:
        names = sorted(name for name, state in members.items() if state.definitions)
        tasks = sorted({task for state in members.values() for task in state.definitions})
        owner = {task: name for name in names for task in members[name].active}
        share = -(-len(tasks) // max(1, len(names)))
        dealt: dict[str, set[TaskId]] = {name: set() for name in names}
        for task in [each for each in tasks if each in owner]:
            if len(dealt[owner[task]]) < share:
                dealt[owner[task]].add(task)
        for task in [each for each in tasks if each not in owner]:
            dealt[min(names, key=lambda name: (len(dealt[name]), name))].add(task)
        return Plan({name: MemberPlan(active=frozenset(active)) for name, active in dealt.items()})


def tasks_of(topic: str, partitions: int, *, stateful: bool = True) -> dict[TaskId, TaskInfo]:
    """One task for each partition of a topic."""
    return {
        TaskId(0, each): TaskInfo(frozenset({TopicPartition(topic, each)}), stateful=stateful)
        for each in range(partitions)
    }


class FixedTasks:
    """An application that names its topics: implements ``TaskCatalogue``."""

    def __init__(self, tasks: Mapping[TaskId, TaskInfo]) -> None:
        self._tasks = GroupTasks(tasks)

    def found(self) -> GroupTasks:
        return self._tasks

    def decided(self, matched: Mapping[int, MatchedTopics]) -> GroupTasks:
        assert matched == {}
        return self._tasks


class Instance:
    """A member and the tasks it would run: takes on what it is assigned, gives up at once what it is to give up."""

    def __init__(
        self, config: StreamsConfig, tasks: Mapping[TaskId, TaskInfo], assignor: Any, directory: Path | None = None
    ) -> None:
        self.config = config
        self.tasks = tasks
        self.member = GroupMember(config, SystemClock(), assignor, partial(MemberId, directory))
        self.held = Holdings()
        self.news: list[News] = []
        #: Says whether it gives up tasks by itself.
        self.gives_up = True
        #: Says whether its polling thread is alive.
        self.polls = True
        self.member.start(FixedTasks(tasks), lambda: self.held)

    @property
    def active(self) -> set[int]:
        """The partitions of the tasks it runs."""
        return {task.partition for task in self.held.active}

    @property
    def generation(self) -> int:
        """Of the last assignment it was given."""
        return max((news.generation for news in self.news if isinstance(news, Assignment)), default=0)

    @property
    def assignment(self) -> Assignment:
        """The last it was given."""
        return next(news for news in reversed(self.news) if isinstance(news, Assignment))

    @property
    def losses(self) -> list[Lost]:
        return [news for news in self.news if isinstance(news, Lost)]

    def step(self) -> None:
        """One look at the news, as the polling thread takes it."""
        if not self.polls:
            return
        news = self.member.poll()
        if news is None:
            return
        self.news.append(news)
        if isinstance(news, Lost):
            self.held = Holdings()
        elif isinstance(news, Assignment):
            gone = self.held.active - news.active
            if self.gives_up or not gone:
                self.held = Holdings(news.generation, news.active)
            if gone and self.gives_up:
                self.member.rejoin()

    def kill(self) -> None:
        """No word to anybody, and no heartbeat any more."""
        self.polls = False
        assert self.member._connection is not None
        self.member._connection.close(5.0)


class Members:
    """Instances of one application at a time, polled in turn by the test."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self._all: list[Instance] = []

    def config(self, application_id: str, **settings: Any) -> StreamsConfig:
        """Quick to notice a dead member."""
        properties = {"session.timeout.ms": "2000", "heartbeat.interval.ms": "100", **settings.pop("kafka", {})}
        servers = settings.pop("bootstrap_servers", self.kafka.bootstrap_servers)
        return StreamsConfig(application_id=application_id, bootstrap_servers=servers, kafka=properties, **settings)

    def join(
        self,
        application_id: str,
        tasks: Mapping[TaskId, TaskInfo],
        assignor: Any = None,
        directory: Path | None = None,
        **settings: Any,
    ) -> Instance:
        """One more member, with the ``directory`` for itself; it is a member once the others are polled, too."""
        instance = Instance(self.config(application_id, **settings), tasks, assignor or Dealer(), directory)
        self._all.append(instance)
        return instance

    def until(self, holds: Callable[[], Any], what: str) -> None:
        """Poll all members until it holds."""
        give_up = time.monotonic() + TIMEOUT
        while not holds():
            for instance in self._all:
                instance.step()
            assert time.monotonic() < give_up, f"{what} did not come: {[each.news for each in self._all]}"
            time.sleep(0.005)

    def settled(self, *instances: Instance, partitions: Iterable[int]) -> None:
        """Poll until these instances run these partitions, each one once, in the same generation."""
        wanted = sorted(partitions)

        def holds() -> bool:
            running = sorted(each for instance in instances for each in instance.active)
            busy = any(not instance.active for instance in instances)
            return running == wanted and not busy and len({instance.generation for instance in instances}) == 1

        self.until(holds, f"{wanted} on {len(instances)} instances")

    def leave(self, instance: Instance) -> None:
        """It leaves in good order."""
        instance.polls = False
        instance.member.leave()

    def leave_alone(self, instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
        """It leaves while the others do nothing at all, and has to be heard: it gives up later than this does."""
        monkeypatch.setattr("streamsapp.membership.member.LEAVE", 10 * TIMEOUT)
        leaving = threading.Thread(target=self.leave, args=(instance,), daemon=True)
        leaving.start()
        leaving.join(TIMEOUT)
        assert not leaving.is_alive(), "it waits for the others"

    def close(self) -> None:
        for instance in self._all:
            instance.member.leave()

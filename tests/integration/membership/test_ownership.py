"""No two instances own a task at a time, whatever happens to them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping

import pytest
from confluent_kafka import KafkaException

from kafka_cluster import Kafka
from members import ENDLESS, TIMEOUT, Dealer, Instance, Members, tasks_of
from streamsapp import TaskId
from streamsapp.membership.api import Assignment, Holdings, Lost, TaskInfo
from streamsapp.membership.assignor.assignor import HighAvailabilityTaskAssignor
from streamsapp.membership.assignor.model import AssignorSettings, MemberState, Plan
from streamsapp.serdes.offset_metadata import OffsetMetadata

PARTITIONS = 12


class Ledger:
    """The owners of tasks, by the instances' own account."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owners: dict[TaskId, Instance] = {}
        self.conflicts: list[str] = []
        self.handed = 0

    def take(self, instance: Instance, tasks: frozenset[TaskId]) -> None:
        with self.lock:
            for task in tasks:
                owner = self.owners.get(task)
                if owner not in (None, instance) and owner.member.safe_until > time.monotonic():
                    self.conflicts.append(f"{task} was given to a second owner")
                self.owners[task] = instance
                self.handed += 1

    def give(self, instance: Instance, tasks: frozenset[TaskId]) -> None:
        with self.lock:
            for task in tasks:
                if self.owners.get(task) is instance:
                    del self.owners[task]


class Worker(threading.Thread):
    """The polling thread of an instance, which takes its time."""

    def __init__(self, instance: Instance, ledger: Ledger, seed: int, *, by_cut: bool = False) -> None:
        """``by_cut``: it hands tasks over by a cut where it may."""
        super().__init__(daemon=True)
        self.instance = instance
        self.ledger = ledger
        self.random = random.Random(seed)
        self.by_cut = by_cut
        #: The tasks that it has handed over by a cut, and those that came to it by one.
        self.cut = self.came = 0
        self.stop = threading.Event()

    def run(self) -> None:
        instance, member = self.instance, self.instance.member
        while not self.stop.is_set():
            news = member.poll()
            if isinstance(news, Lost):
                self.ledger.give(instance, instance.held.active)
                instance.held = Holdings()
            elif isinstance(news, Assignment):
                gone = instance.held.active - news.active
                self.came += bool(news.cut) and len(news.active & news.by_cut - instance.held.active)
                self.ledger.take(instance, news.active - instance.held.active)
                instance.held = Holdings(news.generation, instance.held.active | news.active)
                time.sleep(self.random.uniform(0, 0.05))
                gone -= self.hand_over(gone & news.by_cut, news)
                if gone:
                    self.ledger.give(instance, gone)
                    instance.held = Holdings(news.generation, instance.held.active - gone)
                    member.rejoin()
            if self.random.random() < 0.01:
                member.rejoin()
            time.sleep(0.005)

    def hand_over(self, tasks: frozenset[TaskId], news: Assignment) -> frozenset[TaskId]:
        """Commit the cut; returns the tasks that it does not have any more, whatever became of the commit."""
        instance, member = self.instance, self.instance.member
        if not (self.by_cut and tasks and member.begin_commit()):
            return frozenset()
        try:
            if not member.cuts(news.cut):
                return frozenset()
            instance.held = Holdings(news.generation, instance.held.active - tasks)
            self.ledger.give(instance, tasks)
            if self.random.random() < 0.05:
                return tasks  # it dies in the middle, as far as its heirs know
            metadata = OffsetMetadata(cut=news.cut).encode()
            partitions = {each for task in tasks for each in instance.tasks[task].partitions}
            member.commit(dict.fromkeys(partitions, (self.random.randrange(100), metadata)))
            self.cut += len(tasks)
        except KafkaException:
            return tasks
        finally:
            member.end_commit()
            member.handed_over()
        return tasks

    def leave(self) -> None:
        """In good order."""
        self.stop.set()
        self.join()
        self.ledger.give(self.instance, self.instance.held.active)
        self.instance.member.leave()

    def die(self) -> None:
        self.stop.set()
        self.join()
        self.instance.kill()


@pytest.mark.parametrize("by_cut", [False, True], ids=["by rebalances", "by cuts"])
def test_a_task_never_has_two_owners(kafka: Kafka, members: Members, *, by_cut: bool) -> None:
    tasks = tasks_of(kafka.create_topic(partitions=PARTITIONS), PARTITIONS, stateful=False)
    app, ledger, chance = kafka.unique("app"), Ledger(), random.Random(4)
    workers: list[Worker] = []
    everybody: list[Worker] = []

    def join() -> None:
        instance = members.join(app, tasks, HighAvailabilityTaskAssignor() if by_cut else None)
        worker = Worker(instance, ledger, chance.randrange(1000), by_cut=by_cut and chance.random() < 0.8)
        workers.append(worker)
        everybody.append(worker)
        worker.start()

    for _ in range(3):
        join()
    changes, give_up = 0, time.monotonic() + TIMEOUT
    # On a busy machine tasks move slowly: more members come and go until many have moved.
    while changes < 20 or (ledger.handed <= 2 * PARTITIONS and time.monotonic() < give_up):
        changes += 1
        time.sleep(chance.uniform(0.1, 0.5))
        if len(workers) < 3 or (len(workers) < 5 and chance.random() < 0.5):
            join()
        else:
            worker = workers.pop(chance.randrange(len(workers)))
            (worker.die if chance.random() < 0.15 else worker.leave)()

    give_up = time.monotonic() + TIMEOUT
    while set(ledger.owners.values()) - {worker.instance for worker in workers} or len(ledger.owners) < PARTITIONS:
        assert time.monotonic() < give_up, "tasks are left without an owner"
        time.sleep(0.05)
    for worker in workers:
        worker.leave()
    assert ledger.conflicts == []
    assert ledger.handed > 2 * PARTITIONS
    assert any(each.cut for each in everybody) == by_cut
    assert any(each.came for each in everybody) == by_cut


class Listening(Dealer):
    """Remembers what the members said, and may want to look again."""

    def __init__(self, *, follow_up: bool = False) -> None:
        self.heard: list[Mapping[str, MemberState]] = []
        self._follow_up = follow_up

    def assign(self, members: Mapping[str, MemberState], settings: AssignorSettings) -> Plan:
        self.heard.append(members)
        return Plan(super().assign(members, settings).members, self._follow_up)


def test_the_leader_hears_what_changed(kafka: Kafka, members: Members) -> None:
    tasks: Mapping[TaskId, TaskInfo] = tasks_of(kafka.create_topic(partitions=2), 2)
    app, assignor = kafka.unique("app"), Listening()
    one, two = (members.join(app, tasks, assignor, kafka=ENDLESS) for _ in range(2))
    members.settled(one, two, partitions=range(2))
    (other,) = one.held.active

    two.held = Holdings(two.held.generation, two.held.active, {other: 17})
    two.member.rejoin()

    members.until(lambda: any(state.lags == {other: 17} for state in assignor.heard[-1].values()), "the follower's lag")


def test_the_leader_looks_again_when_its_assignor_wants_to(kafka: Kafka, members: Members) -> None:
    tasks = tasks_of(kafka.create_topic(), 1)
    assignor = Listening(follow_up=True)
    config = members.config(kafka.unique("app"), kafka=ENDLESS)
    object.__setattr__(config, "probing_rebalance_interval_ms", 100)
    one = Instance(config, tasks, assignor)
    try:
        while one.generation < 3:
            one.step()
            time.sleep(0.005)
    finally:
        one.member.leave()

    assert one.active == {0}
    assert one.losses == []


def test_a_member_leaves_while_it_waits_for_others(
    kafka: Kafka, members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = tasks_of(kafka.create_topic(partitions=2), 2)
    app = kafka.unique("app")
    one, two = (members.join(app, tasks, kafka=ENDLESS) for _ in range(2))
    members.settled(one, two, partitions=range(2))
    assert one.member.begin_commit()  # which two has to wait for
    two.member.rejoin()
    coordinator = two.member._rebalance.group.coordinator  # type: ignore[union-attr]
    members.until(lambda: coordinator.waiting, "its request to join")

    members.leave_alone(two, monkeypatch)

    one.member.end_commit()
    members.settled(one, partitions=range(2))

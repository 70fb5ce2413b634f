"""Processes that read on and commit by themselves in the lanes of open orders, and who takes them over.

Without an engine: the test orders, and processes are objects with directories of their own.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import pytest

from batched_words import Application, applications
from instances import TIMEOUT, Instances, eventually
from streamsapp.errors import FencedError, StreamsError, TaskCorruptedError
from streamsapp.kafka.sending import AbortableError
from streamsapp.runtime.micro_batches.lanes import DriverClaim
from streamsapp.runtime.micro_batches.model import LaneOrder, LaneReport
from streamsapp.runtime.micro_batches.planning import MicroBatchSize
from streamsapp.runtime.micro_batches.process import LaneProcess

Make = Callable[..., Application]


@pytest.fixture
def make(instances: Instances) -> Iterator[Make]:
    """Makes an application, whose processes are closed at the end."""
    with applications(instances) as make:
        yield make


class ReadingOn:
    """A process that reads on, on a thread of its own, until it is to end or fails."""

    def __init__(
        self, process: LaneProcess, orders: tuple[LaneOrder, ...], check: Callable[[], object], seconds: float = 0.3
    ) -> None:
        self._over = threading.Event()
        self.reports: list[LaneReport] = []
        self.error: BaseException | None = None

        def run() -> None:
            try:
                while not self._over.is_set():
                    self.reports += process.run_on(orders, seconds, check=check)
            except BaseException as error:
                self.error = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def end(self) -> BaseException | None:
        """Returns what ended it, if it was not this call."""
        self._over.set()
        return self.ended()

    def ended(self) -> BaseException | None:
        """Waits for its end."""
        self._thread.join()
        return self.error

    @property
    def records(self) -> int:
        """Records that it has reported."""
        return sum(task.records for report in self.reports for task in report.tasks)


Start = Callable[..., ReadingOn]


@pytest.fixture
def read_on(make: Make) -> Iterator[Start]:
    """Starts a process that reads on, which is ended before it is closed."""
    started: list[ReadingOn] = []

    def new(process: LaneProcess, orders: tuple[LaneOrder, ...], check: Callable[[], object] = bool) -> ReadingOn:
        started.append(ReadingOn(process, orders, check))
        return started[-1]

    yield new
    for each in started:
        each.end()


def counted(app: Application) -> bool:
    """Says whether every word has a result."""
    return len(app.kafka.read(app.counts)) >= app.produced


def test_a_process_reads_on_and_reports_each_record_once(make: Make, read_on: Start) -> None:
    app = make()
    process = app.process()
    reading = read_on(process, app.open_orders(2))
    for _ in range(5):
        app.produce(40)
        time.sleep(0.2)
    eventually(lambda: counted(app), "results")
    eventually(lambda: reading.records >= 2 * app.produced, "reports")
    assert reading.end() is None
    assert reading.records == 2 * app.produced, "each word is read twice: as it came, and grouped"
    outputs = sum(task.outputs for report in reading.reports for task in report.tasks)
    assert outputs == 2 * app.produced
    lags = {each: at for report in reading.reports for task in report.tasks for each, at in task.positions.items()}
    batches = app.batches()
    assert {each: end - lags[each] for each, end in batches.planner.ends.items()} == dict.fromkeys(lags, 0)
    app.check()
    assert app.catch_up(process, lanes=2) == 0, "nothing is left"
    app.produce(20)
    app.catch_up(app.process(), lanes=2)
    app.check()


def commits(app: Application) -> list[int]:
    """The results of each transaction in each partition: behind each of them the broker has written a marker."""
    found: list[int] = []
    for partition in range(2):
        offsets = [message.offset() or 0 for message in app.kafka.read(app.counts) if message.partition() == partition]
        ends = [at for at, (offset, after) in enumerate(pairwise(offsets), 1) if after > offset + 1]
        found += [until - since for since, until in pairwise([0, *ends, len(offsets)])]
    return found


def test_a_commit_of_a_backlog_has_as_many_records_as_its_lane_may_have(make: Make, read_on: Start) -> None:
    app = make()
    app.size = MicroBatchSize(10, 0)
    app.produce(300)
    reading = read_on(app.process(), app.open_orders())
    eventually(lambda: counted(app), "results")
    assert reading.end() is None
    assert max(commits(app)) <= 10
    app.check()


def test_batches_instances_and_open_lanes_go_on_where_the_others_have_stopped(make: Make, read_on: Start) -> None:
    app = make()
    process = app.process()
    for number in range(2):
        app.produce(50)
        reading = read_on(process, app.open_orders())
        eventually(lambda: counted(app), "results")
        assert reading.end() is None
        config = replace(app.config, state_dir=app.instances.directory / f"instance-{number}")
        app.produce(50)
        instance = app.instances.start(app.topology(), config)
        eventually(lambda: counted(app), "results of the instance")
        assert instance.close()
        eventually(lambda: not app.kafka.members_of(app.config.application_id), "a group without members")
        app.produce(50)
        app.catch_up(process)
    app.check()


def test_who_was_given_up_for_lost_in_the_middle_of_a_commit_changes_nothing_when_he_goes_on(
    make: Make, read_on: Start
) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def seen(word: str) -> None:
        if threading.current_thread() is hanging and app.produced > 40:
            reached.set()
            go_on.wait(TIMEOUT)

    hanging: threading.Thread | None = None
    app = make(seen)
    lost, heir = app.process(), app.process()
    orders = app.open_orders()
    zombie = read_on(lost, orders)
    hanging = zombie._thread
    app.produce(40)
    eventually(lambda: counted(app), "its results")
    app.produce(40)
    assert reached.wait(TIMEOUT)
    reading = read_on(heir, orders)
    eventually(lambda: counted(app), "results of the other one")
    go_on.set()
    assert isinstance(zombie.ended(), FencedError)
    app.produce(40)
    eventually(lambda: counted(app), "the rest")
    assert reading.end() is None
    app.check()


def test_a_driver_that_starts_ends_whoever_reads_on_for_the_one_before(make: Make, read_on: Start) -> None:
    app = make()
    with closing(DriverClaim(app.config)) as before, closing(DriverClaim(app.config)) as claim:
        before.take()

        def check() -> None:
            if not before.proven():
                raise StreamsError("another driver has started")

        reading = read_on(app.process(), app.open_orders(), check)
        app.produce(40)
        eventually(lambda: counted(app), "results")
        claim.take()
        app.produce(40)
        assert str(reading.ended()) == "another driver has started"
        app.catch_up(app.process())
        app.check()


def test_an_instance_that_starts_ends_whoever_reads_on(make: Make, read_on: Start) -> None:
    app = make()
    reading = read_on(app.process(), app.open_orders())
    app.produce(40)
    eventually(lambda: counted(app), "results")
    app.instances.start(app.topology(), app.config)
    app.produce(40)
    eventually(lambda: counted(app), "results of the instance")
    assert isinstance(reading.ended(), FencedError)
    eventually(lambda: counted(app), "results of the instance")
    app.check()


def test_state_that_is_found_damaged_is_restored_in_the_course_of_an_order(make: Make, read_on: Start) -> None:
    fails: list[str] = []

    def seen(word: str) -> None:
        if fails:
            raise TaskCorruptedError(fails.pop())

    app = make(seen)
    reading = read_on(app.process(), app.open_orders())
    app.produce(40)
    eventually(lambda: counted(app), "results")
    fails.append("a bad block")
    app.produce(40)
    eventually(lambda: counted(app), "results")
    assert reading.end() is None
    app.check()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_processes_that_take_lanes_from_each_other_all_the_time_lose_nothing_and_double_nothing(
    make: Make, seed: int
) -> None:
    app = make()
    orders, over, fenced = app.open_orders(2), threading.Event(), []

    def fight(process: LaneProcess, number: int) -> None:
        chance = random.Random(f"{seed}-{number}")
        while not over.is_set():
            try:
                process.run_on([chance.choice(orders)], chance.uniform(0.05, 0.4))
            except (FencedError, AbortableError) as error:
                fenced.append(error)

    threads = [threading.Thread(target=fight, args=(app.process(), number)) for number in range(3)]
    for each in threads:
        each.start()
    for _ in range(40):
        app.produce(10)
        time.sleep(0.2)
    over.set()
    for each in threads:
        each.join()
    assert fenced
    app.catch_up(app.processes[0], lanes=2)
    app.check()

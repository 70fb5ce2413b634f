"""Workers of a driver that another one has taken over from. Real workers, drivers' services and broker; no Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from instances import TIMEOUT, Instances, eventually, produce
from streamsapp.clock import SystemClock
from streamsapp.config import client_properties
from streamsapp.errors import FencedError, StreamsError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.manifest.load import decode
from streamsapp.runtime.application_topics import ApplicationTopics
from streamsapp.runtime.micro_batches.batches import MicroBatches
from streamsapp.runtime.micro_batches.lanes import DriverClaim
from streamsapp.runtime.micro_batches.planning import MicroBatchPlanner, MicroBatchSize
from streamsapp.runtime.micro_batches.process import LaneProcess
from streamsapp_spark.programs.manifest import ManifestProgram
from streamsapp_spark.streaming import worker
from streamsapp_spark.streaming.channel import Server, ask
from streamsapp_spark.streaming.job import EngineJob
from streamsapp_spark.streaming.memory import ExecutorMemory
from streamsapp_spark.streaming.service import MicroBatchService
from streamsapp_spark.streaming.view import Figures
from streamsapp_spark.streaming.worker import pull

_PROGRAM = """
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()


def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT))
    counts = words.group_by_key().count(Materialized("counts", key_serde=TEXT, value_serde=LONG))
    counts.to_stream().to("{counts}", Produced(TEXT, LONG))
    return builder.build()
"""
_OVER = "another driver of this application has started since"


class Words:
    """Words that are counted; each word is its record's key."""

    def __init__(self, instances: Instances, folder: Path) -> None:
        self.kafka = instances.kafka
        self.words, self.counts = (self.kafka.create_topic(each, 2) for each in ("words", "counts"))
        self.produced = 0
        folder.mkdir()
        (folder / "claimed_words.py").write_text(_PROGRAM.format(words=self.words, counts=self.counts))
        self._folder = folder
        self._manifest = {
            "apiVersion": "streamsapp.dev/v1alpha1",
            "kind": "StreamsApp",
            "metadata": {"name": self.kafka.unique("claimed")},
            "spec": {
                "topology": {"entrypoint": "claimed_words:topology"},
                "kafka": {"bootstrapServers": self.kafka.bootstrap_servers},
            },
        }

    def program(self, state: str) -> ManifestProgram:
        """As it is with its own directory for state."""
        return ManifestProgram.of(decode(self._manifest), self._folder, {"state_dir": self._folder / state})

    def produce(self) -> None:
        """Ten to each partition."""
        for partition in range(2):
            produce(self.kafka, self.words, [(b"word-%d" % partition, b"", 1_000)] * 10, partition=partition)
        self.produced += 10

    def counted(self) -> list[list[int]]:
        """The counts of both words, in their order."""
        found: dict[bytes, list[int]] = {b"word-0": [], b"word-1": []}
        for message in self.kafka.read(self.counts):
            found[message.key() or b""].append(int.from_bytes(message.value() or b"", "big"))
        return list(found.values())

    def check(self) -> None:
        expected = [list(range(1, self.produced + 1))] * 2
        eventually(lambda: sum(map(len, self.counted())) >= 2 * self.produced, "results")
        assert self.counted() == expected


class Driver:
    """All that a driver has, but Spark: its part is the test's."""

    def __init__(self, words: Words, name: str, lanes: int, made: ExitStack) -> None:
        self._program = words.program(name)
        self._topology, self._config = self._program.load()
        self._admin = TopicAdmin(client_properties.admin(self._config))
        made.callback(self._admin.close)
        self._layout = ApplicationTopics(self._topology, self._config, self._admin, SystemClock()).look_up()
        self.claim = made.enter_context(closing(DriverClaim(self._config)))
        self.claim.take()
        planner = MicroBatchPlanner({each: plan.inputs for each, plan in self._layout.plans.items()}, lanes)
        self.batches = MicroBatches(self._layout, self._config, self._admin, SystemClock(), planner, catches_up=False)
        self._made = made

    def worker(self) -> Worker:
        """A worker that pulls lanes from this driver."""
        service = MicroBatchService(
            self.batches, MicroBatchSize(1_000, 0.0), 1, Figures(), SystemClock(), self.claim, lambda: None
        )
        server = self._made.enter_context(closing(Server("127.0.0.1", service.serve)))
        name, partitions = self._config.application_id, self._admin.partition_counts()
        job = EngineJob.of(name, self._program, partitions, server.address, ExecutorMemory(1, 0))
        return Worker(job, service, self._made.enter_context(server.address.connect()))

    def process(self) -> LaneProcess:
        """The process of one, which the test orders itself."""
        return self._made.enter_context(closing(LaneProcess(self._topology, self._config, self._layout)))


@dataclass
class Worker:
    """Of one driver's, in this process."""

    job: EngineJob
    service: MicroBatchService
    spark: Connection

    def plan(self) -> None:
        """The driver plans a batch, and begins it."""

        def planned() -> bool:
            offset = ask(self.spark, "latest")
            return bool(self.service._next) and ask(self.spark, "begin", offset["batch"]) == 1

        eventually(planned, "a batch")

    def pull(self) -> None:
        list(pull(self.job, 0))


@pytest.fixture
def made() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack
        while worker._applications:
            assert worker._applications.popitem()[1].close()


@pytest.fixture
def words(instances: Instances, tmp_path: Path) -> Words:
    return Words(instances, tmp_path / "claimed")


def catch_up(driver: Driver, process: LaneProcess) -> None:
    def caught_up() -> bool:
        for order in driver.batches.next():
            driver.batches.report(process.run(order))
        return driver.batches.lag == 0

    eventually(caught_up, "the end")


def test_a_worker_that_was_fenced_takes_nothing_back_from_the_driver_that_has_taken_over(
    words: Words, made: ExitStack
) -> None:
    words.produce()
    old = Driver(words, "old", 2, made).worker()
    old.plan()
    old.pull()
    words.produce()
    old.plan()  # and then it hangs
    heir = Driver(words, "heir", 2, made)
    process = heir.process()
    catch_up(heir, process)
    lanes = dict(process._lanes)

    with pytest.raises(StreamsError, match=_OVER):
        old.pull()

    assert _OVER in str(old.service.failure)
    words.produce()
    catch_up(heir, process)
    assert process._lanes == lanes, "none was fenced, and opened again"
    words.check()


def test_who_divides_the_tasks_otherwise_than_the_driver_before_does_not_count_beside_it(
    words: Words, made: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    words.produce()
    old = Driver(words, "old", 1, made).worker()
    opened, announced, over = threading.Event(), threading.Event(), threading.Event()

    def told_alive(*_: object) -> None:
        opened.set()
        assert announced.wait(TIMEOUT)

    monkeypatch.setattr(old.service, "_alive", told_alive)
    old.plan()  # and then it hangs
    heir = Driver(words, "heir", 2, made)
    process, (_, second) = heir.process(), heir.batches.next()

    def wait_in_transaction() -> None:
        if any(lane._kept for lane in process._lanes.values()):
            announced.set()
            assert over.wait(TIMEOUT)

    with ThreadPoolExecutor() as threads:
        zombie = threads.submit(old.pull)
        eventually(lambda: opened.is_set() or zombie.done(), "a lane of the old driver's")
        running = threads.submit(process.run, second, wait_in_transaction)
        wait([zombie], TIMEOUT)
        over.set()
        running.result(TIMEOUT)
    catch_up(heir, process)
    words.check()
    assert _OVER in str(zombie.exception())


def test_a_driver_that_takes_over_while_a_lane_is_opened_is_found_before_anything_is_read(
    words: Words, made: ExitStack
) -> None:
    words.produce()
    old = Driver(words, "old", 1, made)
    heirs: list[Driver] = []

    def check() -> None:
        assert old.claim.proven() is not bool(heirs)
        if heirs:
            raise StreamsError(_OVER)
        heirs.append(Driver(words, "heir", 2, made))  # which finds no lane that it could fence

    [order] = old.batches.next()
    with pytest.raises(StreamsError, match=_OVER):
        old.process().run(order, bool, check)
    catch_up(heirs[0], heirs[0].process())
    words.check()


def test_a_lane_that_was_opened_in_time_and_has_written_nothing_yet_is_fenced_by_the_driver_that_takes_over(
    words: Words, made: ExitStack
) -> None:
    words.produce()
    old = Driver(words, "old", 1, made)
    heirs: list[Driver] = []

    def alive() -> None:
        if not heirs:  # the lane's tasks are restored
            heirs.append(Driver(words, "heir", 2, made))

    [order] = old.batches.next()
    with pytest.raises(FencedError):
        old.process().run(order, alive, old.claim.proven)
    catch_up(heirs[0], heirs[0].process())
    words.check()

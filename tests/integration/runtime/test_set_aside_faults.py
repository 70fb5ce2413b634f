"""A query that is set aside stays alone through kills, bounces of the broker, rebalances and hand-overs."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from instances import Instances, Process, eventually, last_counts, produce
from killable import two_queries_of_which_one_fails
from streamsapp import ClientState, Scheduling, StreamsConfig, StreamsRuntime
from streamsapp.local.broker import EmbeddedBroker

GUARANTEES = pytest.mark.parametrize(
    "guarantee", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.long)]
)
#: Of the query that fails. Each partition has a record that cannot be processed.
PARTITIONS = 2


class Broken:
    """The two queries: the bulk one fails for a record of each of its partitions until it is mended."""

    def __init__(self, instances: Instances, guarantee: str, **settings: Any) -> None:
        self.instances, self.kafka, self.guarantee = instances, instances.kafka, guarantee
        names = (("fast", 1), ("fast_out", 1), ("bulk", PARTITIONS), ("bulk_out", PARTITIONS))
        self.topics = {name: self.kafka.create_topic(name, partitions) for name, partitions in names}
        self._broken = instances.directory / "broken"
        self._broken.touch()
        self._application_id, self._settings = self.kafka.unique("queries"), settings
        self.sent, self.truth = 0, Counter[bytes]()

    def config(self, name: str) -> StreamsConfig:
        return self.instances.config(
            self._application_id,
            state_dir=self.instances.directory / name,
            client_id=name,
            host_id=name,
            threads=2,
            processing_guarantee=self.guarantee,
            scheduling=[
                Scheduling(source=self.topics["fast"], scheduling_class="latency"),
                Scheduling(source=self.topics["bulk"], scheduling_class="bulk", on_failure="pause"),
            ],
            **self._settings,
        )

    def start(self, name: str) -> StreamsRuntime:
        topology = two_queries_of_which_one_fails(**self.topics, broken=str(self._broken))
        return self.instances.start(topology, self.config(name))

    def process(self, name: str) -> Process:
        arguments = {**self.topics, "broken": str(self._broken)}
        return self.instances.process("two_queries_of_which_one_fails", self.config(name), **arguments)

    def feed(self, values: list[bytes]) -> None:
        """So many records for each partition of the bulk query."""
        for partition in range(PARTITIONS):
            key = b"k%d" % partition
            produce(self.kafka, self.topics["bulk"], [(key, each, 1_000) for each in values], partition=partition)
            self.truth[key] += len(values)

    def ask(self) -> None:
        """The other query answers."""
        self.sent += 1
        produce(self.kafka, self.topics["fast"], [(b"k", b"value", 1_000)])
        eventually(lambda: len(self.kafka.read(self.topics["fast_out"])) >= self.sent, "a result of the fast query")

    def mend(self) -> None:
        self._broken.unlink()

    def check(self) -> None:
        """Everything was counted, and exactly once it was counted and sent once."""
        eventually(lambda: self._counts() == self.truth, "the counts of the bulk query")
        if self.guarantee == "exactly_once":
            assert len(self.kafka.read(self.topics["bulk_out"])) == self.truth.total()
            assert len(self.kafka.read(self.topics["fast_out"])) == self.sent

    def _counts(self) -> dict[bytes, int]:
        return last_counts(self.kafka.read(self.topics["bulk_out"]))


def paused(runtime: StreamsRuntime) -> bool:
    """Say whether the bulk query, and no other one, is set aside there."""
    parts = {each["id"]: each["paused"] for each in runtime.status()["subTopologies"]}
    assert parts.get(0) is None
    return parts.get(1) is not None


def owns(runtime: StreamsRuntime, sub_topology: int) -> int:
    """The number of active tasks of a sub-topology that an instance has."""
    return sum(task["role"] == "active" and str(task["id"]).startswith(f"{sub_topology}_") for task in runtime.tasks())


def _logged(process: Process, text: str) -> Callable[[], bool]:
    return lambda: process.assert_running() and text in process.log.read_text()


def test_after_a_kill_it_is_tried_again_and_set_aside_again_and_is_whole_once_it_is_mended(
    instances: Instances, guarantee: str
) -> None:
    queries = Broken(instances, guarantee)
    queries.feed([b"good"] * 20 + [b"bad"] + [b"good"] * 20)
    for _ in range(2):
        process = queries.process("one")
        eventually(_logged(process, "sub-topology 1 is paused"), "the failing query is set aside")
        queries.ask()
        queries.ask()
        process.kill()
        queries.feed([b"good"] * 5)
    queries.mend()
    process = queries.process("one")
    queries.ask()
    queries.check()
    assert process.close() == 0


def _restart(broker: EmbeddedBroker) -> None:
    broker.stop()
    broker.start()


def _freeze(broker: EmbeddedBroker) -> None:
    """For a while: Kafka loses transaction markers of partitions whose only replica restarts (decision 7)."""
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    time.sleep(5)
    os.kill(broker.pid, signal.SIGCONT)


@pytest.mark.long
@pytest.mark.parametrize(("guarantee", "bounce"), [("exactly_once", _freeze), ("at_least_once", _restart)])
def test_the_broker_may_go_and_come_back_meanwhile(
    own_broker: EmbeddedBroker, there: Instances, guarantee: str, bounce: Callable[[EmbeddedBroker], None]
) -> None:
    queries = Broken(there, guarantee)
    queries.feed([b"good"] * 20 + [b"bad"] + [b"good"] * 20)
    runtime = queries.start("one")
    eventually(lambda: paused(runtime))
    queries.ask()

    bounce(own_broker)

    queries.ask()
    assert paused(runtime)
    assert runtime.state in (ClientState.RUNNING, ClientState.REBALANCING)
    queries.mend()
    runtime.resume(queries.topics["bulk"])
    queries.check()


def test_tasks_that_are_set_aside_move_to_an_instance_that_comes_and_back_when_it_drains(
    instances: Instances, guarantee: str
) -> None:
    """By a rebalance, and then by a cut: the heir tries them, and sets them aside if they fail there, too."""
    queries = Broken(instances, guarantee, standby_replicas=1, acceptable_recovery_lag=100)
    queries.feed([b"good"] * 20 + [b"bad"] + [b"good"] * 20)
    first = queries.start("one")
    eventually(lambda: paused(first))
    queries.ask()

    second = queries.start("two")
    eventually(lambda: owns(first, 1) == owns(second, 1) == 1, "a balanced group")
    eventually(lambda: paused(second), "it fails there, too")
    queries.ask()
    queries.feed([b"good"] * 10)

    assert first.drain()
    eventually(lambda: owns(second, 1) == PARTITIONS, "all tasks")
    queries.ask()
    assert paused(second)

    queries.mend()
    second.resume(queries.topics["bulk"])
    queries.ask()
    queries.check()
    assert second.close()

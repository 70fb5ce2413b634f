"""An application with joins changes hands while records wait for others: each result comes once, none is missing."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable

import pytest

from instances import Instances, eventually, produce, values_per_key
from jvm import Jvm
from kafka_cluster import Kafka
from killable import joins

PARTITIONS = 2


class Joins:
    """The topics of the program, what is written to them, and what must come of it."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        names = ("left", "right", "joined", "orders", "customers", "named")
        self.topics = tuple(kafka.create_topic(name, PARTITIONS) for name in names)
        self.left, self.right, self.joined, self.orders, self.customers, self.named = self.topics
        # Not long ago: the broker deletes what the changelogs of windows have of 1970.
        self._now = (int(time.time()) - 3600) * 1000

    def put(self, topic: str, **values: str) -> None:
        """Write values by key, all within one window."""
        self._now += 1
        produce(self._kafka, topic, [(key.encode(), value.encode(), self._now) for key, value in values.items()])

    def pairs(self) -> Counter[tuple[bytes, bytes]]:
        """Results of the join of streams, but for those of what closes windows."""
        found = ((each.key() or b"", each.value() or b"") for each in self._kafka.read(self.joined))
        return Counter((key, value) for key, value in found if not key.startswith(b"end"))

    def names(self) -> dict[bytes, list[bytes | None]]:
        """Results of the join of tables."""
        return values_per_key(self._kafka.read(self.named))

    def last_names(self) -> dict[bytes, bytes | None]:
        """The last one of each order."""
        return {order: values[-1] for order, values in self.names().items()}

    def close_windows(self) -> None:
        """Move time on in every partition; a record makes the join look for waiting rows, at most once in a second."""
        self._now += 1_000_000
        produce(self._kafka, self.left, [(b"end%d" % number, b"x", self._now) for number in range(20)])
        time.sleep(1)


@pytest.mark.long
def test_joins_that_wait_survive_a_takeover_by_the_jvm_and_back(
    kafka: Kafka, instances: Instances, start_jvm: Callable[..., Jvm], guarantee: str
) -> None:
    run = Joins(kafka)
    config = instances.config(processing_guarantee=guarantee)
    topology = joins(*run.topics)
    run.put(run.left, **{f"k{number}": "l" for number in range(12)})
    run.put(run.right, k0="r", r1="r")
    run.put(run.orders, **{f"o{number}": f"c{number % 4}:tea" for number in range(8)})
    ours = instances.start(topology, config)
    eventually(lambda: len(run.names()) == 8 and run.pairs().total() == 1)
    assert ours.close()

    run.put(run.right, k1="r", k2="r")
    run.put(run.left, j0="l", j1="l", r1="l")
    run.put(run.customers, c0="Ada", c1="Bob")
    theirs = start_jvm(run.topics, config, "Joins")
    assert theirs.description == topology.describe().to_text()
    named = {b"o0": b"c0:tea/Ada", b"o4": b"c0:tea/Ada", b"o5": b"c1:tea/Bob"}
    eventually(lambda: theirs.assert_running() and named.items() <= run.last_names().items())
    eventually(lambda: theirs.assert_running() and run.pairs().total() == 4)
    run.put(run.orders, o0="c2:milk")
    eventually(lambda: theirs.assert_running() and run.last_names()[b"o0"] == b"c2:milk/-")
    theirs.close()

    shutil.rmtree(config.state_dir)
    run.put(run.right, k3="r", j0="r")
    run.put(run.customers, c0="Ann", c2="Cyd")
    ours = instances.start(joins(*run.topics), config)
    named = {b"o0": b"c2:milk/Cyd", b"o4": b"c0:tea/Ann"}
    eventually(lambda: run.pairs().total() == 6 and named.items() <= run.last_names().items())
    joined = {"k0", "k1", "k2", "k3", "j0", "r1"}
    alone = {f"k{number}" for number in range(4, 12)} | {"j1"}
    expected = Counter([(key.encode(), b"l/r") for key in joined] + [(key.encode(), b"l/-") for key in alone])

    def complete() -> bool:
        run.close_windows()
        return run.pairs().total() >= expected.total()

    eventually(complete)
    assert ours.close()
    assert run.pairs() == expected
    assert run.names()[b"o0"] == [b"c0:tea/-", b"c0:tea/Ada", b"c2:milk/-", b"c2:milk/Cyd"]
    assert run.names()[b"o4"] == [b"c0:tea/-", b"c0:tea/Ada", b"c0:tea/Ann"]
    assert run.names()[b"o7"] == [b"c3:tea/-"]

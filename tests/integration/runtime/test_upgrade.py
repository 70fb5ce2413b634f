"""Two versions of an application whose topologies differ, side by side: tasks go where they fit, nothing is lost."""

from __future__ import annotations

from typing import Any

from instances import Instances, counts_per_key, eventually, produce
from streamsapp import Materialized, Produced, Serdes, StreamsBuilder, StreamsConfig, StreamsRuntime, Topology
from streamsapp.dsl.kstream import KStream

PARTITIONS = 2


class Application:
    """Counts the records of each key."""

    def __init__(self, instances: Instances) -> None:
        self.kafka = instances.kafka
        self.source = self.kafka.create_topic("in", partitions=PARTITIONS)
        self.sink = self.kafka.create_topic("out", partitions=PARTITIONS)
        self._instances = instances
        self._id = self.kafka.unique("app")
        self._fed = 0

    def counting(self, source: str = "", *, totals: bool = False, by_length: bool = False) -> Topology:
        """With another store in the same sub-topology, or with a sub-topology more."""
        builder = StreamsBuilder()
        stream: KStream[bytes, bytes] = builder.stream(source or self.source)
        grouped = stream.group_by_key()
        counts = grouped.count(Materialized("counts"))
        counts.to_stream().to(self.sink, Produced(value_serde=Serdes.long()))
        if totals:
            grouped.count(Materialized("totals"))
        if by_length:
            stream.group_by(lambda key, value: b"%d" % len(key)).count(Materialized("lengths"))
        return builder.build()

    def start(self, name: str, topology: Topology) -> StreamsRuntime:
        directory = self._instances.directory / name
        config: StreamsConfig = self._instances.config(
            self._id, state_dir=directory, standby_replicas=1, client_id=name, host_id=name
        )
        return self._instances.start(topology, config)

    def feed(self) -> None:
        """Each of a hundred keys once more."""
        produce(self.kafka, self.source, [(b"k%d" % number, b"", 1000) for number in range(100)])
        self._fed += 1

    def await_counts(self) -> None:
        """Every update of every key, in order and once."""
        wanted = {b"k%d" % number: list(range(1, self._fed + 1)) for number in range(100)}
        eventually(lambda: counts_per_key(self.kafka.read(self.sink)) == wanted, "the counts")


def roles(instance: StreamsRuntime) -> dict[str, str]:
    return {task["id"]: task["role"] for task in instance.tasks() if task["state"] == "RUNNING"}


def stores(instance: StreamsRuntime, task_id: str) -> dict[str, Any]:
    return {
        store["name"]: store["lag"] for task in instance.tasks() if task["id"] == task_id for store in task["stores"]
    }


def test_a_version_with_more_stores_follows_the_old_one_and_takes_over_from_it(instances: Instances) -> None:
    app = Application(instances)
    old = app.start("old", app.counting())
    app.feed()
    app.await_counts()

    new = app.start("new", app.counting(totals=True, by_length=True))
    follows = {f"0_{partition}": "standby" for partition in range(PARTITIONS)}
    eventually(lambda: roles(new) == follows, "standbys and nothing else at the new version")
    eventually(lambda: set(stores(new, "0_0").values()) == {0}, "standbys that have caught up")
    assert stores(new, "0_0").keys() == {"counts", "totals"}
    assert "run once 2 hosts know them" in new.status()["notes"][0]
    app.feed()
    app.await_counts()

    assert old.drain()
    tasks = {f"{sub_topology}_{partition}": "active" for sub_topology in (0, 1) for partition in range(PARTITIONS)}
    eventually(lambda: roles(new) == tasks, "every task at the new version")
    app.feed()
    app.await_counts()
    assert new.status()["notes"] == []


def test_a_version_that_reads_something_else_gets_nothing_and_says_why(instances: Instances) -> None:
    app = Application(instances)
    other = app.kafka.create_topic("other", partitions=PARTITIONS)
    old = app.start("old", app.counting())
    app.feed()
    app.await_counts()

    new = app.start("new", app.counting(other))
    eventually(lambda: new.status()["notes"], "the reason")
    assert f"it reads {other} here and {app.source} there" in new.status()["notes"][0]
    eventually(lambda: new.ready()[0], "nothing that it waits for")  # it follows its assignment a moment later
    assert new.tasks() == []
    app.feed()
    app.await_counts()
    assert set(roles(old).values()) == {"active"}

    assert old.close()
    eventually(lambda: set(roles(new).values()) == {"active"} and len(roles(new)) == PARTITIONS)


def test_who_drains_does_not_wait_for_what_no_other_version_knows(instances: Instances) -> None:
    app = Application(instances)
    old = app.start("old", app.counting(by_length=True))
    app.feed()
    app.await_counts()

    new = app.start("new", app.counting())
    eventually(lambda: set(stores(new, "0_0").values()) == set(stores(new, "0_1").values()) == {0}, "standbys")
    assert old.drain(60), "before the time is up"

    kept = {f"0_{partition}": "active" for partition in range(PARTITIONS)}
    eventually(lambda: roles(new) == kept, "the tasks of the part that both know")
    app.feed()
    app.await_counts()

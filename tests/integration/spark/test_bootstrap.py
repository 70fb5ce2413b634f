"""History bootstrapped, then live to the end: the same as live from the beginning."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from instances import Instances, produce, values_per_key
from kafka_cluster import Kafka
from spark_apps import PROGRAM, App

#: Each has several sessions of Spark's.
pytestmark = pytest.mark.timeout(900)

PARTITIONS = 3
KEYS, VALUES = 40, 25


class Topics:
    """The topics of the program, with input."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.first, self.second, self.table = (kafka.create_topic(name, PARTITIONS) for name in ("a", "b", "table"))
        self._random = random.Random(11)
        self._time = 1_000

    def feed(self, count: int) -> None:
        """Records of all three topics, each at a time of its own."""
        for offset, topic in enumerate((self.first, self.second, self.table)):
            produce(self.kafka, topic, self._records(count, offset))
        self._time += 10 * count

    def _records(self, count: int, offset: int) -> Iterable[tuple[bytes, bytes, int]]:
        for number in range(count):
            key, value = self._random.randrange(KEYS), self._random.randrange(VALUES)
            yield b"key%d" % key, b"value%d" % value, self._time + 10 * number + offset

    def ends(self) -> dict[str, dict[int, int]]:
        """Where each partition ends now."""
        found: dict[str, dict[int, int]] = {}
        for topic in (self.first, self.second, self.table):
            messages = self.kafka.read(topic)
            counts = dict.fromkeys(range(PARTITIONS), 0)
            for message in messages:
                counts[message.partition() or 0] += 1
            found[topic] = counts
        return found


def make(instances: Instances, topics: Topics, name: str, **settings: Any) -> tuple[App, str, str]:
    """An application with output topics of its own."""
    kafka = instances.kafka
    counts, pairs = kafka.create_topic("counts", PARTITIONS), kafka.create_topic("pairs", PARTITIONS)
    code = PROGRAM
    for field, topic in (("first", topics.first), ("second", topics.second), ("table", topics.table),
                         ("counts", counts), ("pairs", pairs)):  # fmt: skip
        code = code.replace(f"{{{field}}}", topic)
    return App(instances, kafka.unique(name), code, **settings), counts, pairs


def live_to_the_end(app: App, topics: Topics) -> None:
    instance = app.start()
    app.processed(topics.first, topics.second, topics.table)
    app.processed(f"{app.name}-counts-repartition")
    instance.close(20)


def suffix_of(later: list[bytes | None], whole: list[bytes | None]) -> bool:
    return not later or whole[-len(later) :] == later


@pytest.mark.parametrize("guarantee", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.long)])
def test_goes_on_from_the_middle_as_if_it_had_run_from_the_beginning(
    instances: Instances, kafka: Kafka, guarantee: str
) -> None:
    topics = Topics(kafka)
    app, counts, pairs = make(instances, topics, "bootstrapped", guarantee=guarantee)
    reference, all_counts, all_pairs = make(instances, topics, "reference", guarantee=guarantee)
    topics.feed(300)
    middle = topics.ends()
    topics.feed(200)
    said = app.bootstrap("--until", app.until(middle))
    assert f"{3 * 300:,} offsets of history" in said
    assert app.read(counts) == app.read(pairs) == []
    live_to_the_end(app, topics)
    live_to_the_end(reference, topics)
    assert app.stored() == reference.stored()
    assert set(app.stored()) == {"counts", "table", "last"}
    for mine, all_of in ((counts, all_counts), (pairs, all_pairs)):
        later, whole = values_per_key(app.read(mine)), values_per_key(reference.read(all_of))
        assert later
        assert all(suffix_of(values, whole[key]) for key, values in later.items())
    # Nothing was missed and nothing done twice: what was left out is as much as history had.
    assert len(reference.read(all_pairs)) - len(app.read(pairs)) == 2 * 300

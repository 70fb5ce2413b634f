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
pytestmark = pytest.mark.timeout(1100)

PARTITIONS = 3
KEYS, VALUES = 40, 25


#: Behind a repartition topic, the offset of the last record of each key, or that offsets ran backwards.
KEEPS_OFFSETS = """
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()


class Last(Processor):
    def init(self, context):
        self.context, self.store = context, context.get_state_store("last")

    def process(self, record):
        before, offset = self.store.get(record.key), self.context.record_metadata.offset
        self.store.put(record.key, offset if before is None or 0 <= before < offset else -1)


def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT))
    by_value = words.map(lambda key, value: (value, key)).repartition(Repartitioned("by-value", TEXT, TEXT))
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("last"), TEXT, LONG))
    by_value.process(Last, "last")
    by_value.group_by_key(Grouped(TEXT, TEXT)).count(Materialized("counts", key_serde=TEXT, value_serde=LONG))
    return builder.build()
"""


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
        """The end of each partition now."""
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
    # Nothing was missed and nothing done twice: exactly the pairs of history were left out.
    assert len(reference.read(all_pairs)) - len(app.read(pairs)) == 2 * 300


def test_offsets_of_a_repartition_topic_go_on_after_those_of_history_and_an_audit_does_not_judge_them(
    instances: Instances, kafka: Kafka, guarantee: str
) -> None:
    words = kafka.create_topic("words", 1)
    app = App(instances, kafka.unique("offsets"), KEEPS_OFFSETS.replace("{words}", words), guarantee=guarantee)

    def feed(number: int, start: int) -> None:
        records = [(b"%d" % n, b"word%d" % (n % KEYS), start + n) for n in range(number)]
        produce(kafka, words, records)

    feed(KEYS * 10, 1_000)
    assert f"{2 * KEYS * 10:,} records" in app.bootstrap()
    code, said, errors = app.run("audit", "--master", "local[2]")
    assert (code, f"no differences in {2 * KEYS} keys of counts, last" in said) == (0, True), (said, errors[-4000:])

    feed(KEYS, 5_000)  # fewer than history had: without more ado their offsets would all be lower
    instance = app.start()
    app.processed(words, f"{app.name}-by-value-repartition")
    instance.close(30)
    stored = app.stored()
    assert {value.value for value in stored["counts"].values()} == {11}
    last = {key: offset for (_, key), offset in stored["last"].items()}
    assert min(last.values()) >= KEYS * 10, last

    code, said, errors = app.run("audit", "--master", "local[2]")
    fault, summary = said.splitlines()
    assert code == 1, errors[-4000:]
    assert fault.startswith(f"not compared: task 1_0, store last: {KEYS} of {KEYS} keys, which differ; code asks for ")
    assert f"no differences in {2 * KEYS} keys of counts, last" in summary

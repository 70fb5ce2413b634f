"""Rows with a time to live where Spark runs the application: they go in the same order as on pods."""

from __future__ import annotations

from typing import Any

import pytest

from instances import Instances
from kafka_cluster import Kafka
from living_counts import PARTITIONS, TTL, LivingCounts, Updates
from spark_apps import App, finished

#: Each has several sessions of Spark's.
pytestmark = pytest.mark.timeout(1100)

#: ``count_while_alive`` of ``killable.py``, and the first record of each key in 700 ms, with what was read before it.
ALIVE = """
from streamsapp import *

BYTES, LONG = Serdes.bytes(), Serdes.long()


class First(Processor):
    def init(self, context):
        self.context, self.seen = context, context.get_state_store("seen")

    def process(self, record):
        at = record.timestamp
        if self.seen.put_if_absent(record.key, at, ttl=700) is None:
            self.context.forward(record.with_value(at))


def topology():
    builder = StreamsBuilder()
    records = builder.stream("{source}", Consumed(BYTES, BYTES))
    counts = records.group_by_key().count(Materialized("counts", BYTES, LONG, ttl={ttl}))
    counts.to_stream().to("{sink}", Produced(BYTES, LONG))
    seen = Stores.key_value_store_with_ttl_builder(Stores.persistent_key_value_store("seen"), BYTES, LONG)
    builder.add_state_store(seen)
    records.process(First, "seen").to("{firsts}", Produced(BYTES, LONG))
    return builder.build()
"""
SPARK: dict[str, Any] = {"engine": "spark", "spark": {"trigger": "availableNow", "conf": {"spark.ui.enabled": "false"}}}


class Alive(LivingCounts):
    """The program on keys that come and go."""

    def __init__(self, kafka: Kafka) -> None:
        super().__init__(kafka)
        self.firsts = kafka.create_topic("firsts", PARTITIONS)

    def code(self) -> str:
        code = ALIVE.replace("{source}", self.source).replace("{sink}", self.sink).replace("{firsts}", self.firsts)
        return code.replace("{ttl}", str(TTL))

    def first_times(self) -> dict[bytes, list[int]]:
        """The times of the records of each key that were let through."""
        found: dict[bytes, list[int]] = {}
        for message in self.kafka.read(self.firsts):
            found.setdefault(message.key() or b"", []).append(int.from_bytes(message.value() or b"", "big"))
        return found


def firsts_of(truth: Updates) -> dict[bytes, list[int]]:
    """The times of the records of each key that follow none that was let through within 700 ms."""
    found: dict[bytes, list[int]] = {}
    for key, updates in truth.items():
        kept = found.setdefault(key, [])
        for count, at in updates:
            if count is not None and (not kept or at >= kept[-1] + 700):
                kept.append(at)
    return found


def run_on_spark(app: App) -> None:
    where = str(app.folder / "spark")
    code, _, errors = finished(app.command("run", "--master", "local[2]", "--http-port", "0", "--state-dir", where))
    assert code == 0, errors[-6000:]


def run_on_a_pod(app: App, source: str) -> None:
    instance = app.start()
    app.processed(source)
    assert instance.close(30)


def audit(app: App, stores: str) -> None:
    code, said, errors = app.run("audit", "--master", "local[2]")
    assert (code, said.strip().endswith(f"of {stores}, {PARTITIONS} tasks")) == (0, True), (said, errors[-6000:])
    assert "no differences" in said


def test_rows_go_when_their_time_is_over_while_the_application_goes_from_pods_to_spark_and_back(
    instances: Instances, kafka: Kafka
) -> None:
    alive = Alive(kafka)
    spec = {**SPARK, "spark": {**SPARK["spark"], "maxRecordsPerBatch": 1_500}}
    app = App(instances, kafka.unique("alive"), alive.code(), spec=spec)
    alive.feed()
    run_on_a_pod(app, alive.source)
    alive.feed()
    run_on_spark(app)
    alive.feed(1_000)
    run_on_a_pod(app, alive.source)
    alive.end()
    run_on_spark(app)
    assert alive.updates() == alive.truth
    assert alive.first_times() == firsts_of(alive.truth)
    assert alive.changelog(app.name) == alive.living
    audit(app, "counts, seen")


def test_rows_that_are_over_are_not_in_a_bootstrap_and_those_of_it_go_in_time(
    instances: Instances, kafka: Kafka
) -> None:
    alive = Alive(kafka)
    app = App(instances, kafka.unique("seeded"), alive.code())
    alive.feed()
    app.bootstrap()
    audit(app, "counts, seen")
    before = {key: len(updates) for key, updates in alive.truth.items()}
    let_through = {key: len(times) for key, times in firsts_of(alive.truth).items()}
    alive.feed()
    alive.end()
    run_on_a_pod(app, alive.source)
    assert alive.updates() == _after(alive.truth, before)
    assert alive.first_times() == _after(firsts_of(alive.truth), let_through)
    assert {key for _, key in app.stored()["counts"]} == alive.living.keys()
    audit(app, "counts, seen")


def _after(whole: dict[bytes, list[Any]], counts: dict[bytes, int]) -> dict[bytes, list[Any]]:
    return {key: values[counts.get(key, 0) :] for key, values in whole.items() if len(values) > counts.get(key, 0)}

"""Time markers in bootstraps and audits: these see what was recorded, and ``engine: spark`` refuses to make any."""

from __future__ import annotations

import time
from typing import Any

import pytest

from instances import Instances, end_offsets, eventually, produce
from kafka_cluster import Kafka
from spark_apps import App, finished

PARTITIONS = 2
#: Each has several sessions of Spark's.
pytestmark = pytest.mark.timeout(1100)

#: Counts of windows of a second, at the source or behind a repartition topic.
SILENT = """
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()


def topology():
    builder = StreamsBuilder()
    stream = builder.stream("{source}", Consumed("seconds", TEXT, TEXT, idle_after=400))
    by_value = stream.select_key(lambda key, value: value) if {repartitioned} else stream
    grouped = by_value.group_by_key(Grouped("by-value", TEXT, TEXT))
    counts = grouped.windowed_by(TimeWindows.of(1000)).count(Materialized("counts"))
    finals = counts.suppress(Suppressed.until_window_closes().with_name("finals"))
    named = finals.to_stream(lambda windowed, count: f"{windowed.key}@{windowed.start_ms}")
    named.to("{sink}", Produced(TEXT, LONG))
    return builder.build()
"""
SPARK: dict[str, Any] = {"engine": "spark", "spark": {"trigger": "availableNow", "conf": {"spark.ui.enabled": "false"}}}
#: Keys of both partitions.
NAMES = [b"k%d" % at for at in range(40)]


def audit(app: App, stores: str) -> None:
    code, said, errors = app.run("audit", "--master", "local[2]")
    assert (code, said.strip().endswith(f"of {stores}, {PARTITIONS} tasks")) == (0, True), (said, errors[-6000:])
    assert "no differences" in said


def _now() -> int:
    return int(time.time() * 1000)


def _written(kafka: Kafka, topic: str) -> list[tuple[Any, ...]]:
    return [(it.partition(), it.key(), it.value(), it.timestamp(), it.headers()) for it in kafka.read(topic)]


def _markers(app: App, topic: str) -> list[tuple[Any, ...]]:
    """The entries of an application's markers, by partition and time."""
    entries = app.read(f"{app.name}-{topic}-time-markers-changelog")
    return sorted({(it.partition(), it.key()): it.value() for it in entries}.items())


def _are_idle(app: App, topic: str) -> bool:
    """Say whether the last marker of each partition is that of an idle input."""
    last = {partition: value for (partition, _), value in _markers(app, topic)}
    return len(last) == PARTITIONS and all(value[9] for value in last.values())


@pytest.mark.parametrize("repartitioned", [False, True], ids=["at_the_source", "behind_a_topic"])
def test_a_bootstrap_and_an_audit_apply_the_time_markers_that_were_recorded(
    instances: Instances, kafka: Kafka, repartitioned: bool
) -> None:
    source, sink = (kafka.create_topic(name, PARTITIONS) for name in ("seconds", "finals"))
    code = SILENT.replace("{source}", source).replace("{sink}", sink).replace("{repartitioned}", str(repartitioned))
    app = App(instances, kafka.unique("silent"), code)
    keys = 7 if repartitioned else len(NAMES)
    instance = app.start()
    for burst in range(3):
        produce(kafka, source, [(key, b"v%d" % (at % 7), _now()) for at, key in enumerate(NAMES)])
        eventually(lambda: len(_written(kafka, sink)) >= keys * (burst + 1), "final results in silence")  # noqa: B023
    eventually(lambda: _are_idle(app, "seconds"), "inputs in which nothing waits")
    assert instance.close(30)
    live, markers = _written(kafka, sink), _markers(app, "seconds")
    audit(app, "counts")

    assert app.run("reset")[0] == 0
    app.bootstrap("--emit")
    assert sorted(_written(kafka, sink)) == sorted(live * 2)
    assert _markers(app, "seconds") == markers  # with the ids of their topics
    audit(app, "counts")

    # An input that was told to be idle in history still is: the other one alone moves time on.
    app.start()
    before = len(_written(kafka, sink))
    produce(kafka, source, [(key, b"v%d" % at, _now()) for at, key in enumerate(NAMES[:7])], partition=0)
    eventually(lambda: len(_written(kafka, sink)) >= before + 7, "final results of one input")


def test_spark_as_the_engine_refuses_sources_that_it_would_have_to_mark(instances: Instances, kafka: Kafka) -> None:
    source, sink = (kafka.create_topic(name, PARTITIONS) for name in ("seconds", "finals"))
    code = SILENT.replace("{source}", source).replace("{sink}", sink).replace("{repartitioned}", "True")
    refused = App(instances, kafka.unique("refused"), code, spec=SPARK)
    ended = refused.command("run", "--master", "local[2]", "--http-port", "0", "--state-dir", str(refused.folder / "s"))
    exit_code, _, errors = finished(ended)
    assert exit_code == 2, errors[-6000:]
    assert "let pods run the application (engine: threads), or leave idle_after out" in errors
    assert end_offsets(kafka, sink) == 0

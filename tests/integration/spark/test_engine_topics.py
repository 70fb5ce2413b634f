"""A query whose source is a pattern, declared in the manifest: it goes on with the topics that come later."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from instances import Instances, eventually, produce
from spark_apps import App, finished

#: A session of Spark's.
pytestmark = [pytest.mark.timeout(1100), pytest.mark.long]


def test_a_query_reads_topics_that_match_its_pattern_from_when_they_come(instances: Instances) -> None:
    kafka = instances.kafka
    prefix, sink, name = kafka.unique("events"), kafka.create_topic("out"), kafka.unique("pattern")
    text = {"keySerde": "string", "valueSerde": "string"}
    steps = [
        {"stream": {"pattern": f"{prefix}-.*", "offsetReset": "latest", **text}},
        {"groupByKey": text},
        {"count": {"store": "counts"}},
        "toStream",
        {"to": {"topic": sink, "keySerde": "string", "valueSerde": "long"}},
    ]
    servers = {"bootstrapServers": kafka.bootstrap_servers, "properties": {"metadata.max.age.ms": "500"}}
    spark = {"trigger": "200ms", "conf": {"spark.ui.enabled": "false"}}
    spec = {"topology": {"steps": steps}, "kafka": servers, "engine": "spark", "spark": spark}
    app = App(instances, name, "", spec=spec)
    first = kafka.create_topic(f"{prefix}-a")
    state = ("--master", "local[2]", "--http-port", "0", "--state-dir", str(app.folder / "spark"))
    driver = app.command("run", *state)
    with ExitStack() as running:
        running.callback(driver.communicate)
        running.callback(driver.kill)
        eventually(lambda: driver.poll() is not None or _counts(instances, first, sink), "the first result", 600.0)
        assert driver.poll() is None, finished(driver)[2][-6000:]
        late = kafka.create_topic(f"{prefix}-b")
        produce(kafka, late, [(b"late", b"value", number) for number in range(5)])
        eventually(lambda: len(_results(instances, sink, b"late")) >= 5, "results of the topic that came", 600.0)
        driver.terminate()
        code, _, errors = finished(driver)
    assert code == 0, errors[-6000:]
    assert "the query starts again" in errors
    assert _results(instances, sink, b"late") == [1, 2, 3, 4, 5]
    early = _results(instances, sink, b"early")
    assert early == list(range(1, len(early) + 1)), "none is lost or counted twice when the query begins anew"


def _counts(instances: Instances, topic: str, sink: str) -> bool:
    """Write a record, and return whether there is a result by now: the driver's start is not seen from outside."""
    produce(instances.kafka, topic, [(b"early", b"value", 0)])
    return bool(_results(instances, sink, b"early"))


def _results(instances: Instances, sink: str, key: bytes) -> list[int]:
    return [int.from_bytes(each.value() or b"") for each in instances.kafka.read(sink) if each.key() == key]

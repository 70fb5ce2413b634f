"""A preview names the keys that another version of an application would change, and nothing else; it writes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from instances import Instances, end_offsets, produce
from kafka_cluster import Kafka
from spark_apps import App, finished

#: Each has several sessions of Spark's.
pytestmark = [pytest.mark.timeout(1100), pytest.mark.long]

PARTITIONS = 2
#: Of Spark's, for one comparison of two programs of eight tasks each.
MOST_TASKS = 100

#: Counts by word behind a repartition topic, and keeps the sum of each key beside it.
PROGRAM = """
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()

def weight(value):
    return 1

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT))
    by_word = words.group_by(lambda key, value: value, Grouped(TEXT, TEXT))
    counts = by_word.aggregate(lambda: 0, lambda key, value, sum: sum + weight(value),
        Materialized("counts", key_serde=TEXT, value_serde=LONG))
    counts.to_stream().to("{counts}", Produced(TEXT, LONG))
    numbers = builder.stream("{numbers}", Consumed(TEXT, LONG))
    sums = numbers.group_by_key(Grouped(TEXT, LONG)).reduce(lambda one, other: one + other,
        Materialized("sums", key_serde=TEXT, value_serde=LONG))
    sums.to_stream().filter(lambda key, value: value != {hidden}).to("{sums}", Produced(TEXT, LONG))
    return builder.build()
"""


class Previewed:
    """An application that has run, and other versions of it."""

    def __init__(self, instances: Instances, kafka: Kafka) -> None:
        self.kafka = kafka
        self.topics = {name: kafka.create_topic(name, PARTITIONS) for name in ("words", "numbers", "counts", "sums")}
        self.app = App(instances, kafka.unique("today"), self.program())

    def program(self, hidden: str = "-1") -> str:
        code = PROGRAM.replace("{hidden}", hidden)
        for name, topic in self.topics.items():
            code = code.replace(f"{{{name}}}", topic)
        return code

    def tomorrow(self, code: str) -> Path:
        """A manifest with other code, in a folder of its own: the module has the same name."""
        folder = self.app.folder / f"tomorrow-{len(list(self.app.folder.glob('tomorrow-*')))}"
        folder.mkdir()
        (folder / f"{self.app.module}.py").write_text(code)
        manifest = folder / "new.yaml"
        manifest.write_text(self.app.manifest.read_text())
        return manifest

    def preview(self, code: str, *options: str) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
        """Exit code, differences and summary of a preview."""
        arguments = ("--against", str(self.app.manifest), "--master", "local[2]", "-o", "json", *options)
        ended, said, errors = finished(self.app.command("preview", *arguments, "-f", str(self.tomorrow(code))))
        assert said, errors[-4000:]
        *differences, summary = map(json.loads, said.splitlines())
        return ended, differences, summary


def tasks_in(events: Path) -> int:
    """The tasks of Spark's that ended, by its event log."""
    files = [path for path in events.rglob("*") if path.is_file()]
    lines = [json.loads(line) for path in files if path.suffix != ".crc" for line in path.read_text().splitlines()]
    return sum(line["Event"] == "SparkListenerTaskEnd" for line in lines)


def named(differences: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {(each["of"], each["name"], each["key"]) for each in differences}


def summary_keys(summary: dict[str, Any]) -> int:
    return sum(each["keys"] for of in ("results", "state") for each in summary[of].values())


def test_exactly_the_keys_are_named_that_another_version_changes(instances: Instances, kafka: Kafka) -> None:
    it = Previewed(instances, kafka)
    words, numbers, counts, sums = it.topics.values()
    produce(kafka, words, [(b"k%d" % n, b"w%d" % (n % 10), 1_000 + n) for n in range(100)])
    produce(kafka, numbers, [(b"n%d" % (n % 5), (1).to_bytes(8, "big"), 1_000 + n) for n in range(50)])
    instance = it.app.start()
    it.app.processed(words, numbers, f"{it.app.name}-counts-repartition")
    instance.close(30)
    produce(kafka, words, [(b"k%d" % n, b"w%d" % (n % 4), 2_000 + n) for n in range(20)])  # w0 to w3, five each
    produce(kafka, numbers, [(b"n0", (1).to_bytes(8, "big"), 2_000 + n) for n in range(3)])
    before = {topic: end_offsets(kafka, topic) for topic in (counts, sums)}
    objects = sorted(str(path) for path in it.app.objects.rglob("*"))

    events = it.app.folder / "events"
    events.mkdir()
    settings = {"enabled": "true", "compress": "false", "dir": events.as_uri()}
    told = [f"--conf=spark.eventLog.{name}={value}" for name, value in settings.items()]
    code, differences, summary = it.preview(it.program(), "--records", "1", *told)
    assert (code, differences, summary["differences"]) == (0, [], 0)
    assert summary["results"][counts] == {"keys": 4, "differ": 0}
    assert tasks_in(events) < MOST_TASKS

    heavier = it.program(hidden="12").replace("return 1", 'return 2 if value == "w3" else 1')
    code, differences, summary = it.preview(heavier, "--records", "1")
    assert (code, named(differences)) == (
        1,
        {("result", counts, "'w3'"), ("state", "counts", "'w3'"), ("result", sums, "'n0'")},
    )
    report = it.app.folder / "report"
    code, _, _ = it.preview(heavier, "--records", "1", "--report", str(report))
    told = json.loads(report.read_bytes())
    assert (code, told["differences"], told["keys"]) == (0, 3, summary_keys(summary))
    assert "key 'w3': today 11 of time 2003, tomorrow 12 of time 2003" in "".join(told["first"])
    found = {(each["of"], each["name"]): (each["today"], each["tomorrow"], each["count"]) for each in differences}
    # Ten were counted before, and the first of the five results differs already.
    assert found["result", counts] == ("11 of time 2003", "12 of time 2003", 5)
    assert found["state", "counts"] == ("15 of time 2019", "20 of time 2019", 1)
    # Of three results the second is missing, so the third is the second now.
    assert found["result", sums] == ("12 of time 2001", "13 of time 2002", 2)
    # Nothing is new in the other partition of the numbers.
    assert any("begin empty, at the first record" in note for note in summary["notes"])

    assert before == {topic: end_offsets(kafka, topic) for topic in (counts, sums)}
    assert objects == sorted(str(path) for path in it.app.objects.rglob("*"))

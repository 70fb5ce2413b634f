"""Operators beyond Kafka Streams' on a real broker: kill -9, lost and kept state, and what was written then."""

from __future__ import annotations

import shutil
from collections import Counter
from functools import partial

from instances import Instances, Process, end_offsets, eventually, produce
from kafka_cluster import Kafka
from killable import sift
from streamsapp import Serdes
from streamsapp.testing import TopologyTestDriver

RECORDS, KEYS = 1_200, 7
TEXT = Serdes.string()
OUTPUTS = "unique", "pairs", "late", "priced"


def records() -> list[tuple[str, str, int]]:
    """Values come three times under different keys; every hundredth record is late."""
    return [
        (f"k{at % KEYS}", str(at // 3), 100_000 + 1_000 * at - (60_000 if at % 100 == 99 else at % 3 * 1_000))
        for at in range(RECORDS)
    ]


def expected() -> dict[str, Counter[tuple[str, str, int]]]:
    """Returns the records that the test driver writes, as key, value and time."""
    topics = {name: name for name in OUTPUTS}
    with TopologyTestDriver(sift("in", **topics)) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        for key, value, time in records():
            source.pipe_input(key, value, time)
        return {
            name: Counter(
                (each.key, each.value, each.timestamp)
                for each in driver.create_output_topic(name, TEXT, TEXT).read_records()
            )
            for name in OUTPUTS
        }


def test_results_are_those_of_the_driver_whatever_is_killed(kafka: Kafka, instances: Instances, guarantee: str) -> None:
    source = kafka.create_topic("sifted", partitions=1)
    topics = {name: kafka.create_topic(name, partitions=1) for name in OUTPUTS}
    inputs = [(key.encode(), value.encode(), time) for key, value, time in records()]
    config = instances.config(processing_guarantee=guarantee)
    wanted, third = expected(), RECORDS // 3
    for kill in range(2):
        more = end_offsets(kafka, topics["pairs"]) + 1
        produce(kafka, source, inputs[kill * third : (kill + 1) * third])
        process = instances.process("sift", config, source=source, **topics)
        eventually(partial(_wrote, process, kafka, topics["pairs"], more))
        process.kill()
        if kill == 0:
            shutil.rmtree(config.state_dir)
    produce(kafka, source, inputs[2 * third :])
    process = instances.process("sift", config, source=source, **topics)
    for name, topic in topics.items():
        eventually(partial(_complete, process, kafka, topic, wanted[name]))
    assert process.close() == 0

    found = {name: _written(kafka, topic) for name, topic in topics.items()}
    if guarantee == "exactly_once":
        assert found == wanted
    else:  # nothing is lost: what came after the last commit was read again
        assert all(not wanted[name] - found[name] for name in ("unique", "late"))
        assert {value for _, value, _ in found["unique"]} == {value for _, value, _ in wanted["unique"]}


def _wrote(process: Process, kafka: Kafka, topic: str, count: int) -> bool:
    return process.assert_running() and end_offsets(kafka, topic) >= count


def _written(kafka: Kafka, topic: str) -> Counter[tuple[str, str, int]]:
    return Counter(
        ((each.key() or b"").decode(), (each.value() or b"").decode(), each.timestamp()[1])
        for each in kafka.read(topic)
    )


def _complete(process: Process, kafka: Kafka, topic: str, wanted: Counter[tuple[str, str, int]]) -> bool:
    """Says whether all is there that has to be."""
    return (
        process.assert_running() and end_offsets(kafka, topic) >= wanted.total() and not wanted - _written(kafka, topic)
    )

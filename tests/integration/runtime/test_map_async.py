"""``map_async`` against a slow HTTP service: kill -9 in the middle of calls, and what was asked and written then."""

from __future__ import annotations

import shutil
from collections import Counter
from functools import partial

import pytest

from instances import Instances, Process, end_offsets, eventually, produce, values_per_key
from kafka_cluster import Kafka
from killable import ask_service
from slow_service import Failure, SlowService

RECORDS, KEYS, KILLS = 2_400, 40, 2

#: Longer than a call takes, and shorter than one without an answer.
TIMEOUT_MS = 3_000


def fails(text: str, times: int) -> Failure | None:
    """Some records fail the first time, in each way that there is, and some of these the second time, too."""
    ways: dict[str, Failure] = {"50": "refuses", "51": "closes"}
    way = "hangs" if text.endswith("152") else ways.get(text[-2:])
    return way if times <= (2 if text.startswith("v1") else 1) else None


@pytest.mark.parametrize("wipe", [True, pytest.param(False, marks=pytest.mark.long)], ids=["state_wiped", "state_kept"])
@pytest.mark.parametrize("order", ["key", "partition"])
def test_after_a_kill_only_calls_without_a_committed_answer_are_made_again(
    kafka: Kafka, instances: Instances, guarantee: str, order: str, wipe: bool
) -> None:
    source, sink = (kafka.create_topic(each, partitions=1) for each in ("asked", "answers"))
    config = instances.config(processing_guarantee=guarantee)
    wanted = {b"k%d" % key: [b"%d" % at for at in range(key, RECORDS, KEYS)] for key in range(KEYS)}
    produce(kafka, source, [(b"k%d" % (at % KEYS), b"v%d" % at, 1_000 + at) for at in range(RECORDS)])
    with SlowService(0.05, fails) as service:
        port = service.port
        arguments = {"source": source, "sink": sink, "port": port, "order": order, "timeout_ms": TIMEOUT_MS}
        answered: set[str] = set()
        made_before: Counter[str] = Counter()
        for _ in range(KILLS):
            more = end_offsets(kafka, sink) + RECORDS // 4
            process = instances.process("ask_service", config, **arguments)
            eventually(partial(_wrote, process, kafka, sink, more))
            process.kill()
            eventually(lambda: service.at_once == 0, "the calls of the killed process have ended")
            answered, made_before = _values(kafka, sink), service.calls.copy()
            if wipe:
                shutil.rmtree(config.state_dir)
        process = instances.process("ask_service", config, **arguments)
        eventually(lambda: process.assert_running() and end_offsets(kafka, sink) >= RECORDS)
        eventually(lambda: process.assert_running() and len(_values(kafka, sink)) == RECORDS)
        assert process.close() == 0
        calls = service.calls
        assert service.most_at_once <= 100, "there is one task"

    results = {key: [value.removeprefix(b"V") for value in values if value] for key, values in
               values_per_key(kafka.read(sink)).items()}  # fmt: skip
    if guarantee == "exactly_once":
        if order == "partition":
            assert [message.value() for message in kafka.read(sink)] == [b"V%d" % at for at in range(RECORDS)]
        assert results == wanted, "each once, and in the order of its key"
        assert {text for text in answered if calls[text.lower()] != made_before[text.lower()]} == set()
    else:
        assert {key: list(dict.fromkeys(values)) for key, values in results.items()} == wanted
    failures = {text: sum(fails(text, times) is not None for times in (1, 2)) for text in calls}
    for text in (f"v{at}" for at in range(RECORDS)):
        assert 1 + failures[text] <= calls[text] <= 1 + failures[text] + KILLS, "each kill repeats a call once"


def _wrote(process: Process, kafka: Kafka, topic: str, count: int) -> bool:
    return process.assert_running() and end_offsets(kafka, topic) >= count


def _values(kafka: Kafka, topic: str) -> set[str]:
    return {(message.value() or b"").decode() for message in kafka.read(topic)}


def test_a_task_that_waits_for_a_service_commits_and_closes(kafka: Kafka, instances: Instances) -> None:
    source, sink = (kafka.create_topic(each, partitions=1) for each in ("asked", "answers"))
    produce(kafka, source, [(b"k", b"v%d" % at, 1_000 + at) for at in range(5)])
    config = instances.config(processing_guarantee="exactly_once")
    with SlowService(3_600) as service:
        instance = instances.start(ask_service(source, sink, service.port, "none"), config)
        eventually(lambda: sum(service.calls.values()) == 5)
        eventually(lambda: kafka.committed(config.application_id, source).get(0, (0, ""))[0] == 5)
        instance.close(60)
    with SlowService(0) as service:
        instance = instances.start(ask_service(source, sink, service.port, "none"), config)
        eventually(lambda: _values(kafka, sink) == {f"V{at}" for at in range(5)})
        instance.close(60)

"""Queries at instances that share an application: redirected, fetched, answered by replicas, and never wrong."""

from __future__ import annotations

import signal
import threading
from http import HTTPStatus
from typing import Any

import pytest
from confluent_kafka import Producer

from instances import TIMEOUT, eventually, produce
from kafka_cluster import Kafka
from pods import MORTAL, Pods, RunningPod
from streamsapp.serdes.murmur2 import partition_for

KEYS = [f"key{number}" for number in range(12)]


def write(kafka: Kafka, topic: str, times: int = 1) -> None:
    produce(kafka, topic, [(key.encode(), b"x", 1) for _ in range(times) for key in KEYS])


def answer(pod: RunningPod, path: str) -> tuple[int, Any]:
    """Status and document. An instance that another one keeps waiting for too long has no answer: it is asked again."""
    found: list[tuple[int, Any]] = []

    def answered() -> bool:
        found.append(pod.ask(path))
        return found[-1][0] not in (0, HTTPStatus.SERVICE_UNAVAILABLE)

    eventually(answered, f"an answer to {path}")
    return found[-1]


def proxied(pod: RunningPod) -> dict[str, Any]:
    """The documents of all keys, wherever they are."""
    return {key: answer(pod, f"/state/counts/{key}?proxy")[1] for key in KEYS}


@pytest.fixture
def pair(kafka: Kafka, words: str, pods: Pods) -> tuple[RunningPod, RunningPod]:
    """Two instances with two tasks each, that have counted every key three times."""
    return counted(kafka, words, pods.start(), pods.start())


@pytest.fixture
def mortal_pair(kafka: Kafka, words: str, pods: Pods) -> tuple[RunningPod, RunningPod]:
    """The second one is missed soon when it is gone."""
    return counted(kafka, words, pods.start(), pods.start(session_ms=MORTAL))


def counted(kafka: Kafka, words: str, first: RunningPod, second: RunningPod) -> tuple[RunningPod, RunningPod]:
    write(kafka, words, 3)
    eventually(lambda: len(first.active()) == len(second.active()) == 2, "two tasks each")
    eventually(lambda: {first.count(key, "?proxy") for key in KEYS} == {3}, "counts")
    return first, second


def test_each_instance_leads_to_all_keys(pair: tuple[RunningPod, RunningPod]) -> None:
    second = pair[1]

    def statuses() -> set[tuple[int, ...]]:
        return {tuple(pod.ask(f"/state/counts/{key}")[0] for pod in pair) for key in KEYS}

    # An instance that stood still is not sure of its tasks before its next heartbeat is answered.
    eventually(lambda: statuses() == {(200, 307), (307, 200)}, "every key at one of them")
    assert {each["value"] for each in proxied(second).values()} == {3}
    whole = answer(second, "/state/counts?proxy")[1]
    assert [each["key"] for each in whole["entries"]] == sorted(KEYS)
    parts: list[Any] = []

    def together() -> list[str]:
        parts[:] = [answer(pod, "/state/counts")[1] for pod in pair]
        return sorted(each["key"] for part in parts for each in part["entries"])

    eventually(lambda: together() == sorted(KEYS), "each key's part")
    assert {owner.rpartition(":")[2] for owner in parts[0]["elsewhere"].values()} == {str(second.port)}


def test_keys_are_found_where_another_partitioner_put_them(kafka: Kafka, words: str, pods: Pods) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})  # librdkafka's own: consistent_random
    for key in KEYS:
        producer.produce(words, key=key.encode(), value=b"x")
    assert producer.flush(TIMEOUT) == 0
    first, second = pods.start(), pods.start()
    eventually(lambda: len(first.active()) == len(second.active()) == 2, "two tasks each")
    eventually(lambda: {first.count(key, "?proxy") for key in KEYS} == {1}, "counts")

    partitions = {key: each["partition"] for key, each in proxied(first).items()}
    assert any(partition != partition_for(key.encode(), 4) for key, partition in partitions.items())
    for key in KEYS:
        assert {answer(pod, f"/state/counts/{key}")[0] for pod in (first, second)} == {200, 307}
    status, missing = answer(second, "/state/counts/nothing?proxy")
    assert (status, missing["value"], missing["searched"]) == (404, None, [0, 1, 2, 3])


def test_replicas_answer_within_bounds(pair: tuple[RunningPod, RunningPod]) -> None:
    first, _ = pair
    away = [key for key in KEYS if answer(first, f"/state/counts/{key}")[0] == 307]
    eventually(lambda: {first.count(key, "?standby=ok&maxLag=0") for key in away} == {3}, "standbys that caught up")
    bounded = f"/state/counts/{away[0]}?standby=ok&maxLag=0"
    eventually(lambda: answer(first, bounded)[1].get("role") == "standby", "an answer of the standby")
    assert answer(first, f"{bounded}&maxAgeMs=0&local")[0] == 421


@pytest.mark.long
def test_answers_never_go_back_while_instances_come_and_go(
    kafka: Kafka, words: str, pods: Pods, mortal_pair: tuple[RunningPod, RunningPod]
) -> None:
    """A count that was read once is committed: no later answer may be smaller, from any instance."""
    first, second = mortal_pair
    seen = dict.fromkeys(KEYS, 0)
    wrong: list[str] = []
    answers = [0]
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            for key in KEYS:
                for pod in (first, second):
                    found = pod.count(key, "?proxy")
                    if found is None:
                        continue
                    answers[0] += 1
                    if found < seen[key]:
                        wrong.append(f"{key}: {found} after {seen[key]}")
                    seen[key] = found

    reading = threading.Thread(target=read)
    reading.start()
    try:
        third = pods.start()
        for _ in range(20):
            write(kafka, words)
        third.wait_ready()
        write(kafka, words, 10)
        second.signal(signal.SIGKILL)
        write(kafka, words, 10)
        eventually(lambda: len(first.active()) + len(third.active()) == 4, "takeover")
        third.terminate()
        write(kafka, words, 10)
        eventually(lambda: len(first.active()) == 4, "the last one has all")
        eventually(lambda: {first.count(key) for key in KEYS} == {53}, "final counts")
    finally:
        done.set()
        reading.join(TIMEOUT)
    assert wrong == []
    assert answers[0] > 200


def test_an_instance_that_was_stopped_for_too_long_does_not_answer_from_the_past(
    kafka: Kafka, words: str, mortal_pair: tuple[RunningPod, RunningPod]
) -> None:
    first, second = mortal_pair
    own = [key for key in KEYS if second.count(key, "?local") is not None]
    second.signal(signal.SIGSTOP)
    eventually(lambda: len(first.active()) == 4, "takeover")
    write(kafka, words)
    eventually(lambda: {first.count(key) for key in KEYS} == {4}, "counts")
    answers: list[int | None] = []
    asking = [threading.Thread(target=lambda key=key: answers.append(second.count(key, "?local"))) for key in own * 5]
    for thread in asking:
        thread.start()
    second.signal(signal.SIGCONT)
    for thread in asking:
        thread.join(TIMEOUT)
    assert len(answers) == len(asking)
    assert set(answers) <= {None, 4}

"""Stores with headers (KIP-1271) on standbys: the heir has every header, after a kill and after a hand-over."""

from __future__ import annotations

import time

import pytest

from instances import Instances, eventually, produce
from killable import headed_rows
from streamsapp import ClientState, StreamsConfig, StreamsRuntime

PARTITIONS, ROWS = 2, 60
#: The beginning of this hour, in milliseconds.
HOUR = int(time.time() // 3_600) * 3_600_000


class Rows:
    """Rows, each with headers of its own, and questions for all of them."""

    def __init__(self, instances: Instances, guarantee: str) -> None:
        self.instances, self.kafka = instances, instances.kafka
        self.topics = [self.kafka.create_topic(name, PARTITIONS) for name in ("rows", "questions", "answers")]
        self._application_id, self._guarantee = self.kafka.unique("rows"), guarantee
        self._asked = 0

    def config(self, name: str) -> StreamsConfig:
        return self.instances.config(
            self._application_id,
            state_dir=self.instances.directory / name,
            client_id=name,
            host_id=name,
            standby_replicas=1,
            acceptable_recovery_lag=100,
            dsl_store_format="headers",
            processing_guarantee=self._guarantee,
        )

    def write(self, rows: range) -> None:
        for number in rows:
            headers = [("number", b"%d" % number), ("none", None)][: number % 3]
            produce(self.kafka, self.topics[0], [(b"k%d" % number, b"row", HOUR + number)], headers)

    def ask(self, known: int) -> None:
        """Each row is found, with its time and its headers."""
        self._asked += 1
        question = b"q%d" % self._asked
        produce(self.kafka, self.topics[1], [(b"k%d" % each, question, HOUR + 9_000) for each in range(known)])
        wanted = {b"k%d" % each: b"%s: %s" % (question, _row(each)) for each in range(known)}
        eventually(lambda: wanted.items() <= self._answers().items(), "the answers")

    def _answers(self) -> dict[bytes | None, bytes | None]:
        return {message.key(): message.value() for message in self.kafka.read(self.topics[2])}


def _row(number: int) -> bytes:
    named = [b"number=%d" % number, b"none=null"][: number % 3]
    return b" ".join([b"row@%d" % (HOUR + number), *named])


def _has_standbys(instance: StreamsRuntime) -> bool:
    """Say whether an instance has caught up with every task of the other one."""
    stores = [store for task in instance.tasks() if task["role"] == "standby" for store in task["stores"]]
    active = [task for task in instance.tasks() if task["role"] == "active"]
    lags = [store["lag"] for store in stores]
    return instance.state is ClientState.RUNNING and bool(active) and bool(lags) and not any(lags)


@pytest.mark.parametrize("killed", [True, pytest.param(False, marks=pytest.mark.long)], ids=["killed", "drained"])
def test_a_standby_that_takes_over_has_the_headers_of_every_row(
    instances: Instances, guarantee: str, killed: bool
) -> None:
    rows = Rows(instances, guarantee)
    names = dict(zip(("rows", "questions", "answers"), rows.topics, strict=True))
    owner = instances.process("headed_rows", rows.config("one"), **names)
    rows.write(range(ROWS))
    rows.ask(ROWS)
    heir = instances.start(headed_rows(**names), rows.config("two"))
    eventually(lambda: owner.assert_running() and _has_standbys(heir))
    rows.write(range(ROWS, ROWS + 10))
    rows.ask(ROWS + 10)

    if killed:
        owner.kill()
    else:
        assert owner.close() == 0

    rows.ask(ROWS + 10)
    found = heir.query("rows", "k5")
    assert (found.value, found.timestamp, found.headers) == ("row", HOUR + 5, [("number", b"5"), ("none", None)])

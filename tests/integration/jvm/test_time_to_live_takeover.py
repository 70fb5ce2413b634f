"""Rows with a time to live change hands: what is over is gone for the JVM, and what it wrote goes in time here."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable

import pytest

from instances import Instances, eventually, long, produce
from jvm import Jvm
from kafka_cluster import Kafka
from killable import count_while_alive

TTL = 1_000
#: Before now: brokers take no times of the future.
BEGIN = int(time.time() * 1000) - 3_600_000


class _Story:
    """Records of keys at times after the beginning, and all updates of their counts that there have to be."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.source, self.sink = kafka.create_topic("in", 1), kafka.create_topic("out", 1)
        self._wanted: list[tuple[bytes, int | None, int]] = []

    def count(self, key: bytes, at: int, *updates: tuple[bytes, int | None, int]) -> None:
        """A record of a key, and the updates that it leads to."""
        produce(self._kafka, self.source, [(key, b"v", BEGIN + at)])
        self._wanted += updates
        eventually(lambda: self._sent() == self._wanted, f"{self._wanted}")

    def _sent(self) -> list[tuple[bytes, int | None, int]]:
        return [
            (message.key() or b"", None if message.value() is None else long(message.value()), at - BEGIN)
            for message in self._kafka.read(self.sink)
            for at in [message.timestamp()[1]]
        ]

    def rows(self, application: str) -> dict[bytes, int]:
        """The changelog, read as any consumer does that knows nothing of times to live."""
        found: dict[bytes, int] = {}
        for message in self._kafka.read(f"{application}-counts-changelog"):
            if message.value() is None:
                found.pop(message.key() or b"", None)
            else:
                found[message.key() or b""] = long(message.value())
        return found


@pytest.mark.parametrize("state", ["wiped", pytest.param("kept", marks=pytest.mark.long)])
def test_rows_that_are_over_are_gone_for_the_jvm_and_those_that_it_wrote_go_in_time(
    kafka: Kafka, instances: Instances, start_jvm: Callable[..., Jvm], guarantee: str, state: str
) -> None:
    story = _Story(kafka)
    config = instances.config(processing_guarantee=guarantee)
    application = config.application_id
    topology = count_while_alive(story.source, story.sink, TTL)

    ours = instances.start(topology, config)
    story.count(b"a", 0, (b"a", 1, 0))
    story.count(b"b", 600, (b"b", 1, 600))
    story.count(b"b", 700, (b"b", 2, 700))
    story.count(b"c", 1_200, (b"a", None, 1_000), (b"c", 1, 1_200))
    assert ours.close()
    assert story.rows(application) == {b"b": 2, b"c": 1}

    theirs = start_jvm((story.source, story.sink), config, "Counts")
    assert theirs.description == topology.describe().to_text()
    story.count(b"a", 1_300, (b"a", 1, 1_300))  # begins anew: the row that was over is not restored
    story.count(b"b", 1_400, (b"b", 3, 1_400))
    story.count(b"d", 1_800, (b"d", 1, 1_800))
    theirs.close()
    assert story.rows(application) == {b"a": 1, b"b": 3, b"c": 1, b"d": 1}

    if state == "wiped":
        shutil.rmtree(config.state_dir)
    ours = instances.start(count_while_alive(story.source, story.sink, TTL), config)
    over = (b"c", None, 2_200), (b"a", None, 2_300), (b"b", None, 2_400)
    story.count(b"d", 2_500, *over, (b"d", 2, 2_500))
    story.count(b"e", 9_000, (b"d", None, 3_500), (b"e", 1, 9_000))
    assert ours.close()
    assert story.rows(application) == {b"e": 1}

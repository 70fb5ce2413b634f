"""An application changes hands between streamsapp and Kafka Streams and back: nothing is lost or counted twice."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from random import Random

import pytest

from instances import Instances, counts_per_key, eventually, long, produce
from jvm import Jvm, Topics, create_topics, topology
from kafka_cluster import Kafka
from streamsapp import StreamsConfig
from streamsapp.record import UNKNOWN_TOPIC
from streamsapp.serdes.offset_metadata import OffsetMetadata

StartJvm = Callable[[Topics, StreamsConfig], Jvm]

PARTITIONS = 2


class Story:
    """Lines that are written bit by bit, and what the program must have made of them."""

    def __init__(self, kafka: Kafka, topics: Topics) -> None:
        self._kafka = kafka
        self._topics = topics
        self._random = Random(11)
        self._lines: list[tuple[str, str]] = []

    def go_on(self, timestamp: int, lines: int = 120) -> None:
        """Write some more lines, from ``timestamp`` on."""
        random = self._random
        chosen = [
            (f"author{random.randrange(9)}", " ".join(f"w{random.randrange(40)}" for _ in range(random.randint(1, 6))))
            for _ in range(lines)
        ]
        self._lines += chosen
        written = [(key.encode(), line.encode(), timestamp + at) for at, (key, line) in enumerate(chosen)]
        produce(self._kafka, self._topics.source, written)

    def is_told(self) -> bool:
        """Says whether everything that was written has arrived in the outputs."""
        lengths = len(self._kafka.read(self._topics.lengths))
        words = len(self._kafka.read(self._topics.counts))
        everything = lengths >= len(self._lines) and words >= sum(len(line.split(" ")) for _, line in self._lines)
        return everything and self._sums() == self._true_sums()

    def check(self) -> None:
        """Every update there must be is there once, in order; results that depend on the order of tasks end right."""
        words = Counter(word for _, line in self._lines for word in line.split(" "))
        counts = counts_per_key(self._kafka.read(self._topics.counts))
        assert counts == {word.encode(): list(range(1, count + 1)) for word, count in words.items()}
        assert counts_per_key(self._kafka.read(self._topics.lengths)) == self._true_lengths()
        assert self._sums() == self._true_sums()

    def _sums(self) -> dict[bytes, int]:
        last = {message.key() or b"": message.value() for message in self._kafka.read(self._topics.parities)}
        return {parity: long(value) for parity, value in last.items()}

    def _true_lengths(self) -> dict[bytes, list[int]]:
        lengths: defaultdict[bytes, list[int]] = defaultdict(list)
        for key, line in self._lines:
            lengths[key.encode()].append(len(line))
        return {key: list(accumulate(each)) for key, each in lengths.items()}

    def _true_sums(self) -> dict[bytes, int]:
        sums = {b"even": 0, b"odd": 0}
        for totals in self._true_lengths().values():
            sums[b"odd" if totals[-1] % 2 else b"even"] += totals[-1]
        return sums


def metadata(kafka: Kafka, group: str, topic: str) -> dict[int, OffsetMetadata]:
    """Returns the metadata that was committed beside the offsets, without the topic, which the JVM does not write."""
    return {
        number: replace(OffsetMetadata.decode(text), topic=UNKNOWN_TOPIC)
        for number, (_, text) in kafka.committed(group, topic).items()
    }


def test_both_sides_describe_the_program_alike(kafka: Kafka, instances: Instances, start_jvm: StartJvm) -> None:
    topics = create_topics(kafka, PARTITIONS)
    assert topology(topics).describe().to_text() == start_jvm(topics, instances.config()).description


@pytest.mark.parametrize("state", ["wiped", pytest.param("kept", marks=pytest.mark.long)])
def test_counts_stay_exact_while_an_application_goes_to_the_jvm_and_comes_back(
    kafka: Kafka, instances: Instances, start_jvm: StartJvm, guarantee: str, state: str
) -> None:
    topics = create_topics(kafka, PARTITIONS)
    config = instances.config(processing_guarantee=guarantee)
    story = Story(kafka, topics)

    story.go_on(timestamp=900_000)
    ours = instances.start(topology(topics), config)
    eventually(story.is_told)
    assert ours.close()
    story.check()
    times = metadata(kafka, config.application_id, topics.source)
    assert min(each.partition_time for each in times.values()) > 900_000

    story.go_on(timestamp=500_000)
    theirs = start_jvm(topics, config)
    eventually(lambda: theirs.assert_running() and story.is_told())
    theirs.close()
    story.check()
    # It read ours: the lines it has seen itself are older.
    assert metadata(kafka, config.application_id, topics.source) == times

    if state == "wiped":
        shutil.rmtree(config.state_dir)
    story.go_on(timestamp=600_000)
    ours = instances.start(topology(topics), config)
    eventually(story.is_told)
    assert ours.close()
    story.check()
    assert metadata(kafka, config.application_id, topics.source) == times

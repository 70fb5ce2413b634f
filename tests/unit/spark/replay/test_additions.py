"""Operators beyond Kafka Streams' give in Spark's stages what they give record by record."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from killable import sift
from staged_replay import Staged
from streamsapp import Serdes, StreamsConfig, TopicPartition
from streamsapp.record import RawRecord
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.testing import TopologyTestDriver

TEXT = Serdes.string()
TOPICS = {name: name for name in ("unique", "pairs", "late", "priced")}
#: Each value three times, under different keys; some records are late.
RECORDS = [(f"k{at % 4}", str(at // 3), max(0, 1_000 * at - (60_000 if at % 50 == 49 else 0))) for at in range(300)]


def staged(directory: Path, partitions: int) -> Staged:
    config = StreamsConfig(application_id="app", bootstrap_servers="unused:9092", state_dir=directory)
    of: dict[TopicPartition, list[RawRecord]] = {TopicPartition("in", each): [] for each in range(partitions)}
    for key, value, time in RECORDS:
        partition = TopicPartition("in", partition_for(key.encode(), partitions))
        place = "in", partition.partition, len(of[partition])
        of[partition].append(RawRecord(*place, key.encode(), value.encode(), time, [("h", b"1")]))
    made = Staged(sift("in", **TOPICS), config, of, {"in": partitions}, directory)
    made.run()
    return made


def test_one_partition_gives_what_the_driver_writes(tmp_path: Path) -> None:
    made = staged(tmp_path, 1)
    with TopologyTestDriver(sift("in", **TOPICS)) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        for key, value, time in RECORDS:
            source.pipe_input(key, value, time, headers=[("h", b"1")])
        for topic in TOPICS:
            written = driver.create_output_topic(topic, TEXT, TEXT).read_records()
            expected = [(each.key.encode(), each.value.encode(), each.timestamp, each.headers) for each in written]
            found = [(record[2], record[1], record[6], record[7]) for record in made.outputs[topic]]
            assert found == expected, topic
            assert found, topic


def test_duplicates_meet_in_the_partition_of_their_id(tmp_path: Path) -> None:
    found = Counter(record[1] for record in staged(tmp_path, 3).outputs["unique"])
    assert found == Counter({value.encode(): 1 for _, value, _ in RECORDS})

"""The partitions that rows and records go to."""

from __future__ import annotations

from streamsapp.outgoing import OutputRecord
from streamsapp.serdes.murmur2 import partition_for
from streamsapp_spark.replay.partitioning import partition_of, repartition_keys


def record(key: bytes | None, partition: int = -1) -> OutputRecord:
    return ("topic", b"value", key, partition, None, None, 5, None)


def test_a_record_goes_where_the_producer_would_send_it() -> None:
    keys = [b"%d" % number for number in range(50)]
    assert [partition_of(record(key), 7, 0) for key in keys] == [partition_for(key, 7) for key in keys]
    assert partition_of(record(b"key", 3), 7, 0) == 3


def test_records_without_a_key_go_to_every_partition_in_turn() -> None:
    assert [partition_of(record(None), 3, sequence) for sequence in range(5)] == [0, 1, 2, 0, 1]


def test_each_task_gets_a_spark_partition_of_its_own() -> None:
    # As Spark 4.0 computes pmod(hash(repartition_key), 4); a test on a real session runs every task once.
    assert repartition_keys(4) == [12, 6, 2, 0]
    assert all(len(set(repartition_keys(number))) == number for number in (1, 2, 3, 10, 64))

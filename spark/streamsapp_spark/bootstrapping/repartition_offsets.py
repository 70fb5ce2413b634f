"""Moves the offsets of a repartition topic on after history, so that they continue those of history.

Used in Spark's Python workers, by a bootstrap. Records that sub-topologies send to each other in history are not
written to the repartition topic; the replay numbers it from 0. Live, the topic would begin at 0 again, and code that
keeps the offset of the last record would see it run backwards. So where a task's code has looked at such an offset, the
partition is moved on: records without content are written, as many as history had, and deleted at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException

from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import StateStoreError
from streamsapp.kafka.retry import repeated
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp_spark.bootstrapping.kafka_output import KafkaOutput

_TIMEOUT = 60.0


def moved_on(
    ends: Mapping[TopicPartition, int], output: KafkaOutput, config: StreamsConfig
) -> dict[TopicPartition, int]:
    """Moves partitions on. ``ends`` has how many records of each partition history had. Returns the ends of the
    partitions now, which are not before. Raises ``StateStoreError`` if the broker does not do it."""
    if not ends:
        return {}
    admin = TopicAdmin(client_properties.admin(config))
    try:
        found = _ends(admin, ends)
        for partition, end in ends.items():
            output.fill(partition, end - found[partition])
        found = _ends(admin, ends)
        for future in admin.delete_records(found):
            future.result(_TIMEOUT)
    except KafkaException as error:
        named = ", ".join(map(str, sorted(ends)))
        raise StateStoreError(f"the offsets of {named} cannot be moved on: {error.args[0].str()}") from error
    finally:
        admin.close()
    return found


def _ends(admin: TopicAdmin, partitions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return repeated(lambda: admin.request_offsets(list(partitions)).result(), "looking up repartition topics")

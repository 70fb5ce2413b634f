#!/usr/bin/env bash
# confluent-kafka 2.16.1: `produce_batch` does not look at the partition of a message.
#
# Its documentation says of a message's 'partition': "Specific partition (optional, overrides batch partition)". All
# messages go where the batch's partition or the hash of their key sends them, and no message gets an '_error'.
# `produce(..., partition=n)` of the same client keeps to the partition.
source "$(dirname "$0")/common.sh"
packages confluent-kafka==2.16.1
"$python" - <<'PYTHON'
from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": "none:9092", "test.mock.num.brokers": 1, "log_level": 0})
producer.list_topics("batch", timeout=60)  # makes the topic, with four partitions
asked = [0, 1, 2, 3, 0, 1, 2, 3]


def partitions(send):
    found = []
    send(lambda error, message: found.append(message.partition()))
    assert producer.flush(60) == 0
    return sorted(found)


def one_by_one(on_delivery):
    for partition in asked:
        producer.produce("batch", value=b"v", key=b"one key", partition=partition, on_delivery=on_delivery)


def as_a_batch(on_delivery):
    messages = [{"value": b"v", "key": b"one key", "partition": partition} for partition in asked]
    assert producer.produce_batch("batch", messages, on_delivery=on_delivery) == len(asked)
    assert not any("_error" in message for message in messages)


single, batch = partitions(one_by_one), partitions(as_a_batch)
print(f"asked for {sorted(asked)}; produce: {single}; produce_batch: {batch}")
if single != sorted(asked) or len(set(batch)) != 1:
    raise SystemExit("this has changed: produce kept to the partitions, and produce_batch sent all to one")
PYTHON

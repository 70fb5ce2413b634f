#!/usr/bin/env bash
# confluent-kafka 2.16.1 (librdkafka 2.16.0): the built-in mock cluster takes transactions, and isolates nothing.
#
# librdkafka's mock cluster (`test.mock.num.brokers`) lists the transactional producer among what it supports, and each
# call succeeds. A consumer with `isolation.level=read_committed` reads the records of an aborted transaction, and the
# offsets of a committed transaction are not there. Tests of exactly once that pass beside it show nothing. It also
# keeps about 5 MB of a partition, and drops older records without a word, whatever the topic is for.
source "$(dirname "$0")/common.sh"
packages confluent-kafka==2.16.1
"$python" - <<'PYTHON'
from confluent_kafka import OFFSET_INVALID, Consumer, Producer, TopicPartition

owner = Producer({"bootstrap.servers": "none:9092", "test.mock.num.brokers": 1, "log_level": 0})
broker = owner.list_topics("results", timeout=60).brokers[1]
owner.list_topics("input", timeout=60)  # makes the topic
client = {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0}

producer = Producer({**client, "transactional.id": "finding"})
producer.init_transactions(60)
producer.begin_transaction()
producer.produce("results", value=b"aborted", partition=0)
producer.flush(60)
producer.abort_transaction(60)

consumer = Consumer({**client, "group.id": "reader", "isolation.level": "read_committed"})
consumer.assign([TopicPartition("results", 0, 0)])
message = consumer.poll(60)
read = message and message.value()

producer.begin_transaction()
producer.send_offsets_to_transaction([TopicPartition("input", 0, 5)], consumer.consumer_group_metadata())
producer.commit_transaction(60)
(committed,) = consumer.committed([TopicPartition("input", 0)], timeout=60)

for _ in range(20):  # 20 MB
    owner.produce("results", value=bytes(1_000_000 - 1_000), partition=1)
    owner.flush(60)
low, high = consumer.get_watermark_offsets(TopicPartition("results", 1), timeout=60)

print(f"read_committed reads {read!r}; committed offset {committed.offset} for 5; 20 MB: offsets {low} to {high}")
if read != b"aborted" or committed.offset != OFFSET_INVALID or not 0 < low < high == 20:
    raise SystemExit("this has changed: the aborted record was read, no offset was committed, old records were gone")
PYTHON
